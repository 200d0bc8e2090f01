"""Indices that are sums of 32 bits: neighbours are loaded as one vector, and what may wrap around still does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled

N, M, P = tm.params("N M P")
i, p = tm.iters("i p")


def shifted(index: Any) -> tuple[tm.Function, Any]:
    """``o[i] = x[index(i, s)]``, eight at a time; s is the number ``by[0]``."""
    f = tm.Function("f", params=[N])
    by, x = f.input("by", tm.int32, [1], values=(0, 5)), f.input("x", tm.float32, [3 * N + 9])
    o = f.computation("o", {i: N}, x[index(i, by[0])])
    f.outputs(o)
    o.vectorize(i, 8)
    return f, o


SUMS = {
    "sum": lambda i, s: i + s,
    "of the value first": lambda i, s: s + i + 1,
    "difference": lambda i, s: i - s + 4,
    "multiple": lambda i, s: i + 2 * s,
    "converted": lambda i, s: tm.cast(tm.int64, i + s),
}
OTHERS = {
    "clipped": lambda i, s: tm.clip(i + s, 0, 4),
    "quotient": lambda i, s: (i + s) // 2,
    "product": lambda i, s: i + tm.clip(s * s, 0, 4),
}


@pytest.mark.parametrize("index", [*SUMS.values(), *OTHERS.values()], ids=[*SUMS, *OTHERS])
def test_neighbours_are_read_where_they_are(index: Any) -> None:
    f, _ = shifted(index)
    assert f.check().ok
    kernel = f.compile()
    for n, by in ((0, 0), (1, 4), (8, 1), (23, 4)):
        x, given = np.arange(3 * n + 9, dtype=np.float32), np.int32([by])
        np.testing.assert_array_equal(kernel(given, x), f.evaluate(given, x))


@pytest.mark.parametrize("index", SUMS.values(), ids=list(SUMS))
def test_neighbours_are_loaded_as_a_vector(index: Any) -> None:
    f, _ = shifted(index)
    source = f.source()["f.c"]
    assert "load_float32x8(&x[" in source and "TM_GATHER" not in source


def test_no_sanitizer_has_anything_to_say() -> None:
    f, _ = shifted(SUMS["difference"])
    compiled = Compiled(f.show("lowered"), "-O0", *SANITISERS)
    x = np.arange(30, dtype=np.float32)
    found = compiled.sanitised({"N": 7}, by=np.int32([3]), x=x, o=np.zeros(7, np.float32))
    np.testing.assert_array_equal(found["o"], x[1:8])


@pytest.mark.parametrize("dtype", [tm.int8, tm.uint8, tm.uint16, tm.uint32])
def test_sums_that_wrap_around_still_do(dtype: tm.DType) -> None:
    f = tm.Function("f", params=[N])
    a, x = f.input("a", dtype, [N]), f.input("x", tm.int32, [256])
    o = f.computation("o", {i: N}, x[tm.clip(a[i] + a[i], 0, 255 if dtype.limits[1] > 255 else dtype.limits[1])])
    f.outputs(o)
    o.vectorize(i, 4)
    given = np.array([0, 1, 7, dtype.limits[1], dtype.limits[1] - 1, dtype.limits[1] // 2 + 1], dtype.numpy)
    table = np.arange(256, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given, table), f.evaluate(given, table))


def test_a_product_of_32_bits_that_is_clipped_wraps_around() -> None:
    f = tm.Function("f", params=[N])
    a, x = f.input("a", tm.int32, [N]), f.input("x", tm.int32, [100])
    f.outputs(f.computation("o", {i: N}, x[tm.clip(a[i] * a[i], 0, 99)]))
    given, table = np.int32([3, 65536, 46341, -5]), np.arange(100, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given, table), f.evaluate(given, table))


def test_conditions_read_in_64_bits_too() -> None:
    f = tm.Function("f", params=[N])
    by, x = f.input("by", tm.int32, [1], values=(0, 5)), f.input("x", tm.int32, [N + 4])
    f.outputs(f.reduction("n", {}, {p: N}, tm.sum, 1, where=x[p + by[0]] > 3))
    x_ = np.arange(14, dtype=np.int32)
    assert f.compile()(np.int32([2]), x_) == f.evaluate(np.int32([2]), x_) == 8
    assert "int64_t)by[0]" in f.source()["f.c"]
