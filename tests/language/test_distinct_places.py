"""Stores of block programs through tables of distinct places: as NumPy says, or refused with what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl

M, N, D = tm.params("M N D")


@tm.jit
def scattered(place, X, Y, B: tl.constexpr, SHIFT: tl.constexpr = 0, STEP: tl.constexpr = 1):
    """A lane for each element of the table."""
    q = (tl.program_id(0) * B + tl.arange(0, B)) // STEP
    inside = q < place.shape[0]
    at = tl.load(place[q], mask=inside, other=0)
    tl.store(Y[at + SHIFT], 2 * tl.load(X[q], mask=inside, other=0), mask=inside)


@tm.jit
def rows(place, X, Y, B: tl.constexpr):
    """A program for each block of a row, which goes where its place is."""
    r, d = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    inside = d < X.shape[1]
    tl.store(Y[tl.load(place[r]), d], tl.load(X[r, d], mask=inside, other=0) + 1, mask=inside)


@tm.jit
def wanted(place, flag, X, Y, B: tl.constexpr):
    """Elements are stored where a flag says so."""
    q = tl.program_id(0) * B + tl.arange(0, B)
    inside = q < place.shape[0]
    keep = inside & (tl.load(flag[q], mask=inside, other=0) > 0)
    tl.store(Y[tl.load(place[q], mask=inside, other=0)], tl.load(X[q], mask=inside, other=0), mask=keep)


@tm.jit
def unmasked(place, X, Y, B: tl.constexpr):
    q = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(place[q], mask=q < place.shape[0], other=0)
    tl.store(Y[at], tl.load(X[q], mask=q < place.shape[0], other=0))


@tm.jit
def moved(place, X, Y, B: tl.constexpr, BY: tl.constexpr):
    """Places that are as far from the elements of the table for all programs."""
    q = tl.program_id(0) * B + tl.arange(0, B)
    inside = q < place.shape[0]
    tl.store(
        Y[BY + (tl.load(place[q], mask=inside, other=0) - 1) + 1], tl.load(X[q], mask=inside, other=0), mask=inside
    )


@tm.jit
def turned(place, X, Y, B: tl.constexpr, FACTOR: tl.constexpr):
    """Places that are counted from the end, or several apart."""
    q = tl.program_id(0) * B + tl.arange(0, B)
    inside = q < place.shape[0]
    tl.store(Y[7 - FACTOR * tl.load(place[q], mask=inside, other=0)], tl.load(X[q], mask=inside, other=0), mask=inside)


@tm.jit
def drifting(place, X, Y, B: tl.constexpr):
    """Programs that move their places by their own number: two of them may meet."""
    q = tl.program_id(0) * B + tl.arange(0, B)
    inside = q < place.shape[0]
    at = tl.load(place[q], mask=inside, other=0)
    tl.store(Y[at + tl.program_id(0)], tl.load(X[q], mask=inside, other=0), mask=inside)


def placed(kernel: Any = scattered, *, partial: bool = True, **given: Any) -> tuple[tm.Function, Any]:
    facts = {"values": (0, N), "distinct": True, **given.pop("facts", {})}
    f = tm.Function("placed", params=[M, N])
    place = f.input("place", tm.int32, [M], **facts)
    x, y = f.input("x", tm.float32, [M]), f.array("y", tm.float32, [N], partial=partial)
    run = kernel[tl.cdiv(M, 8)](place, x, y, B=8, **given)
    f.outputs(y)
    return f, run


def drawn(count: int, extent: int) -> tuple[Any, Any]:
    random = np.random.default_rng(count)
    return random.permutation(extent)[:count].astype(np.int32), random.normal(size=count).astype(np.float32)


@pytest.mark.parametrize(("count", "extent"), [(0, 0), (1, 1), (8, 8), (11, 15), (33, 40)])
def test_programs_store_to_distinct_places(count: int, extent: int) -> None:
    f, run = placed()
    place, x = drawn(count, extent)
    expected = np.zeros(extent, np.float32)
    expected[place] = 2 * x
    np.testing.assert_array_equal(f.evaluate(place, x, N=extent), expected)
    out = np.zeros(extent, np.float32)
    scattered.interpret[-(-count // 8)](place, x, out, B=8)
    np.testing.assert_array_equal(out, expected)
    if count == 11:
        report = f.check()
        assert report.ok and "declared: the elements of place are distinct" in report.trusted
        assert "y.parallelize(p0)" in tm.recipes.blocks(run, on=tm.cores())
        assert f.check().ok
        np.testing.assert_array_equal(f.compile()(place, x, N=extent), expected)


def test_blocks_of_a_gpu_store_to_distinct_places() -> None:
    f, run = placed()
    f["y"].store_in(tm.GPU_MEMORY)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True)
    place, x = drawn(37, 50)
    expected = np.zeros(50, np.float32)
    expected[place] = 2 * x
    np.testing.assert_array_equal(kernel(place, x, N=50).get(), expected)
    with pytest.raises(tm.ArgumentError, match=r"place\[1\] = 4, which occurs before, but its elements are declared"):
        kernel(np.array([4, 4], np.int32), x[:2], N=50)


def test_an_array_of_the_host_is_not_copied_over() -> None:
    f, run = placed()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    f.derive_transfers()
    found = [each for each in f.check().violations if "copies whole boxes" in each.message]
    assert found and "y.store_in(tm.GPU_MEMORY)" in found[0].repair


@pytest.mark.parametrize(("by", "values"), [(1, (0, N - 1)), (-2, (2, N + 2)), (5, (-5, N - 5))])
def test_places_may_be_moved_by_a_constant(by: int, values: Any) -> None:
    f, run = placed(moved, facts={"values": values}, BY=by)
    extent = 24
    table = (np.random.default_rng(3).permutation(extent)[:11] - by).astype(np.int32)
    table = table[(table >= max(0, -by)) & (table < extent - by)]
    x = np.arange(1.0, len(table) + 1, dtype=np.float32)
    expected, out = np.zeros(extent, np.float32), np.zeros(extent, np.float32)
    expected[table + by] = x
    moved.interpret[2](table, x, out, B=8, BY=by)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(f.evaluate(table, x, N=extent), expected)
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok
    assert "i0 = int64(place[" in f.show("pseudocode")
    np.testing.assert_array_equal(f.compile()(table, x, N=extent), expected)


def test_rows_go_where_their_places_are() -> None:
    f = tm.Function("rows_of", params=[M, N, D])
    place = f.input("place", tm.int32, [M], values=(0, N), distinct=True)
    x, y = f.input("x", tm.float32, [M, D]), f.array("y", tm.float32, [N, D], partial=True)
    run = rows[M, tl.cdiv(D, 16)](place, x, y, B=16)
    f.outputs(y)
    given, places = np.arange(60, dtype=np.float32).reshape(3, 20), np.array([4, 0, 2], np.int32)
    expected = np.zeros((6, 20), np.float32)
    expected[places] = given + 1
    np.testing.assert_array_equal(f.evaluate(places, given, N=6), expected)
    tm.recipes.blocks(run, on=tm.cores())
    assert "i0 = int64(place[p0])" in f.show("pseudocode")
    np.testing.assert_array_equal(f.compile()(places, given, N=6), expected)


def test_a_mask_may_be_made_of_other_values() -> None:
    f = tm.Function("some", params=[M, N])
    place = f.input("place", tm.int32, [M], values=(0, N), distinct=True)
    flag, x = f.input("flag", tm.int32, [M]), f.input("x", tm.float32, [M])
    y = f.array("y", tm.float32, [N], partial=True)
    run = wanted[tl.cdiv(M, 8)](place, flag, x, y, B=8)
    f.outputs(y)
    places, numbers = drawn(11, 12)
    flags = np.arange(11, dtype=np.int32) % 3 - 1
    expected, out = np.zeros(12, np.float32), np.zeros(12, np.float32)
    expected[places[flags > 0]] = numbers[flags > 0]
    wanted.interpret[2](places, flags, numbers, out, B=8)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(f.evaluate(places, flags, numbers, N=12), expected)
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok
    np.testing.assert_array_equal(f.compile()(places, flags, numbers, N=12), expected)


def permuted(**given: Any) -> tm.Function:
    f = tm.Function("permuted", params=[M])
    order = f.input("order", tm.int32, [M], permutation=True, distinct=given.pop("distinct", True))
    x, y = f.input("x", tm.float32, [M]), f.array("y", tm.float32, [M])
    scattered[given.pop("grid", tl.cdiv(M, 8))](order, x, y, B=8, **given)
    f.outputs(y)
    return f


def test_a_permutation_fills_the_whole_array() -> None:
    f = permuted()
    assert f.check().ok
    order, x = drawn(19, 19)
    found = f.evaluate(order, x)
    np.testing.assert_array_equal(found[order], 2 * x)
    np.testing.assert_array_equal(f.compile()(order, x), found)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: placed(facts={"distinct": False}), r"through place, at place\[.*two programs may store one element.*dis"),
    (lambda: placed(facts={"distinct": False, "monotone": True}), "no two elements of place are equal, declare it so"),
    (lambda: placed(facts={"values": None}), r"elements of place are places in y.*declare place with values=\(0, N\)"),
    (lambda: placed(facts={"values": (0, N + 1)}), r"declare place with values=\(0, N\)"),
    (lambda: placed(facts={"values": (-1, N)}), r"declare place with values=\(0, N\)"),
    (lambda: placed(partial=False), "known from the values of place alone: declare it with partial=True"),
    (lambda: placed(SHIFT=1), r"places in y, 1 after each, .*declare place with values=\(-1, N - 1\)"),
    (lambda: placed(SHIFT=-1, facts={"values": (0, N + 1)}), r"y, 1 before each, .*place with values=\(1, N \+ 1\)"),
    (lambda: placed(turned, FACTOR=1), "or a constant from each"),
    (lambda: placed(turned, FACTOR=2), "or a constant from each"),
    (lambda: placed(drifting), "store at its elements, or a constant from each"),
    (lambda: placed(SHIFT=1, facts={"values": (0, N - 1)}, partial=False), "known from the values of place alone"),
    (lambda: placed(STEP=2), r"programs \(0\) and \(0\) store one element of y, at the same place of place, at M = 1"),
    (lambda: placed(unmasked), "through place, at "),
    (lambda: permuted(distinct=False), "no two elements of order are equal, declare it so, distinct=True"),
    (lambda: permuted(grid=M // 8), r"no program stores the element of y at order\[0\], at M = 1"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_stores_that_may_meet_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(tm.DeclarationError, match=words) as found:
        make()
    assert "`tl.store(Y[" in str(found.value)
