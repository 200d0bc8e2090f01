"""What is left of vector loops and unrolled tiles: the shape of the loops that run it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.loop_ir.kernels import least, tiles
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, temporary, updated, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Select
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.ir import Allocate, Assign, Block, Declare, For, If, Mask, Node, Private, Ramp, Store
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.rewriting import Names, all_expressions, walk
from tiramisu_py.passes.loops.full_tiles import full_tiles
from tiramisu_py.passes.loops.unroll import unroll
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.passes.vectors.vectorize import vectorize
from tiramisu_py.program.loops import Combine, Parallel, Unroll, Vector

N, M, i, j, i0, i1 = size("N"), size("M"), var("i"), var("j"), var("i0"), var("i1")
MASK = Vector(8, remainder="mask")
VECTOR = Vector(16, remainder="mask")
SPECIAL = Unroll(remainder="specialize")


def masks(node: Node) -> list[Mask]:
    return [inner for inner in walk(node) if isinstance(inner, Mask)]


def loops(node: Node) -> list[For]:
    return [inner for inner in walk(node) if isinstance(inner, For)]


def of(node: Node, kind: type) -> list[Node]:
    return [inner for inner in walk(node) if isinstance(inner, kind)]


def vectorised(node: Node, register: int = 64) -> Node:
    return vectorize(node, Names(()), register)


# -- sizes that fill their vectors

EVERY = {"vectors": lambda o: o.vectorize(i.name, 8), "copies": lambda o: o.unroll(i.name, 8)}
FILLED = {
    "N % 8 == 0": (lambda n, m: (0, n), True),
    "N % 24 == 0": (lambda n, m: (0, n), True),
    "N % 4 == 0": (lambda n, m: (0, n), False),
    "N % 8 == 3": (lambda n, m: (3, n), True),
    "N % 8 == 5": (lambda n, m: (3, n), False),
    "N % 8 == 0 and M % 16 == 8": (lambda n, m: (0, n + 3 * m), True),
    "N % 8 == 0 and M % 12 == 0": (lambda n, m: (0, n + 3 * m), False),
    "N % 4 == 0 and M % 8 == 0": (lambda n, m: (0, 2 * n + m), True),
    "(N - M) % 8 == 0": (lambda n, m: (m, n), True),
    "(N - M) % 8 == 4": (lambda n, m: (m, n + 4), True),
    "M % 8 == 0": (lambda n, m: (m, n), False),
}
SIZES = ((0, 0), (3, 0), (16, 0), (24, 8), (27, 11), (40, 24), (29, 1), (12, 12), (9, 5), (21, 8), (13, 1), (72, 8))


@pytest.mark.parametrize("way", EVERY)
@pytest.mark.parametrize("assume", FILLED)
def test_a_loop_that_fills_its_vectors_by_what_is_assumed_of_sizes_has_no_rest(assume: str, way: str) -> None:
    bounds, is_filled = FILLED[assume]
    n, m = tm.params("N M")
    at, extent = tm.iters("i")[0], n * 2 + m * 3 + 4
    f = tm.Function("filled", params=[n, m], assume=assume)
    a = f.input("a", tm.float32, [extent])
    o = f.computation("o", {at: bounds(n, m)}, a[at] * 2, shape=[extent])
    f.outputs(o)
    EVERY[way](o)
    assert f.check().ok
    kernel = f.compile()
    assert (str(f.show("lowered")).count("for i in ") == 1) is is_filled
    called = 0
    for sizes in SIZES:
        low, high = bounds(*sizes)
        x = np.arange(sizes[0] * 2 + sizes[1] * 3 + 4, dtype=np.float32)
        try:
            wanted = f.evaluate(a=x, N=sizes[0], M=sizes[1], o=np.zeros_like(x))
        except tm.ArgumentError:
            with pytest.raises(tm.ArgumentError):
                kernel(a=x, N=sizes[0], M=sizes[1], o=np.zeros_like(x))
            continue
        called += 1
        found = kernel(a=x, N=sizes[0], M=sizes[1], o=np.zeros_like(x))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(found[low:high], 2 * x[low:high])
    assert called >= 2


# -- masks


def test_the_rest_is_one_vector_of_which_so_many_lanes_are_active() -> None:
    found = vectorised(loop("i", N, store("y", i, load("x", i)), tag=MASK))
    (strips,) = loops(found)
    (mask,) = masks(found)
    assert (strips.step, str(mask.count), mask.width) == (8, "i_left", 8)
    (test,) = of(found, If)
    assert isinstance(test, If)
    assert str(test.condition) == "N - i_end > 0"
    assert {e.lanes for e in all_expressions(found) if isinstance(e, Ramp)} == {8}


def test_a_short_loop_is_under_masks_alone() -> None:
    tile = loop("i", least(16, N), store("y", i, 1.0), tag=MASK)
    found = vectorised(tile)
    assert not loops(found)
    assert [str(mask.count) for mask in masks(found)] == ["i_left", "i_left - 8"]
    (mask,) = masks(vectorised(loop("i", 5, store("y", i, 1.0), tag=MASK)))
    assert str(mask.count) == "5"


def test_a_loop_that_fills_its_vectors_has_no_mask() -> None:
    assert not masks(vectorised(loop("i", 16, store("y", i, 1.0), tag=MASK)))


def test_parts_of_a_vector_have_masks_of_their_own() -> None:
    body = loop("i", least(16, N), store("y", i, load("x", i)), tag=Vector(16, remainder="mask"))
    found = masks(vectorised(body, register=16))
    assert [(str(mask.count), mask.width) for mask in found] == [
        ("i_left", 4), ("i_left - 4", 4), ("i_left - 8", 4), ("i_left - 12", 4)
    ]  # fmt: skip


def test_lanes_that_run_one_by_one_are_those_that_are_active() -> None:
    half = store("y", i, load("x", i, dtype=ty.float64), ty.float16)
    assert [str(lanes.upper) for lanes in loops(vectorised(loop("i", 5, half, tag=MASK)))] == ["5"]
    found = vectorised(loop("i", least(8, N), half, tag=MASK))
    assert [str(lanes.upper) for lanes in loops(found)] == ["min(i_left, 8)"]


def test_the_rest_of_a_reduction_is_masked_where_nothing_else_is_computed() -> None:
    private = (Private("s", sum_, Combine.PRIVATE),)
    update = updated("s", 0, sum_, load("x", i))
    others = Block((update, store("y", i, load("x", i))))
    masked, scalar = (Vector(8, Combine.PRIVATE, remainder) for remainder in ("mask", "scalar"))
    (found,) = masks(vectorised(loop("i", N, update, tag=masked, reductions=private)))
    assert str(found.count) == "i_left"
    assert not masks(vectorised(loop("i", N, update, tag=scalar, reductions=private)))
    assert not masks(vectorised(loop("i", N, others, tag=masked, reductions=private)))


def test_the_rest_is_scalar_inside_kernels() -> None:
    body = loop("i", N, store("y", i, 1.0), tag=MASK)
    assert masks(vectorize(body, Names(())))
    assert not masks(vectorize(body, Names(()), on_host=False))


def test_a_full_mask_is_none_and_an_empty_one_is_nothing() -> None:
    (written,) = of(simplify(Mask(N - N + 8, 8, store("y", 0, 1.0))), Store)
    assert isinstance(written, Store)
    assert isinstance(simplify(Mask(N, 8, Block(()))), Block)


def test_register_tiles_stay_in_registers_under_masks() -> None:
    c0, c, q = var("c0"), var("c"), var("q")
    low, end = 16 * c0, least(16, N - 16 * c0)
    body = temporary(
        "t",
        (2, 16),
        loop("q", 2, loop("c", end, store("t", (q, c), load("x", q, low + c)), tag=VECTOR), tag=Unroll()),
        loop("c", end, store("y", low + c, load("t", 0, c) + load("t", 1, c)), tag=VECTOR),
    )
    arrays = [given("x", 2, N), result("y", N)]
    found = optimise(function("f", "N", arrays, loop("c0", tiles(N, 16), body))).body
    assert not of(found, Allocate)
    assert masks(found)
    assert len(of(found, Declare)) == 4  # two rows, in full tiles and in the last one
    assert len(of(found, Assign)) == 2


# -- overlapping vectors


def test_the_last_vector_ends_with_the_loop_where_that_is_long_enough() -> None:
    found = vectorised(loop("i", N, store("y", i, load("x", i)), lower=M, tag=Vector(8, remainder="overlap")))
    strips, rest = loops(found)
    assert (strips.step, rest.step) == (8, 1)
    tests = [str(test.condition) for test in of(found, If) if isinstance(test, If)]
    assert tests == ["i_end < N", "N - M >= 8"]
    assert {str(e.base) for e in all_expressions(found) if isinstance(e, Ramp)} == {"i", "N - 8"}


# -- versions of partial tiles


def test_partial_tiles_have_a_version_for_each_extent() -> None:
    tile = loop("i1", least(4, N - 4 * i0), store("y", 4 * i0 + i1, 1.0), tag=SPECIAL)
    found = optimise(function("f", "N", [result("y", N)], loop("i0", tiles(N, 4), tile, tag=Parallel()))).body
    assert [str(test.condition) for test in of(found, If) if isinstance(test, If)] == [
        "N - 4 * i0 >= 4", "N - 4 * i0 >= 3", "N - 4 * i0 >= 2"
    ]  # fmt: skip
    assert len(loops(found)) == 1  # of one iteration, there need not be a test
    assert len(of(found, Store)) == 4 + 3 + 2 + 1


def test_tiles_of_several_extents_become_shorter_together() -> None:
    rows = loop("j", least(6, N - 4 * i0 + 2), store("t", (i0, j), 1.0), tag=SPECIAL)
    tile = loop("i1", least(4, N - 4 * i0), store("y", 4 * i0 + i1, load("t", i0, i1 + 2)), tag=SPECIAL)
    found = full_tiles(loop("i0", tiles(N, 4), rows, tile, tag=Parallel()))
    extents = [str(inner.upper) for inner in loops(found) if inner.variable in ("j", "i1")]
    assert extents[:7] == ["6", "4", "5", "3", "4", "2", "3"]  # a loop of one iteration is none


def test_what_is_left_of_a_factor_has_versions() -> None:
    found = unroll(loop("i", N, store("y", i, 1.0), tag=Unroll(4, "specialize")), Names(()))
    (strips,) = loops(found)
    assert strips.step == 4
    assert len(of(found, Store)) == 4 + 3 + 2 + 1
    assert len(of(found, If)) == 3


def test_tiles_whose_versions_are_too_much_code_have_none() -> None:
    inner = loop("i1", least(64, N - 64 * i0), store("y", (64 * i0 + i1, j), 1.0), tag=SPECIAL)
    wide = loop("j", least(64, M - 64 * i0), inner, tag=SPECIAL)
    found = full_tiles(loop("i0", tiles(N, 64), wide, tag=Parallel()))
    assert len(of(found, Store)) == 2  # all tiles full, or the general version


def test_what_nobody_reads_of_a_window_is_replaced_under_masks() -> None:
    """Of the two vectors of a ring, the second is stored anew before it is read, and its other lanes are not kept."""
    c0, k = var("c0"), var("k")
    strip = loop("c", least(16, N - 16 * c0), store("v", 16 + var("c"), load("x", 16 * c0 + var("c"))), tag=VECTOR)
    out = loop("c", least(9, N - 16 * c0), store("y", 16 * c0 + var("c"), load("v", var("c"))), tag=VECTOR)
    moves = loop("k", 16, store("v", k, load("v", 16 + k)), tag=Vector(16))

    def kept(*body: Node) -> int:
        whole = temporary("v", (32,), loop("c0", tiles(N, 16), *body))
        assert isinstance(whole, Allocate)
        ring = replace(whole, register=True, ring=True)
        found = optimise(function("f", "N", [given("x", N), result("y", N)], ring)).body
        assert not of(found, Allocate)
        return sum(isinstance(e, Select) for e in all_expressions(found))

    assert kept(strip, out, moves) == 0
    assert kept(strip, strip, out, moves) > 0


def test_a_vector_that_is_always_under_one_mask_keeps_no_other_lanes() -> None:
    """24 sums are one whole vector, and one of which 8 lanes are used; a whole vector beside it changes nothing."""

    def kept(started: int) -> int:
        start = loop("a", started, store("v", var("a"), 0.0), tag=VECTOR)
        update = loop("b", 24, updated("v", var("b"), sum_, load("x", 24 * var("k") + var("b"))), tag=VECTOR)
        out = loop("c", 24, store("y", var("c"), load("v", var("c"))), tag=VECTOR)
        whole = temporary("v", (32,), Block((start, loop("k", N, update), out)))
        assert isinstance(whole, Allocate)
        given_ = [given("x", 24 * N), result("y", 24)]
        found = optimise(function("f", "N", given_, replace(whole, register=True))).body
        assert not of(found, Allocate)
        return sum(isinstance(e, Select) for e in all_expressions(found))

    assert kept(24) == 0
    assert kept(32) > 0  # all 16 lanes have been started, and later ones keep what they have
