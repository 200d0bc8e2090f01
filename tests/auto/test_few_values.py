"""Sums of a few values over long rows: a vector of partial results for each, in registers for all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

B, C, H, W = tm.params("B C H W")
b, c, y, x, u, v = tm.iters("b c y x u v")
F = tm.float32


def weights_of_a_convolution(rows: Any = 3, ordered: bool = False, turned: bool = False) -> tm.Function:
    """The gradient of the weights of a convolution."""
    f = tm.Function("f", params=[B, C, H, W])
    a, w = f.input("a", F, [B, C, H + 2, W + 2]), f.input("w", F, [B, W, H] if turned else [B, H, W])
    by = w[b, x, y] if turned else w[b, y, x]
    term = by * a[b, c, y + u, x + v]
    f.outputs(f.reduction("d", {c: C, u: rows, v: 3}, {b: B, y: H, x: W}, tm.sum, term, ordered=ordered))
    return f


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("width", [3, 8, 21])
def test_each_value_has_a_vector_in_registers(width: int, threads: int) -> None:
    f = weights_of_a_convolution()
    schedule = f.auto_schedule(target="x86-64-v3", threads=threads)
    assert "c outside, a vector of 8 partial results along x for each of u, v" in schedule.explain()
    assert ("d.update.parallelize(c)" in str(schedule)) is (threads == 2)
    assert "allocate d_partial[1, 3, 3, 8] in registers" in f.show("pseudocode")
    numbers = np.random.default_rng(0)
    image = numbers.integers(-3, 4, (2, 3, 7, width + 2)).astype(np.float32)
    by = numbers.integers(-3, 4, (2, 5, width)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(image, (5, width), axis=(2, 3))
    np.testing.assert_array_equal(f.compile(threads=threads)(image, by), np.einsum("bcuvyx,byx->cuv", windows, by))


@pytest.mark.parametrize(
    "form",
    [
        lambda: weights_of_a_convolution(ordered=True),
        lambda: weights_of_a_convolution(turned=True),  # terms are apart
    ],
)
def test_other_sums_have_none(form: Any) -> None:
    assert "partial results along x for each" not in form().auto_schedule(target="x86-64-v3", threads=1).explain()
