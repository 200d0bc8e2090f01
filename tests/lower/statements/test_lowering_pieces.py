"""Selects with affine conditions: boundary and interior come out as loops of their own, without branches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.oracle.judges.executed_instances import asked_for, executions
from tests.programs.by_hand import Author, computed, every, iters, text
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Expr, Iter, Select, select
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.dependence.cases import MOST_BODIES
from tiramisu_py.ir import For, If, Load, LoopFunction, Store
from tiramisu_py.lower.lowering import lower
from tiramisu_py.lower.statements.index_set_splitting import pieces_of
from tiramisu_py.program.loops import Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.loops import tags
from tiramisu_py.schedule.loops import transforms as loops

SIZES = [(1, 1), (2, 5), (3, 1), (33, 65), (40, 7)]


def stencil(kind: str = "nested") -> Program:
    """The sum of four neighbours inside, a copy on the edge."""
    author = Author("stencil", "R C", "R >= 1 and C >= 1")
    R, C = author.params()
    r, c = iters("r c")
    x = author.input("x", ty.float32, [R, C])
    inner = x[r - 1, c] + x[r + 1, c] + x[r, c - 1] + x[r, c + 1]
    if kind == "nested":
        expr = select(c == C - 1, x[r, c], inner)
        for edge in (c == 0, r == R - 1, r == 0):
            expr = select(edge, x[r, c], expr)
    else:
        expr = select((r > 0) & (r < R - 1) & (c > 0) & (c < C - 1), inner, x[r, c])
    author.computation("y", "r c", "0 <= r < R and 0 <= c < C", expr)
    return author.program("y")


def tiled(program: Program) -> Program:
    program = loops.tile(program, ["y"], ["r", "c"], [32, 64], ["r0", "c0", "r1", "c1"])
    return tags.tag_loop(tags.parallelize(program, ["y"], ["r0"], Parallel(), ""), ["y"], "c1", Vector(8), "")


def expected(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    if min(x.shape) > 2:
        y[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return y


def selects(function: LoopFunction) -> list[Expr]:
    values = [node for store in every(function.body, Store) for node in walk(store.value)]
    return [node for node in values if isinstance(node, Select)]


@pytest.mark.parametrize("kind", ["nested", "conjunction"])
@pytest.mark.parametrize("change", [lambda p: p, tiled])
def test_a_stencil_with_four_edges_equals_numpy(kind, change):
    function = lower(change(stencil(kind)))
    for rows, columns in SIZES:
        x = np.random.default_rng(rows).random((rows, columns), dtype=np.float32)
        np.testing.assert_array_equal(computed(function, {"R": rows, "C": columns}, {"x": x})["y"], expected(x))


@pytest.mark.parametrize("kind", ["nested", "conjunction"])
@pytest.mark.parametrize("change", [lambda p: p, tiled])
def test_inner_loops_have_no_branches_and_the_code_stays_small(kind, change):
    function = lower(change(stencil(kind)))
    assert selects(function) == []
    innermost = [loop for loop in every(function.body, For) if not every(loop.body, For)]
    assert not any(every(loop.body, If) for loop in innermost)
    assert len(every(function.body, Store)) <= 6


@pytest.mark.parametrize("kind", ["nested", "conjunction"])
@pytest.mark.parametrize("change", [lambda p: p, tiled])
def test_the_pieces_run_in_the_order_of_the_whole(kind, change):
    program = change(stencil(kind))
    for rows, columns in SIZES:
        sizes = {"R": rows, "C": columns}
        assert executions(program, sizes) == asked_for(program, sizes)


def heat() -> Program:
    author = Author("heat", "T N", "N >= 1")
    _, N = author.params()
    t, i = iters("t i")
    x = author.input("x", ty.float32, [N])
    h = author.computation("h", "t i", "0 <= t <= T and 0 <= i < N", x[i])
    mean = (h[t - 1, i - 1] + h[t - 1, i] + h[t - 1, i + 1]) / 3
    expr = select(t == 0, x[i], select(i == 0, h[t - 1, i], select(i == N - 1, h[t - 1, i], mean)))
    declared = replace(author.algorithm.computations["h"], expr=expr)
    author.algorithm = replace(author.algorithm, computations={"h": declared})
    return author.program("h")


def test_heat_with_three_conditions_is_four_loops():
    function = lower(heat())
    assert selects(function) == []
    assert [loop.variable for loop in every(function.body, For)] == ["i", "t", "i"]
    for steps, size in [(0, 1), (3, 1), (4, 2), (5, 9)]:
        x = np.random.default_rng(size).random(size, dtype=np.float32)
        want = [x]
        for _ in range(steps):
            last, new = want[-1], want[-1].copy()
            new[1:-1] = (last[:-2] + last[1:-1] + last[2:])[: max(size - 2, 0)] / np.float32(3)
            want.append(new)
        np.testing.assert_array_equal(computed(function, {"T": steps, "N": size}, {"x": x})["h"], np.array(want))


def padded() -> Program:
    author = Author("padded", "R C", "R >= 1 and C >= 1")
    R, C = author.params()
    r, c = iters("r c")
    x = author.input("x", ty.float32, [R, C])
    up, down = select(r > 0, x[r - 1, c], 0), select(r < R - 1, x[r + 1, c], 0)
    left, right = select(c > 0, x[r, c - 1], 0), select(c < C - 1, x[r, c + 1], 0)
    author.computation("y", "r c", "0 <= r < R and 0 <= c < C", up + down + left + right)
    return author.program("y")


def test_independent_conditions_are_split_up_to_a_limit_interior_first():
    program = padded()
    pieces = pieces_of(program, program.statements["y"])
    assert len({id(piece.body) for piece in pieces}) <= MOST_BODIES
    function = lower(program)
    reads = [[type(e) for e in walk(store.value)] for store in every(function.body, Store)]
    assert any(Select not in kinds and kinds.count(Load) == 4 for kinds in reads)  # all four, without a condition
    for rows, columns in [(1, 1), (3, 5), (6, 2)]:
        x = np.random.default_rng(0).random((rows, columns), dtype=np.float32)
        edge = np.pad(x, 1)
        want = ((edge[:-2, 1:-1] + edge[2:, 1:-1]) + edge[1:-1, :-2]) + edge[1:-1, 2:]
        np.testing.assert_array_equal(computed(function, {"R": rows, "C": columns}, {"x": x})["y"], want)


@pytest.mark.parametrize("change", [lambda p: p, tiled])
def test_more_cases_than_are_cut_have_conditions_that_are_the_same_along_the_innermost_loop(change):
    author = Author("terms", "R C", "R >= 5 and C >= 5")
    R, C = author.params()
    r, c = iters("r c")
    x = author.input("x", ty.float32, [R, C])
    near = [(a, b) for a in range(-2, 3) for b in range(-2, 3)]
    held = [(r + a >= 0) & (r + a < R) & (c + b >= 0) & (c + b < C) for a, b in near]
    terms = [select(where, x[r + a, c + b], 0) for where, (a, b) in zip(held, near, strict=True)]
    author.computation("y", "r c", "0 <= r < R and 0 <= c < C", sum(terms[1:], start=terms[0]))
    program = change(author.program("y"))
    function = lower(program)
    stores = every(function.body, Store)
    assert len(stores) <= 25
    assert any(not any(isinstance(e, Select) for e in walk(store.value)) for store in stores)  # the inside
    left = [e.condition for store in stores for e in walk(store.value) if isinstance(e, Select)]
    assert left and not any(isinstance(e, Iter) and e.name.startswith("c") for each in left for e in walk(each))
    for rows, columns in [(5, 5), (6, 9), (35, 67)]:
        sizes = {"R": rows, "C": columns}
        assert executions(program, sizes) == asked_for(program, sizes)
        given = np.random.default_rng(0).integers(-4, 5, (rows, columns)).astype(np.float32)
        edge = np.pad(given, 2)
        want = sum(edge[2 + a : 2 + a + rows, 2 + b : 2 + b + columns] for a, b in near)
        np.testing.assert_array_equal(computed(function, sizes, {"x": given})["y"], want)


def test_a_condition_that_always_holds_leaves_one_branch():
    author = Author("always", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N])
    author.computation("y", "i", "0 <= i < N", select(i >= 0, x[i], x[i - 1]))
    assert text(lower(author.program("y")).body).count("y[i] = x[i]\n") == 2  # the comment and the store


def test_conditions_on_values_stay_in_place():
    author = Author("clamp", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N])
    author.computation("y", "i", "0 <= i < N", select(x[i] > 0, x[i], 0))
    function = lower(author.program("y"))
    assert len(selects(function)) == 1
    x = np.array([-1, 2, -3], np.float32)
    np.testing.assert_array_equal(computed(function, {"N": 3}, {"x": x})["y"], np.maximum(x, 0))


def test_a_branch_keeps_the_type_that_the_select_gives_it():
    author = Author("types", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x, w = author.input("x", ty.float32, [N]), author.input("w", ty.float64, [N])
    third = select(i == 0, w[i], x[i]) / 3
    author.computation("y", "i", "0 <= i < N", third, dtype=ty.float64)
    given = np.array([1, 2], np.float32)
    got = computed(lower(author.program("y")), {"N": 2}, {"x": given, "w": given.astype(np.float64)})["y"]
    np.testing.assert_array_equal(got, given.astype(np.float64) / 3)


def test_a_clamped_index_stays_an_index():
    author = Author("clamped", "N", "N >= 1")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N])
    author.computation("y", "i", "0 <= i < N", x[select(i == 0, 0, i - 1)])
    program = author.program("y")
    got = computed(lower(loops.split(program, ["y"], "i", 4, "i0", "i1")), {"N": 6}, {"x": np.arange(6, dtype="f4")})
    np.testing.assert_array_equal(got["y"], [0, 0, 1, 2, 3, 4])


@pytest.mark.parametrize("change", [lambda p: p, tiled])
def test_a_border_is_four_strips(change):
    author = Author("border", "R C", "R >= 1 and C >= 1")
    R, C = author.params()
    r, c = iters("r c")
    x = author.input("x", ty.float32, [R, C])
    where = "0 <= r < R and 0 <= c < C and (r = 0 or r = R - 1 or c = 0 or c = C - 1)"
    author.computation("y", "r c", where, x[r, c] + 1, shape=[R, C])
    program = change(author.program("y"))
    function = lower(program)
    assert len(every(function.body, Store)) <= 5
    for rows, columns in SIZES:
        sizes = {"R": rows, "C": columns}
        assert executions(program, sizes) == asked_for(program, sizes)
        x = np.random.default_rng(0).random((rows, columns), dtype=np.float32)
        want = x + np.float32(1)
        want[1:-1, 1:-1] = 0
        np.testing.assert_array_equal(computed(function, sizes, {"x": x})["y"], want)
