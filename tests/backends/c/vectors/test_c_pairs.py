"""Narrow results of widened operands, even and odd lanes apart: masked where they may be wider, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
(i,) = tm.iters("i")

Sum = Callable[[Any, Any], Any]
#: What is narrowed, and its masks: of each operand, and of a result of unsigned bytes that may be wider.
SUMS: dict[str, tuple[Sum, int]] = {
    "the mean of two": (lambda a, b: (a + b) >> 1, 2),
    "a difference that wraps": (lambda a, b: (a - b) >> 4, 3),
    "a half of three": (lambda a, b: (a + b + a) >> 1, 4),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dtype", [tm.uint8, tm.int8], ids=str)
def test_results_are_those_of_numpy_and_masked_if_they_may_be_wider(name: str, dtype: tm.DType) -> None:
    value, masks = SUMS[name]
    wide = tm.uint16 if dtype is tm.uint8 else tm.int16
    f = tm.Function("pairs", params=[N])
    x, y = (f.input(each, dtype, [N]) for each in "xy")
    made = f.computation("made", {i: N}, tm.cast(dtype, value(tm.cast(wide, x[i]), tm.cast(wide, y[i]))))
    f.outputs(made)
    lanes = tm.target().lanes(tm.uint8)
    made.vectorize(i, lanes)
    text = "".join(str(each) for each in f.source().values())
    pairs = "tm_pairs_1" in text
    assert pairs or lanes < 64  # by the cost of widening, shorter vectors may be widened and narrowed as a whole
    given = np.random.default_rng(0).integers(0, 256, (2, 1000), dtype=np.uint8).view(dtype.numpy)
    given[:, :4] = [[-1 if dtype is tm.int8 else 255] * 4, [0, 1, 127, 100]]
    a, b = given.astype(wide.numpy)
    expected = value(a, b).astype(dtype.numpy)
    np.testing.assert_array_equal(f.compile()(x=given[0], y=given[1]), expected)
    if dtype is tm.uint8 and pairs:
        assert text.count("& 0xff") == masks
