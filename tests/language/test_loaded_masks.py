"""Masks that compare loaded values, and stores to runs of a table: as NumPy says, or refused with what is missing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers

M, N, W, Z = tm.params("M N W Z")


@tm.jit
def prefixes(X, Lengths, Y, LANES: tl.constexpr):
    """Sums of the first elements of each row: how many is loaded; the last one may not exist."""
    row, lane = tl.program_id(0), tl.arange(0, LANES)
    inside = lane < tl.load(Lengths[row])
    tl.store(Y[row], tl.sum(tl.load(X[row, lane], mask=inside, other=-1), axis=0))


@tm.jit
def chosen(X, Where, Y, B: tl.constexpr):
    """Conditions on floating-point numbers, which keep what is loaded bit for bit."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    w = tl.load(Where[i], mask=inside, other=0)
    tl.store(Y[i], tl.load(X[i], mask=inside & ((w > 0.5) | (w < -1)), other=7), mask=inside)


@tm.jit
def rows(start, X, Y, B: tl.constexpr, LANES: tl.constexpr):
    """Softmax of row m of the blocks of each run."""
    r, m, lane = tl.program_id(0) // B, tl.program_id(0) % B, tl.arange(0, LANES)
    block = tl.load(start[r]) + lane // B
    inside = block < tl.load(start[r + 1])
    x = tl.load(X[block, m, lane % B], mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y[block, m, lane % B], e / tl.sum(e, axis=0), mask=inside)


def test_the_length_of_a_row_is_loaded() -> None:
    f = tm.Function("prefixes", params=[M, N])
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M])
    lengths = f.input("lengths", tm.int32, [M], values=(0, N + 1))
    run = prefixes[M](x, lengths, y, LANES=8)
    f.outputs(y)
    assert f.check().ok
    a, n = numbers(4, 5), np.array([0, 5, 1, 3], np.int32)
    expected = [row[:k].sum() - (8 - k) for row, k in zip(a, n, strict=True)]
    out = np.zeros(4, np.float32)
    prefixes.interpret[4](a, n, out, LANES=8)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(f.evaluate(a, n), expected)
    assert "y.parallelize(p0)" in tm.recipes.blocks(run, on=tm.cores())
    np.testing.assert_array_equal(f.compile()(a, n), expected)


def test_lengths_beyond_the_row_are_refused() -> None:
    f = tm.Function("prefixes", params=[M, N])
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M])
    prefixes[M](x, f.input("lengths", tm.int32, [M], values=(0, N + 2)), y, LANES=8)
    f.outputs(y)
    (violation, *_) = f.check().violations
    assert violation.kind == "bounds" and "x[0, 0], which is outside the array x" in violation.message, violation


def test_conditions_on_numbers_keep_bits() -> None:
    f = tm.Function("chosen", params=[N])
    x, w, y = f.input("x", tm.float32, [N]), f.input("w", tm.float32, [N]), f.array("y", tm.float32, [N])
    run = chosen[tl.cdiv(N, 8)](x, w, y, B=8)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok
    a = np.array([-0.0, np.nan, -np.inf, 1, 2, 3, -0.0, 5, -0.0, 9, 4], np.float32)
    b = np.array([1, 1, 1, 0, -2, np.nan, 0.75, 0.5, -1, -np.inf, 0], np.float32)
    expected = np.where((b > 0.5) | (b < -1), a, np.float32(7))
    for found in (f.evaluate(a, b), f.compile()(a, b)):
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def row_softmax(**changed: Any) -> tuple[tm.Function, Any]:
    f = tm.Function("sparse_rows", params=[W, Z])
    facts = {"values": (0, Z + 1), "monotone": True, **changed}
    partial = facts.pop("partial", True)
    table = f.input("table", tm.int32, [W + 1], **facts)
    x, y = f.input("x", tm.float32, [Z, 4, 4]), f.array("y", tm.float32, [Z, 4, 4], partial=partial)
    run = rows[4 * W](table, x, y, B=4, LANES=16)
    f.outputs(y)
    return f, run


