"""Sums over windows: a vector of values gets all of its terms at once, in phases where conditions have a modulus."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm

C, D, H, W = tm.params("C D H W")
c, d, y, x, m, n, u, v = tm.iters("c d y x m n u v")
F = tm.float32


def turned(op: tm.Operator = tm.sum, ordered: bool = False) -> tm.Function:
    """A convolution whose window is turned round."""
    f = tm.Function("turned", params=[H, W])
    a, w = f.input("a", F, [H + 4, W + 4]), f.input("w", F, [5, 5])
    o = f.reduction("o", {y: H, x: W}, {m: 5, n: 5}, op, a[y + 4 - m, x + 4 - n] * w[m, n], ordered=ordered)
    f.outputs(o)
    return f


def transposed(stride: int = 2) -> tm.Function:
    """A transposed convolution: the terms of every second value, or third, are others."""
    f = tm.Function("transposed", params=[C, D, H, W], assume="H >= 1 and W >= 1")
    a, w = f.input("a", F, [C, H, W]), f.input("w", F, [C, D, 3, 3])
    ry, rx = y + 1 - u, x + 1 - v
    held = (ry % stride == 0) & (rx % stride == 0) & (ry >= 0) & (ry < stride * H) & (rx >= 0) & (rx < stride * W)
    values = {d: D, y: stride * H - 1, x: stride * W - 1}
    term = a[c, ry // stride, rx // stride] * w[c, d, u, v]
    f.outputs(f.reduction("o", values, {c: C, u: 3, v: 3}, tm.sum, term, where=held))
    return f


def line() -> tm.Function:
    f = tm.Function("line", params=[W])
    a, w = f.input("a", F, [W + 6]), f.input("w", F, [7])
    f.outputs(f.reduction("o", {x: W}, {n: 7}, tm.sum, a[x + n] * w[n]))
    return f


def pooled() -> tm.Function:
    f = tm.Function("pooled", params=[H, W])
    a = f.input("a", F, [2 * H, 2 * W])
    f.outputs(f.reduction("o", {y: H, x: W}, {m: 2, n: 2}, tm.max, a[2 * y + m, 2 * x + n]))
    return f


def triangle() -> tm.Function:
    """A window of another width in each of its rows."""
    f = tm.Function("triangle", params=[H, W])
    a = f.input("a", F, [H + 4, W + 4])
    f.outputs(f.reduction("o", {y: H, x: W}, {m: 5, n: (0, m + 1)}, tm.sum, a[y + m, x + n]))
    return f


FORMS: list[tuple[Callable[[], tm.Function], str]] = [
    (turned, "y outside, vectors of 8 along x with all terms of m, n"),
    (lambda: turned(tm.max), "y outside, vectors of 8 along x with all terms of m, n"),
    (lambda: turned(ordered=True), "y outside, vectors of 8 along x with all terms of m, n"),
    (transposed, "d, phases of 2 x, phases of 2 y, c outside, vectors of 8 along x with all terms of u, v"),
    (lambda: transposed(3), "d, phases of 3 x, phases of 3 y, c outside, vectors of 8 along x with all terms of u, v"),
    (line, "vectors of 8 along x with all terms of n"),
    (pooled, "y outside, vectors of 8 along x with all terms of m, n"),
    (triangle, "y outside, vectors of 8 along x with all terms of m, n"),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("form", "words"), FORMS)
def test_all_terms_of_a_window_are_in_a_vector_of_values(
    form: Callable[[], tm.Function], words: str, threads: int
) -> None:
    f = form()
    schedule = f.auto_schedule(target="x86-64-v3", threads=threads)
    assert f"o: {words}" in schedule.explain()
    assert ("parallelize" in str(schedule)) is (threads == 2)
    kernel, draw = f.compile(threads=threads), np.random.default_rng(1)
    for size in (1, 3, 19):
        sizes = {"C": 2, "D": 3, "H": size, "W": size + 4}
        given = {
            name: draw.random([int(eval(str(extent), {}, sizes)) for extent in each.shape], dtype=np.float32)
            for name, each in f.algorithm.inputs.items()
        }
        np.testing.assert_allclose(kernel(**given), f.evaluate(**given), rtol=2e-6)


def test_a_sum_over_few_terms_has_no_vectors_along_them() -> None:
    f = tm.Function("few", params=[C, H, W])
    a, w = f.input("a", F, [C, H, W]), f.input("w", F, [C, 3])
    f.outputs(f.reduction("o", {c: C, y: H}, {x: W, n: 3}, tm.sum, a[c, y, x] * w[c, n]))
    assert "vectorize(n" not in str(f.auto_schedule(target="x86-64-v3", threads=1))


def test_windows_of_many_terms_stay_loops() -> None:
    f = tm.Function("large", params=[H, W])
    a, w = f.input("a", F, [H + 20, W + 20]), f.input("w", F, [21, 21])
    f.outputs(f.reduction("o", {y: H, x: W}, {m: 21, n: 21}, tm.sum, a[y + m, x + n] * w[m, n]))
    text = str(f.auto_schedule(target="x86-64-v3", threads=1))
    assert "unroll(n)" in text and "unroll(m)" not in text
