"""Ranges of indices: shifts, masks and absolute values, permutations, and scalars with declared values."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
(i,) = tm.iters("i")


def picked(index, extent, dtype=None) -> tm.Function:
    """Elements of a table at what `index` makes of the iterator, or of a value of a type."""
    f = tm.Function("picked", params=[N], assume="N >= 1")
    table = f.input("table", tm.int64, [extent])
    of = i if dtype is None else f.input("at", dtype, [N])[i]
    f.outputs(f.computation("o", {i: N}, table[index(of)]))
    return f


@pytest.mark.parametrize(
    ("index", "extent", "wanted"),
    [
        (lambda x: x >> 2, N, lambda x: x >> 2),
        (lambda x: x & 3, 4, lambda x: x & 3),
        (lambda x: 3 & (x - 5), 4, lambda x: 3 & (x - 5)),
        (lambda x: ((x - 9) >> 1) + 5, N + 5, lambda x: ((x - 9) >> 1) + 5),
        (lambda x: abs(x - N + 1), N, lambda x: abs(x - x.size + 1)),
    ],
)
def test_shifts_masks_and_absolute_values_of_iterators_are_known_exactly(index, extent, wanted):
    f = picked(index, extent)
    assert f.check().ok, f.check()
    kernel = f.compile()
    for n in (1, 2, 7, 17):
        size = n if extent is N else n + 5 if not isinstance(extent, int) else extent
        table, places = np.arange(size) * 10, np.arange(n)
        np.testing.assert_array_equal(kernel(table=table, N=n), table[wanted(places)])
        np.testing.assert_array_equal(f.evaluate(table=table, N=n), table[wanted(places)])


@pytest.mark.parametrize("dtype", [tm.int8, tm.uint8, tm.int16, tm.int32, tm.uint32, tm.int64, tm.uint64])
def test_masks_bound_values_of_every_type_and_one_element_less_is_refused(dtype):
    f = picked(lambda x: x & 15, 16, dtype)
    assert f.check().ok, f.check()
    limits = np.iinfo(dtype.numpy)
    at = np.array([limits.min, limits.max, 0, 15, 16, 17], dtype=dtype.numpy)
    table = np.arange(16) * 3
    np.testing.assert_array_equal(f.compile()(table=table, at=at), table[(at & 15).astype(np.int64)])
    refused = picked(lambda x: x & 15, 15, dtype).check()
    assert [violation.kind for violation in refused.violations] == ["bounds"]


@pytest.mark.parametrize(
    ("index", "extent", "dtype", "right"),
    [
        (lambda x: x >> 4, 16, tm.uint8, True),
        (lambda x: x >> 4, 15, tm.uint8, False),
        (lambda x: (tm.cast(tm.int32, x) >> 4) + 8, 16, tm.int8, True),
        (lambda x: x >> 4, 16, tm.int8, False),
        (lambda x: tm.cast(tm.int32, x) * 16 + (x & 15), 4096, tm.uint8, True),
        (lambda x: tm.cast(tm.int32, x) * 16 + (x & 15), 4095, tm.uint8, False),
        (lambda x: x & 5, 6, tm.int32, True),
        (lambda x: x & 5, 5, tm.int32, False),
        (lambda x: x >> 40, 256, tm.int64, False),
    ],
)
def test_shifts_and_masks_of_values_are_in_bounds_or_refused(index, extent, dtype, right):
    assert picked(index, extent, dtype).check().ok is right


def test_a_permutation_has_the_values_of_its_places():
    def gathered(extent) -> tm.Function:
        f = tm.Function("gathered", params=[N], assume="N >= 1")
        order, a = f.input("order", tm.int32, [N], permutation=True), f.input("a", tm.float64, [extent])
        f.outputs(f.computation("o", {i: N}, a[order[i]]))
        return f

    report = gathered(N).check()
    assert report.ok
    assert "declared: order is a permutation" in report.trusted
    assert [violation.kind for violation in gathered(N - 1).check().violations] == ["bounds"]
    order, a = np.array([2, 0, 1], dtype=np.int32), np.arange(3.0)
    kernel = gathered(N).compile()
    np.testing.assert_array_equal(kernel(order, a), a[order])
    with pytest.raises(tm.ArgumentError, match="permutation"):
        kernel(np.array([2, 0, 3], dtype=np.int32), a)


def test_declared_values_of_a_scalar_bound_an_index_and_are_verified():
    def at(high) -> tm.Function:
        f = tm.Function("at", params=[N], assume="N >= 1")
        a, s = f.input("a", tm.float64, [N]), f.scalar("s", tm.int32, values=(0, high))
        f.outputs(f.computation("o", {i: N}, a[s] + a[i]))
        return f

    report = at(N).check()
    assert report.ok
    assert "declared: 0 <= s < N" in report.trusted
    assert not at(N + 1).check().ok
    f, a = at(N), np.arange(3.0)
    kernel = f.compile()
    np.testing.assert_array_equal(kernel(a=a, s=2), a + 2)
    np.testing.assert_array_equal(f.evaluate(a=a, s=2), a + 2)
    for wrong in (-1, 3):
        with pytest.raises(tm.ArgumentError, match="declared to be at least 0 and less than 3"):
            kernel(a=a, s=wrong)
        with pytest.raises(tm.ArgumentError, match="declared to be at least 0 and less than 3"):
            f.evaluate(a=a, s=wrong)
    with pytest.raises(tm.DeclarationError, match="values= is for integers"):
        f.scalar("t", tm.float32, values=(0, 1))