@pytest.mark.parametrize("table", [[0, 3, 3, 7], [0, 0, 4, 5], [0]], ids=["three", "two", "none"])
def test_programs_store_to_runs_of_a_table(table: list[int]) -> None:
    f, run = row_softmax()
    report = f.check()
    assert report.ok and "declared: table is monotone" in str(report), report
    starts = np.array(table, np.int32)
    x = np.random.default_rng(2).normal(size=(table[-1], 4, 4)).astype(np.float32)
    parts = [np.exp(x[a:b]) for a, b in pairwise(table)]
    expected = np.concatenate([x[:0], *(each / each.sum((0, 2), keepdims=True) for each in parts)])
    found = f.evaluate(starts, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    out = np.zeros_like(x)
    with np.errstate(invalid="ignore"):
        rows.interpret[4 * (len(table) - 1)](starts, x, out, B=4, LANES=16)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert "y.parallelize(run)" in tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok
    np.testing.assert_allclose(f.compile()(starts, x), expected, rtol=1e-5)


@tm.jit
def to_runs(start, X, Y, B: tl.constexpr, END: tl.constexpr = 1, SHIFT: tl.constexpr = 0, STEP: tl.constexpr = 1):
    r, lane = tl.program_id(0), tl.arange(0, B)
    at = tl.load(start[r]) + (lane // STEP + SHIFT)
    if END > 0:
        tl.store(Y[at], tl.load(X[r]), mask=at < tl.load(start[r + END]))
    else:
        tl.store(Y[at], tl.load(X[r]))


def repeated(*, monotone: bool = True, partial: bool = True, more: int = 0, **constants: Any) -> tuple[Any, Any]:
    f = tm.Function("repeated", params=[W, Z])
    start = f.input("start", tm.int32, [W + 1], values=(0, Z + 1), monotone=monotone)
    x, y = f.input("x", tm.float32, [W + 2]), f.array("y", tm.float32, [Z + more], partial=partial)
    run = to_runs[W](start, x, y, B=8, **constants)
    f.outputs(y)
    return f, run


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: repeated(monotone=False), "through start, whose elements may be in any order.*monotone=True"),
    (lambda: repeated(END=0), r"from start\[p0\] on, without an end.*add .* < start\[p0 \+ 1\] to its mask="),
    (lambda: repeated(END=2), r"from start\[p0\] on, without an end"),
    (lambda: repeated(SHIFT=-1), r"program \(0\) stores to y in run 0 of start at offset -1.*before its run begins"),
    (lambda: repeated(STEP=2), r"programs \(0\) and \(0\) store one element of y, at W = 1"),
    (lambda: repeated(partial=False), "known from the values of start alone: declare it with partial=True"),
    (lambda: repeated(more=1), r"which has Z \+ 1 elements along axis 0: declare start with values=\(0, Z \+ 2\)"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_runs_that_may_overlap_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(tm.DeclarationError, match=words) as found:
        make()
    assert "of to_runs, `tl.store" in str(found.value)


def test_elements_of_runs_are_read_by_computations_alone() -> None:
    f = tm.Function("run_reads", params=[W, Z])
    start = f.input("start", tm.int32, [W + 1], values=(0, Z + 1), monotone=True)
    x, y = f.input("x", tm.float32, [W + 2]), f.array("y", tm.float32, [Z], partial=True)
    to_runs[W](start, x, y, B=8)
    with pytest.raises(tm.DeclarationError, match=r"kept as a table says: read them in a computation, as y\[run"):
        chosen[1](y, x, f.array("v", tm.float32, [Z]), B=8)
    f.outputs(y)
    found = f.evaluate(np.array([0, 2, 2, 9], np.int32), np.array([3, 4, 5, 0, 0], np.float32), Z=9)
    np.testing.assert_array_equal(found, [3, 3, 5, 5, 5, 5, 5, 5, 5])


@tm.jit
def blocks_of_rows(row, X, Y, B: tl.constexpr):
    """A block of rows that a table names; the last one may be cut."""
    e, i = tl.program_id(0), tl.arange(0, B)
    at = tl.load(row[e]).to(tl.int64) * B + i
    tl.store(Y[e, i], tl.load(X[at], mask=at < X.shape[0], other=-1))


def test_a_mask_of_a_multiple_of_what_is_loaded_restricts_the_read() -> None:
    L, R, E = tm.params("L R E")
    f = tm.Function("blocks_of_rows", params=[L, R, E])
    row, x = f.input("row", tm.int32, [E], values=(0, R)), f.input("x", tm.float32, [L])
    y = f.array("y", tm.float32, [E, 4])
    run = blocks_of_rows[E](row, x, y, B=4)
    f.outputs(y)
    assert f.check().ok, f.check()
    a, rows_of = numbers(10), np.array([2, 0, 2, 1], np.int32)
    expected = np.pad(a, (0, 2), constant_values=-1).reshape(3, 4)[rows_of]
    out = np.zeros((4, 4), np.float32)
    blocks_of_rows.interpret[4](rows_of, a, out, B=4)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(f.evaluate(rows_of, a, R=3), expected)
    tm.recipes.blocks(run, on=tm.cores())
    np.testing.assert_array_equal(f.compile()(rows_of, a, R=3), expected)


@tm.jit
def rows_of_32_bits(row, X, Y, B: tl.constexpr, WIDE: tl.constexpr, MANY: tl.constexpr):
    e, i = tl.program_id(0), tl.arange(0, B)
    m = tl.load(row[e])
    m = m.to(tl.int64) if WIDE else m
    at = m * B + i if MANY else m
    x = tl.load(X[at], mask=at < X.shape[0], other=-1)
    tl.store(Y[e, i], x + tl.zeros((B,), tl.float32))


@pytest.mark.parametrize("many", [False, True], ids=["alone", "multiplied"])
def test_a_mask_of_integers_of_32_bits_that_may_overflow_is_refused_with_the_conversion(many: bool) -> None:
    """A size does not fit into 32 bits, either."""
    L, R, E = tm.params("L R E")
    for wide in (False, True):
        f = tm.Function("rows_of_32_bits", params=[L, R, E])
        row, x = f.input("row", tm.int32, [E], values=(0, R)), f.input("x", tm.float32, [L])
        y = f.array("y", tm.float32, [E, 4])
        rows_of_32_bits[E](row, x, y, B=4, WIDE=wide, MANY=many)
        f.outputs(y)
        found = f.check().violations
        assert [each.kind for each in found] == ([] if wide else ["bounds"]), found
        assert all(each.repair.endswith("so convert them: tl.load(row[..]).to(tl.int64)") for each in found), found
    a, names = numbers(10), np.array([2, 0, 2, 1], np.int32)
    expected = np.zeros((4, 4), np.float32)
    rows_of_32_bits.interpret[4](names, a, expected, B=4, WIDE=True, MANY=many)
    np.testing.assert_array_equal(f.evaluate(names, a, R=3), expected)


@tm.jit
def through_tables(start, name, X, Y, B: tl.constexpr):
    """A run of a table, each element of which names what is loaded: scalars under masks, as indices."""
    r, lane = tl.program_id(0), tl.arange(0, B)
    at = tl.load(start[r]) + lane
    inside = at < tl.load(start[r + 1])
    n = tl.load(name[at], mask=inside, other=0)
    tl.store(Y[r], tl.sum(tl.load(X[n], mask=inside, other=0), axis=0))


@tm.jit
def loops_over_runs(start, name, X, Y):
    r, total = tl.program_id(0), 0.0
    for e in tl.range(tl.load(start[r]), tl.load(start[r + 1])):
        total = total + tl.load(X[tl.load(name[e])])
    tl.store(Y[r], total)


@pytest.mark.parametrize("kernel", [through_tables, loops_over_runs], ids=lambda kernel: kernel.__name__)
def test_elements_of_a_run_are_indices(kernel: Any) -> None:
    f = tm.Function("through_tables", params=[W, Z, N], assume="N >= 1")
    start = f.input("start", tm.int32, [W + 1], values=(0, Z + 1), monotone=True)
    name, x = f.input("name", tm.int32, [Z], values=(0, N)), f.input("x", tm.float32, [N])
    y = f.array("y", tm.float32, [W])
    constants = {"B": 4} if kernel is through_tables else {}
    run = kernel[W](start, name, x, y, **constants)
    f.outputs(y)
    assert f.check().ok, f.check()
    starts, names, a = np.array([0, 3, 3, 7], np.int32), np.array([4, 0, 1, 1, 4, 2, 3], np.int32), numbers(5)
    expected = np.array([a[names[begin:end]].sum() for begin, end in pairwise(starts)], np.float32)
    out = np.zeros(3, np.float32)
    kernel.interpret[3](starts, names, a, out, **constants)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(f.evaluate(starts, names, a), expected)
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile()(starts, names, a), expected)
