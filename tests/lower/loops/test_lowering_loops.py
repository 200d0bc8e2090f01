"""Loops, names and values: what comes out of lowering, and that it computes what the algorithm says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.effort import calls
from tests.programs.by_hand import Author, computed, every, iters, part, text
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import ExternFunction, Iter, cast
from tiramisu_py.algorithm.operators import max_, sum_
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.ir import For, Load, Store
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.lower.lowering import lower
from tiramisu_py.program.loops import Combine, Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.locality.compute_at import compute_at
from tiramisu_py.schedule.loops import order, tags
from tiramisu_py.schedule.loops import transforms as loops


def blur() -> Program:
    author = Author("blur", "R C", "R >= 1 and C >= 1")
    R, C = author.params()
    r, c = iters("r c")
    image = author.input("image", ty.float32, [R + 2, C + 2])
    row = (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3
    bx = author.computation("bx", "r c", "0 <= r < R + 2 and 0 <= c < C", row)
    column = (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3
    author.computation("by", "r c", "0 <= r < R and 0 <= c < C", column)
    return author.program("by")


def tiled_blur() -> Program:
    program = loops.tile(blur(), ["by"], ["r", "c"], [32, 256], ["r0", "c0", "r1", "c1"])
    program = tags.tag_loop(tags.parallelize(program, ["by"], ["r0"], Parallel(), ""), ["by"], "c1", Vector(16), "")
    return tags.tag_loop(compute_at(program, "bx", ["bx"], ["by"], "c0", ""), ["bx"], "c", Vector(16), "")


def blurred(image: np.ndarray) -> np.ndarray:
    row = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / np.float32(3)
    return (row[:-2] + row[1:-1] + row[2:]) / np.float32(3)


def product() -> Program:
    author = Author("mm", "N M K", "N >= 1 and M >= 1")
    N, M, K = author.params()
    i, j, k = iters("i j k")
    a, b = author.input("A", ty.float32, [N, K]), author.input("B", ty.float32, [K, M])
    where = "0 <= i < N and 0 <= j < M"
    author.reduction("C", "i j", where, "k", f"{where} and 0 <= k < K", sum_, a[i, k] * b[k, j])
    return author.program("C")


SIZES = [(1, 1), (33, 17), (3, 300)]


@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.parametrize("program", [blur, tiled_blur])
def test_the_blur_equals_numpy_bit_for_bit(program, rows, columns):
    image = np.random.default_rng(0).random((rows + 2, columns + 2), dtype=np.float32)
    got = computed(lower(program()), {"R": rows, "C": columns}, {"image": image})["by"]
    np.testing.assert_array_equal(got, blurred(image))


def test_the_tiled_blur_reads_as_a_person_would_write_it():
    assert text(simplify(lower(tiled_blur()).body)) == (
        "for r0 = 0 .. (R + 31) // 32  [parallel]\n"
        "  for c0 = 0 .. (C + 255) // 256\n"
        "    allocate bx[34, 256]\n"
        "    for r = 32 * r0 .. min(R + 2, 32 * r0 + 34)\n"
        "      for c = 256 * c0 .. min(C, 256 * c0 + 256)  [vector]\n"
        "        # bx[r, c] = (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3\n"
        "        bx[r - 32 * r0, c - 256 * c0] ="
        " (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3.0\n"
        "    for r1 = 0 .. min(32, R - 32 * r0)\n"
        "      for c1 = 0 .. min(256, C - 256 * c0)  [vector]\n"
        "        # by[r, c] = (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3\n"
        "        by[32 * r0 + r1, 256 * c0 + c1] = (bx[r1, c1] + bx[r1 + 1, c1] + bx[r1 + 2, c1]) / 3.0\n"
    )


def test_every_expression_has_a_concrete_type():
    for store in every(lower(tiled_blur()).body, Store):
        for root in (store.value, *store.indices):
            assert not any(node.dtype.weak for node in walk(root))
        assert all(index.dtype == ty.int64 for index in store.indices)
        assert store.value.dtype == ty.float32


@pytest.mark.parametrize(("n", "m", "depth"), [(1, 1, 0), (5, 17, 1), (33, 33, 9)])
def test_a_tiled_product_equals_numpy(n, m, depth):
    program = loops.tile(product(), ["C_update"], ["i", "j"], [32, 32], ["i0", "j0", "i1", "j1"])
    program = loops.split(program, ["C_update"], "k", 8, "k0", "k1")
    program = loops.reorder(program, ["C_update"], ["i0", "j0", "k0", "i1", "k1", "j1"])
    program = tags.parallelize(program, ["C_update"], ["i0"], Parallel(), "")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((n, depth), (depth, m)))
    got = computed(lower(program), {"N": n, "M": m, "K": depth}, {"A": a, "B": b})["C"]
    np.testing.assert_array_equal(got, a @ b)


def test_a_parallel_loop_over_a_reduction_keeps_private_copies():
    program = loops.split(product(), ["C_update"], "k", 8, "k0", "k1")
    program = loops.reorder(program, ["C_update"], ["k0", "i", "k1", "j"])
    program = tags.parallelize(program, ["C_update"], ["k0"], Parallel(combine=Combine.PRIVATE), "")
    function = lower(program)
    parallel = [loop for loop in every(function.body, For) if loop.tag is not None]
    assert [(p.buffer, p.operator.name, p.combine) for p in parallel[0].reductions] == [("C", "sum", Combine.PRIVATE)]
    a, b = np.arange(6 * 20, dtype=np.float32).reshape(6, 20), np.ones((20, 5), np.float32)
    for seed in range(4):
        got = computed(function, {"N": 6, "M": 5, "K": 20}, {"A": a, "B": b}, seed)["C"]
        np.testing.assert_array_equal(got, a @ b)


def test_a_loop_that_does_not_carry_the_reduction_keeps_nothing_private():
    program = tags.parallelize(product(), ["C_update"], ["i"], Parallel(combine=Combine.PRIVATE), "")
    assert all(loop.reductions == () for loop in every(lower(program).body, For))


def test_loops_dealt_out_together_stay_together_where_they_are_adjacent():
    program = loops.tile(product(), ["C_update"], ["i", "j"], [32, 32], ["i0", "j0", "i1", "j1"])
    program = tags.parallelize(program, ["C_update"], ["i0", "j0"], Parallel(), "")
    found = [loop.tag.collapse for loop in every(lower(program).body, For) if isinstance(loop.tag, Parallel)]
    assert found == [2, 0]


def test_loops_whose_bounds_depend_on_each_other_are_not_dealt_out_together():
    author = Author("triangle", "N")
    (N,) = author.params()
    i, j = iters("i j")
    x = author.input("x", ty.float32, [N])
    author.computation("t", "i j", "0 <= j <= i < N", x[i] * x[j])
    program = tags.parallelize(author.program("t"), ["t"], ["i", "j"], Parallel(), "")
    found = [(loop.variable, loop.tag) for loop in every(lower(program).body, For)]
    assert found == [("i", Parallel(collapse=1)), ("j", None)]


def test_a_fused_loop_is_cut_where_a_statement_begins_or_ends():
    author = Author("two", "N", "N >= 1")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N + 2])
    b = author.computation("b", "i", "0 <= i < N + 2", x[i] * 2)
    author.computation("c", "i", "0 <= i < N", b[i] + b[i + 2])
    program = loops.Shift(part("c"), Iter("i"), 2).applied(author.program("c"))
    program = loops.split(order.fuse(program, ["b"], ["c"], "i", ""), ["b", "c"], "i", 4, "i0", "i1")
    function = lower(program)
    assert "if" not in text(function.body).replace("if i0 == 0", "")
    for size in (1, 2, 7, 8):
        values = np.arange(size + 2, dtype=np.float32)
        got = computed(function, {"N": size}, {"x": values})["c"]
        np.testing.assert_array_equal(got, 2 * values[:-2] + 2 * values[2:])


def test_variables_are_unlike_those_around_them_and_unlike_c():
    author = Author("names", "N")
    (N,) = author.params()
    i, j = iters("for x")
    x = author.input("x", ty.float32, [N, N])
    author.computation("y", "for x", "0 <= for < N and 0 <= x < N", x[i, j] + 1)
    program = author.program("y")
    function = lower(program)
    assert [loop.variable for loop in every(function.body, For)] == ["for_1", "x_1"]
    given = np.arange(9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(computed(function, {"N": 3}, {"x": given})["y"], given + 1)


def test_iterators_and_parameters_are_values_too():
    author = Author("ramp", "N")
    (N,) = author.params()
    (i,) = iters("i")
    author.computation("y", "i", "0 <= i < N", cast(ty.float64, i) / 2 + N, dtype=ty.float64)
    program = loops.split(author.program("y"), ["y"], "i", 4, "i0", "i1")
    got = computed(lower(program), {"N": 7}, {})["y"]
    np.testing.assert_array_equal(got, np.arange(7) / 2 + 7)


def test_other_operators_combine_as_they_say():
    author = Author("largest", "N M")
    N, M = author.params()
    i, k = iters("i k")
    x = author.input("x", ty.int16, [N, M])
    points = "0 <= i < N and 0 <= k < M"
    author.reduction("y", "i", "0 <= i < N", "k", points, max_, x[i, k], dtype=ty.int16)
    function = lower(author.program("y"))
    given = np.random.default_rng(0).integers(-99, 99, (4, 7)).astype(np.int16)
    np.testing.assert_array_equal(computed(function, {"N": 4, "M": 7}, {"x": given})["y"], given.max(axis=1))
    assert "# y[i] = max(y[i], x[i, k])" in text(function.body)


@pytest.mark.parametrize("combine", [None, Combine.PRIVATE])
def test_a_reduction_to_a_single_value_needs_no_loop_of_its_own(combine):
    author = Author("share", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float64, [N])
    total = author.reduction("total", "", "", "i", "0 <= i < N", sum_, x[i], dtype=ty.float64)
    author.computation("y", "i", "0 <= i < N", x[i] / total.value(), dtype=ty.float64)
    program = author.program("total", "y")
    if combine:
        program = tags.parallelize(program, ["total_update"], ["i"], Parallel(combine=combine), "")
    got = computed(lower(program), {"N": 4}, {"x": np.arange(4.0)})
    assert got["total"] == 6
    np.testing.assert_array_equal(got["y"], np.arange(4) / 6)


@pytest.mark.parametrize("columns", [0, 1, 5])
def test_a_reduction_may_be_computed_where_it_is_read(columns):
    author = Author("centred", "N M")
    N, M = author.params()
    i, j = iters("i j")
    x = author.input("x", ty.float64, [N, M])
    points = "0 <= i < N and 0 <= j < M"
    row = author.reduction("row", "i", "0 <= i < N", "j", points, sum_, x[i, j], dtype=ty.float64)
    author.computation("y", "i j", points, x[i, j] - row[i], dtype=ty.float64)
    program = compute_at(author.program("y"), "row", ["row_init", "row_update"], ["y"], "i", "")
    given = np.arange(3.0 * columns).reshape(3, columns)
    got = computed(lower(program), {"N": 3, "M": columns}, {"x": given})["y"]
    np.testing.assert_array_equal(got, given - given.sum(axis=1, keepdims=True))


def test_a_loop_runs_backwards_where_it_is_reversed():
    program = loops.Reverse(part("by"), Iter("r")).applied(blur())
    image = np.random.default_rng(0).random((7, 6), dtype=np.float32)
    np.testing.assert_array_equal(computed(lower(program), {"R": 5, "C": 4}, {"image": image})["by"], blurred(image))


def test_scalars_are_passed_and_functions_of_the_user_are_collected():
    author = Author("scaled", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N])
    factor = author.input("factor", ty.float32, [], scalar=True)
    twice = ExternFunction("twice", (ty.float32,), ty.float32, lambda v: v + v, source="float twice(float);")
    author.computation("y", "i", "0 <= i < N", twice(x[i]) * factor.value())
    function = lower(author.program("y"))
    assert [argument.name for argument in function.arguments] == ["x", "factor", "y"]
    assert [extern.name for extern in function.externs] == ["twice"]
    got = computed(function, {"N": 3}, {"x": np.ones(3, np.float32), "factor": np.float32(3)})["y"]
    np.testing.assert_array_equal(got, np.full(3, 6, np.float32))


def test_long_comments_are_cut():
    author = Author("long", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N + 40])
    expr = x[i]
    for k in range(40):
        expr = expr + x[i + k]
    author.computation("y", "i", "0 <= i < N", expr)
    comments = [line for line in text(lower(author.program("y")).body).splitlines() if "#" in line]
    assert len(comments) == 1 and comments[0].endswith(" ...") and len(comments[0]) < 110


@pytest.mark.parametrize("where", ["0 <= i < N and i > N", "0 <= i < N and (i > N or i > N + 1 or i < 0)"])
def test_a_function_that_executes_nothing_has_an_empty_body(where):
    author = Author("nothing", "N")
    author.computation("y", "i", where, iters("i")[0] * 1.0)
    assert every(lower(author.program("y")).body, Store) == []


def pipeline(stages: int) -> Program:
    author = Author("pipeline", "R C", "R >= 1 and C >= 1")
    R, C = author.params()
    r, c = iters("r c")
    last = author.input("x", ty.float32, [R + stages, C + stages])
    for k in range(stages):
        margin = stages - 1 - k
        where = f"0 <= r < R + {margin} and 0 <= c < C + {margin}"
        last = author.computation(f"s{k}", "r c", where, (last[r, c] + last[r, c + 1] + last[r + 1, c]) / 3)
    program = author.program(f"s{stages - 1}")
    for k in range(stages):
        program = loops.tile(program, [f"s{k}"], ["r", "c"], [32, 256], ["r0", "c0", "r1", "c1"])
    return program


def test_a_pipeline_of_tiled_stages_equals_numpy():
    x = np.random.default_rng(0).random((36, 44), dtype=np.float32)
    want = x
    for _ in range(3):
        want = (want[:-1, :-1] + want[:-1, 1:] + want[1:, :-1]) / np.float32(3)
    got = computed(lower(pipeline(3)), {"R": 33, "C": 41}, {"x": x})["s2"]
    np.testing.assert_array_equal(got, want)


def test_the_cost_grows_about_linearly_with_the_number_of_nests():
    def cost(stages: int) -> int:
        program = pipeline(stages)
        return calls(lambda: lower(program))

    assert cost(24) < 6 * cost(6)


def test_loads_name_their_buffers():
    nodes = [node for store in every(lower(blur()).body, Store) for node in walk(store.value)]
    assert {node.buffer for node in nodes if isinstance(node, Load)} == {"image", "bx"}
