"""Gathers whose places are sums and products of narrow numbers and of columns, beside NumPy, on each processor."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.c.vectors.test_c_gathers import TARGETS
from tests.backends.compiled import Compiled
from tests.selection import covering

N, M, K = tm.params("N M K")
(i,) = tm.iters("i")
#: The row and the column of the element that position i reads, by what varies between lanes; rows are below 8.
PLACES = {
    "rows": lambda level: (level, i),
    "every second row": lambda level: (2 * level + 1, i + 2),
    "rows from the end": lambda level: (7 - level, i),
    "quarters": lambda level: (level, (i + 3) // 4),
    "quarters of twice": lambda level: (level, (2 * i + 1) // 8),
    "a column": lambda level: (level, K),
    "remainders": lambda level: (level, i % 4),
}


def curve(place: str, dtype: tm.DType, index: tm.DType, lanes: int, rows: tm.Expr | int = M) -> tm.Function:
    """``out[i] = values[row of level[i], column of i]``."""
    f = tm.Function("curved", params=[N, M, K], assume="K >= 0 and M >= 8 and N >= 0")
    levels = f.input("levels", index, [N], values=(0, 4))
    values = f.input("values", dtype, [rows, N + K + 4])
    level = tm.cast(tm.int32, levels[i]) if index.bits < 32 else levels[i]
    out = f.computation("out", {i: N}, values[PLACES[place](level)])
    f.outputs(out)
    out.vectorize(i, lanes)
    return f


@pytest.mark.parametrize(
    ("place", "dtype", "index", "lanes", "target"),
    covering(
        list(PLACES),
        [tm.float32, tm.float64, tm.uint8, tm.int16],
        [tm.int32, tm.uint32, tm.uint8],
        [4, 8, 16],
        list(TARGETS),
    ),
    ids=str,
)
def test_places_of_narrow_numbers_are_numpy_s(
    place: str, dtype: tm.DType, index: tm.DType, lanes: int, target: str
) -> None:
    flags, register = TARGETS[target]
    compiled = Compiled(curve(place, dtype, index, lanes).show("lowered"), "-O2", *flags, register=register)
    rng = np.random.default_rng(lanes)
    for size in (0, 1, lanes, 3 * lanes + 5):
        values = rng.integers(0, 100, (9, size + 7)).astype(dtype.numpy)
        levels = rng.integers(0, 4, size).astype(index.numpy)
        out = np.zeros(size, dtype.numpy)
        compiled({"N": size, "M": 9, "K": 3}, levels=levels, values=values, out=out)
        at, row = np.arange(size), levels.astype(np.int64)
        rows, columns = {
            "rows": (row, at),
            "every second row": (2 * row + 1, at + 2),
            "rows from the end": (7 - row, at),
            "quarters": (row, (at + 3) // 4),
            "quarters of twice": (row, (2 * at + 1) // 8),
            "a column": (row, np.full(size, 3)),
            "remainders": (row, at % 4),
        }[place]
        np.testing.assert_array_equal(out, values[rows, columns])


def test_elements_behind_two_to_the_31st_are_found() -> None:
    """The array has 3 * 2**30 bytes of zeros, which take no memory, but for those that are written."""
    f = tm.Function("curved", params=[N, M], assume="N <= M")
    levels = f.input("levels", tm.int32, [N], values=(0, 3))
    values = f.input("values", tm.uint8, [3, M])
    out = f.computation("out", {i: N}, values[levels[i], i])
    f.outputs(out)
    out.vectorize(i, 8)
    compiled = Compiled(f.show("lowered"), "-O1", "-march=x86-64")
    columns, size = 2**30, 24
    large = np.zeros((3, columns), np.uint8)
    large[:, :size] = np.random.default_rng(0).integers(1, 256, (3, size))
    chosen, found = (np.arange(size) % 3).astype(np.int32), np.zeros(size, np.uint8)
    compiled({"N": size, "M": columns}, levels=chosen, values=large, out=found)
    np.testing.assert_array_equal(found, large[chosen, np.arange(size)])
