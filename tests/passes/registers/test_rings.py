"""Windows of registers in the loop IR: constant indices, moves, shifted vectors, and what stays an array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import Compiled
from tests.programs.loop_ir.short_names import function, given, load, loop, number, result, size, store, temporary, var
from tests.programs.pipelines import blur, c, c0, c1, r, r0, r1
from tests.schedule.locality.test_sliding import window
from tiramisu_py.algorithm.types import int64
from tiramisu_py.interpret import run
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Block,
    Declare,
    For,
    If,
    Let,
    Load,
    LoopFunction,
    Mask,
    Node,
    Ramp,
    Shifted,
    Store,
)
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.rewriting import all_expressions, children, walk
from tiramisu_py.lower import lower
from tiramisu_py.passes.loops.peel import cut_prologues
from tiramisu_py.passes.pipeline import optimise

N, i = size("N"), var("i")
ZERO, ONE = number(0), number(1)


def _shifts(function: LoopFunction) -> set[int]:
    return {e.by for e in all_expressions(function.body) if isinstance(e, Shifted)}


def _arrays(function: LoopFunction) -> list[str]:
    return [node.buffer for node in walk(function.body) if isinstance(node, Allocate)]


def _touches(node: Node, buffer: str) -> bool:
    stores = any(isinstance(inner, Store) and inner.buffer == buffer for inner in walk(node))
    return stores or any(isinstance(e, Load) and e.buffer == buffer for e in all_expressions(node))


def test_full_strips_are_named_vectors_and_unaligned_reads_are_lane_shifts() -> None:
    function = window().f.show("lowered")
    assert _shifts(function) == {1, 2}
    loops = [n for n in walk(function.body) if isinstance(n, For) and n.variable == "c0"]
    in_registers = [n for n in loops if not _touches(n, "v")]
    assert in_registers, "the loop over full strips has v in variables"
    moved = [n for n in walk(in_registers[0]) if isinstance(n, Assign) and n.variable == "v_0_0"]
    assert [str(n.value) for n in moved] == ["v_0_1"]
    assert len(loops) > len(in_registers), "the last strip, which is not full, has v as an array"


def test_under_masks_the_whole_tile_is_in_registers() -> None:
    function = window(remainder="mask").f.show("lowered")
    tiles = [n for n in walk(function.body) if isinstance(n, For) and n.variable == "r0"]
    in_registers = [n for n in tiles if not any(isinstance(inner, Allocate) for inner in walk(n))]
    assert in_registers, "tiles with all their rows need no array, others do"
    assert any(isinstance(n, Mask) or "_left" in getattr(n, "variable", "") for n in walk(in_registers[0]))


def _sums_of_sums() -> tm.Function:
    """Sums along rows of a window of sums down columns: the first vector of the window in a row is a few lanes."""
    (R, C), (y, x, x0, x1) = tm.params("R C"), tm.iters("y x x0 x1")
    f = tm.Function("sums", params=[R, C])
    rows = f.input("rows", tm.float32, [R + 1, C + 3])
    total = f.computation("total", [y, x], rows[y, x + 1] + 2 * rows[y + 1, x + 1])
    out = f.computation("out", {y: R, x: C}, total[y, x - 1] + 3 * total[y, x] + 5 * total[y, x + 2])
    f.outputs(out)
    out.split(x, 8, x0, x1)
    out.vectorize(x1, 8, remainder="mask")
    total.compute_at(out, x0)
    total.slide(x0, x, 8)
    total.store_in(tm.REGISTER)
    total.vectorize(x, 8, remainder="mask")
    return f


def test_a_window_whose_row_begins_with_a_part_of_a_vector_is_in_registers_in_the_loop_over_the_row() -> None:
    function = _sums_of_sums().show("lowered", 32)
    loops = [n for n in walk(function.body) if isinstance(n, For) and n.variable == "x0"]
    assert any(_touches(loop, "total") for loop in loops), "at its ends it is an array"
    whole = [n for n in loops if not _touches(n, "total") and any(isinstance(e, Shifted) for e in all_expressions(n))]
    assert whole
    assert all(any(isinstance(inner, Assign) for inner in walk(loop)) for loop in whole)


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 16, 17, 43])
def test_a_window_goes_from_its_array_to_registers_and_back(columns: int) -> None:
    rows = np.random.default_rng(columns).integers(0, 50, (3, columns + 3)).astype(np.float32)
    down = rows[:2] + 2 * rows[1:]
    wanted = down[:, :columns] + 3 * down[:, 1 : columns + 1] + 5 * down[:, 3:]
    assert np.array_equal(_sums_of_sums().compile()(rows), wanted)


def test_vectors_in_parts_are_shifted_part_by_part() -> None:
    function = window(width=16, lanes=16).f.show("lowered", 32)
    lanes = {e.low.name: e.high.name for e in all_expressions(function.body) if isinstance(e, Shifted)}
    assert lanes["v_0_0"] == "v_0_1"
    assert lanes["v_0_1"] == "v_0_2"


def test_a_fold_that_no_window_fits_stays_a_fold() -> None:
    m = blur()
    m.by.split(r, 8, r0, r1)
    m.bx.compute_at(m.by, r1)
    m.bx.store_at(m.by, r0)
    m.bx.fold(r, 4)
    m.bx.store_in(tm.REGISTER)
    text = m.f.show("pseudocode")
    assert "% 4" in text
    assert "moves on" not in text


def test_each_iteration_moves_the_window_even_where_nothing_is_computed() -> None:
    """Between two runs of iterations that compute there are others: values still move with each."""
    (C,) = tm.params("C")
    f = tm.Function("gap", params=[C])
    a = f.input("a", tm.int32, [C + 12])
    v = f.computation("v", {c: C + 12}, 2 * a[c])
    q = f.computation("q", "[C] -> { q[c] : 0 <= c < C and (c <= 2 or c >= 7) }", v[c] - v[c + 3])
    f.outputs(q)
    v.compute_at(q, c)
    v.slide(c)
    v.store_in(tm.REGISTER)
    assert f.check().ok
    data = np.arange(24, dtype=np.int32) ** 2
    wanted = f.evaluate(a=data, C=12)
    loops = lower(f.program)
    found = np.zeros_like(wanted)
    run(loops, {"a": data, loops.outputs[0]: found}, {"C": 12})
    np.testing.assert_array_equal(found, wanted)
    kernel = f.compile()
    np.testing.assert_array_equal(kernel(a=data, q=np.zeros_like(wanted)), wanted)


# -- loops that begin with iterations of their own kind


def test_a_loop_is_cut_where_a_test_changes_for_good() -> None:
    body = (store("y", i + 2, 1.0), If(i >= ZERO, store("z", i, 2.0)))
    cut = cut_prologues(loop("i", N, *body, lower=-2), Facts())
    first, rest = (node for node in walk(cut) if isinstance(node, For))
    assert (str(first.lower), str(first.upper)) == ("-2", "0")
    assert (str(rest.lower), str(rest.upper)) == ("0", "N")
    assert not any(isinstance(node, If) for node in walk(cut))
    assert not any(isinstance(node, Store) and node.buffer == "z" for node in walk(first))


@pytest.mark.parametrize(
    "test", [i >= ONE, i > ZERO, ~(i < ONE), i < ONE, i <= ZERO, i <= ZERO, (i >= ONE) & (N > ONE)], ids=str
)
def test_a_cut_loop_does_what_the_loop_did(test: object) -> None:
    node = loop("i", N, If(test, store("y", i + 1, 1.0), store("y", i + 1, 2.0)), lower=-1)  # type: ignore[arg-type]
    for extent in (0, 1, 2, 5):
        cut = cut_prologues(node, Facts())
        assert len([inner for inner in walk(cut) if isinstance(inner, For)]) + (extent == 0) > 0
        found = []
        for body in (node, cut):
            y = np.zeros(extent + 1, np.float32)
            run(function("f", "N", [result("y", N + 1)], body), {"y": y}, {"N": extent})
            found.append(y)
        np.testing.assert_array_equal(found[1], found[0])


# -- masks


def test_a_store_under_a_mask_leaves_the_other_lanes_of_a_variable() -> None:
    lanes = Ramp(number(0), 4)
    whole = Store("p", (lanes,), load("x", lanes), "p")
    part = Mask(N, 4, Store("p", (lanes,), load("x", Ramp(number(4), 4)), "p"))
    out = Store("y", (lanes,), load("p", lanes), "y")
    f = function("f", "N", [given("x", 8), result("y", 4)], temporary("p", (4,), whole, part, out))
    assert _arrays(optimise(f)) == []
    x = np.arange(8, dtype=np.float32)
    for count in range(5):
        y = np.zeros(4, np.float32)
        Compiled(f)({"N": count}, x=x, y=y)
        np.testing.assert_array_equal(y, [*x[4 : 4 + count], *x[count:4]])
    assert N.dtype == int64


def declared(node: Node, around: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """Each variable that a statement declares, with those that are declared around it."""
    for child in node.body if isinstance(node, Block) else children(node):
        found = child.variable if isinstance(child, Declare | Let) else None
        if found is not None:
            yield found, around
            around |= {found}
        yield from declared(child, around)


def test_the_vectors_of_a_window_are_not_named_as_parts_inside_its_loop() -> None:
    R, C = tm.params("R C")
    f = tm.Function("means", params=[R, C])
    x = f.input("x", tm.uint8, [R + 1, C + 1])
    wide = [tm.cast(tm.uint16, x[r + k, c]) for k in range(2)]
    mean = f.computation("mean", {r: R, c: C + 1}, tm.cast(tm.uint8, (wide[0] + wide[1]) >> 1))
    rise = f.computation("rise", {r: R, c: C}, mean[r, c + 1] - mean[r, c])
    f.outputs(rise)
    rise.tile(r, c, 4, 64, r0, c0, r1, c1)
    rise.unroll(r1)
    rise.vectorize(c1, 64)
    mean.compute_at(rise, c0)
    mean.slide(c0, c, 64)
    mean.store_in(tm.REGISTER)
    mean.unroll(r)
    mean.vectorize(c, 64)
    for register in (16, 32, 64):
        found = [
            (name, around) for name, around in declared(f.show("lowered", register).body) if name.startswith("mean_")
        ]
        assert len(found) > 8
        assert [name for name, around in found if name in around] == []
