"""Widened neighbours in even and odd lanes: each lane is taken from one load, and values are those of NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends import emit

(N,) = tm.params("N")
i, j = tm.iters("i j")
WIDE = {tm.uint8: tm.uint16, tm.int8: tm.int16, tm.uint16: tm.uint32, tm.int16: tm.int32}
#: What neighbours are summed, and how many of them are loaded: of 0, 1, 2 the one in the middle is made of the others.
TAPS = {(0, 1): 2, (0, 2): 2, (0, 1, 2): 2, (1, 2, 3, 4): 3, (0, 3, 4): 3, (0, 1, 4, 5, 6): 4, (5, 2, 1, 0): 3}


def mean(dtype: DType, taps: Sequence[int], lanes: int, remainder: str = "scalar") -> tm.Function:
    """A shifted sum of neighbours, each times a number of its own, in two rows."""
    f = tm.Function("mean", params=[N], assume="N >= 1")
    x = f.input("x", dtype, [2, N + 8])
    total: tm.Expr | None = None
    for row in (0, 1):
        for k, tap in enumerate(taps):
            term = tm.cast(WIDE[dtype], x[row, i + tap]) * (k + row + 1)
            total = term if total is None else total + term
    assert total is not None
    y = f.computation("y", {i: N}, tm.cast(dtype, total >> 2))
    f.outputs(y)
    y.vectorize(i, lanes, remainder=remainder)
    return f


def wanted(x: np.ndarray, taps: Sequence[int], dtype: DType) -> np.ndarray:
    wide = WIDE[dtype].numpy
    size = x.shape[1] - 8
    with np.errstate(over="ignore"):
        terms = [x[r, t : t + size].astype(wide) * wide.type(k + r + 1) for r in (0, 1) for k, t in enumerate(taps)]
        total = sum(terms[1:], terms[0])
        return (total >> wide.type(2)).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@pytest.mark.parametrize("taps", TAPS, ids=str)
def test_sums_of_neighbours_are_those_of_numpy(dtype: DType, taps: tuple[int, ...]) -> None:
    limits = np.iinfo(dtype.numpy)
    lanes = tm.target().lanes(dtype)
    kernels = [mean(dtype, taps, lanes, remainder).compile() for remainder in ("scalar", "mask")]
    for size in (1, 15, 64, 197):
        x = np.random.default_rng(size).integers(limits.min, limits.max, (2, size + 8), dtype.numpy, endpoint=True)
        for kernel in kernels:
            np.testing.assert_array_equal(kernel(x), wanted(x, taps, dtype))


@pytest.mark.parametrize(("taps", "loads"), TAPS.items(), ids=str)
def test_each_lane_of_neighbours_comes_from_one_load(taps: tuple[int, ...], loads: int) -> None:
    text = emit(mean(tm.uint8, taps, 32).show("lowered", 32))["mean.c"]
    whole = text[text.index("i += 32") : text.index("for (int64_t i = i_end")]
    assert whole.count("= load_uint8x32(&x[") == 2 * loads, "of two rows"


def test_neighbours_that_no_load_is_between_are_loaded_as_before() -> None:
    text = emit(mean(tm.uint8, (0, 2, 4), 32).show("lowered", 32))["mean.c"]
    assert text.count("= load_uint8x32(&x[") == 6
