"""Bounds of indices that are computed from values: clamps, conversions, and where narrow arithmetic wraps."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

H, W, N = tm.params("H W N")
y, x, i = tm.iters("y x i")
SIGNED, UNSIGNED = (tm.int8, tm.int16), (tm.uint8, tm.uint16, tm.uint32, tm.uint64)


def sampled(index, columns, dtype=tm.int32, assume="H >= 2 and W >= 2 and W <= 32768") -> tm.Function:
    """Values of a picture at a column that `index` makes of one computed from a scalar, and beside it."""
    f = tm.Function("sampled", params=[H, W], assume=assume)
    image, by = f.input("image", tm.float32, [H, W]), f.scalar("by", tm.float32)
    column = index(tm.cast(dtype, tm.floor(x * by)))
    value = image[y, column + columns[0]]
    for more in columns[1:]:
        value = value + image[y, column + more]
    f.outputs(f.computation("out", {y: H, x: W}, value))
    return f


def clipped(index, dtype, assume="N >= 1") -> tm.Function:
    """Values of a table at places of a type, which `index` brings inside."""
    f = tm.Function("clipped", params=[N], assume=assume)
    table, at = f.input("table", tm.float32, [N]), f.input("at", dtype, [N])
    f.outputs(f.computation("o", {i: N}, table[index(at[i])]))
    return f


@pytest.mark.parametrize("dtype", [tm.int32, tm.int64])
@pytest.mark.parametrize(
    ("index", "columns", "right"),
    [
        (lambda c: tm.clip(c, 0, W - 1), (0,), True),
        (lambda c: tm.clip(c, 0, W - 2), (0, 1), True),
        (lambda c: tm.clip(c, 1, W - 1), (-1, 0), True),
        (lambda c: tm.select(c < 0, 0, tm.min(c, W - 1)), (0,), True),
        (lambda c: tm.select(c < 1, 0, c - 1), (0,), False),
        (lambda c: tm.clip(c, 0, W - 1), (0, 1), False),
        (lambda c: tm.clip(c, 0, W), (0,), False),
        (lambda c: tm.clip(c, -1, W - 2), (0,), False),
        (lambda c: tm.max(c, 0), (0,), False),
        (lambda c: tm.min(c, W - 1), (0,), False),
        (lambda c: c, (0,), False),
    ],
)
def test_clamps_bring_what_is_computed_inside_and_off_by_one_is_refused(dtype, index, columns, right):
    report = sampled(index, columns, dtype).check()
    assert report.ok is right
    assert right or {violation.kind for violation in report.violations} == {"bounds"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -1.0, 1e9, -1e9])
def test_what_is_accepted_reads_nothing_outside_whatever_the_scalar(value):
    f = sampled(lambda c: tm.clip(c, 0, W - 2), (0, 1))
    image = np.arange(12, dtype=np.float32).reshape(2, 6)
    with np.errstate(all="ignore"):
        column = np.floor(np.arange(6, dtype=np.float32) * np.float32(value))
        wanted = f.evaluate(image, np.float32(value))
    whole = np.where((column >= -(2.0**31)) & (column < 2.0**31), column, -(2.0**31)).astype(np.int64)
    place = np.clip(whole, 0, 4)
    np.testing.assert_array_equal(wanted, image[:, place] + image[:, place + 1])
    np.testing.assert_array_equal(f.compile()(image, np.float32(value)), wanted)


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_size_that_wraps_in_the_type_of_an_index_is_no_bound(dtype):
    largest = np.iinfo(dtype.numpy).max
    report = clipped(lambda v: tm.min(tm.max(v, 0), N - 1), dtype).check()
    assert not report.ok
    assert f"N <= {largest + 1}" in str(report)
    assert clipped(lambda v: tm.min(tm.max(v, 0), N - 1), dtype, f"N >= 1 and N <= {largest + 1}").check().ok
    assert not clipped(lambda v: tm.min(tm.max(v, 0), N - 1), dtype, f"N >= 1 and N <= {largest + 2}").check().ok


def test_that_it_wraps_is_what_happens():
    f = clipped(lambda v: tm.min(tm.max(v, 0), N - 1), tm.int8)
    with pytest.raises(tm.ArgumentError, match="outside"):
        f.evaluate(np.zeros(200, np.float32), np.zeros(200, np.int8))


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED, tm.int64])
def test_a_size_that_wraps_is_never_more_than_it_was(dtype):
    f = clipped(lambda v: tm.max(tm.min(v, N - 1), 0), dtype)
    assert f.check().ok
    table = np.arange(300, dtype=np.float32)
    places = np.linspace(0, 120, 300).astype(dtype.numpy)
    found = f.compile()(table, places)
    np.testing.assert_array_equal(found, f.evaluate(table, places))


@pytest.mark.parametrize(
    ("assume", "trusted"),
    [
        ("N >= 2", True),
        ("N >= 2 and N <= 2147483648", False),
        ("N >= 2 and N <= 2147483649", True),
    ],
)
def test_arithmetic_in_32_bits_is_trusted_only_where_it_may_overflow(assume, trusted):
    f = tm.Function("pairs", params=[N], assume=assume)
    table, at = f.input("table", tm.float32, [N]), f.input("at", tm.int32, [N])
    place = tm.clip(at[i], 0, N - 2)
    f.outputs(f.computation("o", {i: N}, table[place] + table[place + 1]))
    report = f.check()
    assert report.ok
    assert any("32-bit index arithmetic" in line for line in report.trusted) is trusted


def test_an_iterator_that_is_converted_is_itself_where_it_fits():
    def converted(assume: str) -> tm.Report:
        f = tm.Function("converted", params=[N], assume=assume)
        table = f.input("table", tm.float32, [N])
        f.outputs(f.computation("o", {i: N}, table[tm.cast(tm.int16, i)]))
        return f.check()

    assert converted("N <= 32768").ok
    assert "the read is in bounds only where N <= 32768" in str(converted("N <= 32769"))
