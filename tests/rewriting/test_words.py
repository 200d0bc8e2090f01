"""Ties, kinks, literals, and functions of the user's: what a derivative is where there are several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, K = tm.params("N K")
i, k = tm.iters("i k")


def gradient_of(word: Callable[[tm.Expr], Any], at: list[float], **scalars: float) -> list[float]:
    f = tm.Function("word", params=[N])
    x = f.input("x", tm.float64, [N])
    f.outputs(f.computation("y", {i: N}, word(x[i]), dtype=tm.float64))
    found = tm.vjp(f).step.evaluate(x=np.array(at, np.float64), d_y=np.ones(len(at)))[-1]
    return list(map(float, found))


@pytest.mark.parametrize(
    ("word", "at", "expected"),
    [
        (lambda x: tm.maximum(x, 0.0), [-1, 0, 2], [0, 0, 1]),  # relu
        (lambda x: tm.maximum(0, x), [-1, 0, 2], [0, 0, 1]),
        (lambda x: tm.maximum(x, 1.0), [0, 1, 2], [0, 0.5, 1]),
        (lambda x: tm.minimum(x, 1.0), [0, 1, 2], [1, 0.5, 0]),
        (lambda x: tm.maximum(x, x * x), [0.5, 1, 2], [1, 1.5, 4]),
        (lambda x: tm.clip(x, 0.0, 1.0), [-1, 0, 0.5, 1, 2], [0, 1, 1, 1, 0]),
        (lambda x: tm.clip(2.0, x, 3.0), [1, 2.5], [0, 1]),
        (lambda x: tm.clip(2.0, x, x), [1, 3], [1, 1]),
        (abs, [-2, 0, 3], [-1, 0, 1]),
        (lambda x: tm.floor(x) + tm.ceil(x) + tm.rint(x) + tm.trunc(x), [0.3, 1.0], [0, 0]),
        (lambda x: tm.select(x > 1, 3 * x, x), [0, 1, 2], [1, 1, 3]),
        (lambda x: tm.copysign(x, -1.0), [-2, 0, 3], [1, 0, -1]),
        (lambda x: x**0 + x**1 + x**2.0, [0, 3], [1, 7]),
        (lambda x: tm.cast(tm.float64, tm.cast(tm.int32, x)) * x, [2.5], [2]),
        (lambda x: tm.cast(tm.float64, x > 1) * x, [0, 3], [0, 1]),
        (lambda x: x // 0.75 + x % 0.75, [1.0, 2.0], [1, 1]),
        (lambda x: tm.stop_gradient(x) * x, [2, 3], [2, 3]),
        (lambda x: tm.stop_gradient(x * x), [2, 3], [0, 0]),
        (lambda x: x * x + 3, [5], [10]),
        (lambda x: 7.0, [5], [0]),
        (lambda x: tm.select(x > 0, tm.sqrt(x), 1.0), [0, 0.25], [0, 1]),  # no infinite slope of what is not taken
        (lambda x: tm.select(x == 0, 0.0, 1 / x), [0, 0.5], [0, -4]),
    ],
)  # fmt: skip
def test_ties_and_kinks_are_as_in_pytorch(word: Any, at: list[float], expected: list[float]) -> None:
    assert gradient_of(word, at) == expected


def test_a_divisor_that_a_row_has_once_is_inverted_once() -> None:
    f = tm.Function("rows", params=[N, K])
    x, s, t = f.input("x", tm.float64, [N, K]), f.input("s", tm.float64, [N]), f.input("t", tm.float64, [N, K])
    f.outputs(f.computation("y", {i: N, k: K}, x[i, k] / s[i] + x[i, k] / t[i, k]))
    step = tm.vjp(f).step
    assert str(step.algorithm.computations["d_x"].expr) == "d_y[i, k] / t[i, k] + d_y[i, k] * (1.0 / s[i])"
    numbers = np.random.default_rng(0)
    a, row, own, w = (numbers.uniform(0.5, 2.0, shape) for shape in ((3, 4), 3, (3, 4), (3, 4)))
    _, d_x, d_s, d_t = step.evaluate(x=a, s=row, t=own, d_y=w)
    np.testing.assert_allclose(d_x, w / row[:, None] + w / own, rtol=1e-14)
    np.testing.assert_allclose(d_s, (-w * a / row[:, None] ** 2).sum(1), rtol=1e-14)
    np.testing.assert_allclose(d_t, -w * a / own**2, rtol=1e-14)


def test_halves_are_divided_by_small_divisors() -> None:
    """The reciprocal of 1e-5, which layer norms add to variances, is no half."""
    f = tm.Function("rows", params=[N, K])
    x, s = f.input("x", tm.float16, [N, K]), f.input("s", tm.float16, [N])
    f.outputs(f.computation("y", {i: N, k: K}, x[i, k] / s[i]))
    w = np.array([[0.0, 1e-4, 1e-3]], np.float16)
    row = np.array([1e-5], np.float16)
    _, d_x, _ = tm.vjp(f).step.compile()(x=np.ones((1, 3), np.float16), s=row, d_y=w)
    np.testing.assert_allclose(d_x, w / row[:, None], rtol=1e-3)


def test_equal_largest_terms_share_evenly_and_a_place_takes_all() -> None:
    f = tm.Function("ends", params=[K], assume="K >= 1")
    x = f.input("x", tm.float64, [K])
    f.outputs(f.reduction("most", {}, {k: K}, tm.max, x[k]), f.reduction("first", {}, {k: K}, tm.argmin, x[k]))
    step = tm.vjp(f).step.compile()
    given = np.array([1.0, 4.0, 1.0, 4.0, 4.0, 2.0])
    for most, least, expected in ((6.0, 0.0, [0, 2, 0, 2, 2, 0]), (0.0, 5.0, [5, 0, 0, 0, 0, 0])):
        found = step(x=given, d_most=most, d_first_value=least)[-1]
        np.testing.assert_array_equal(found, expected)


def test_the_gradient_of_a_norm_of_zeros_is_zero() -> None:
    f = tm.Function("lengths", params=[N, K])
    x = f.input("x", tm.float32, [N, K])
    f.outputs(f.reduction("y", {i: N}, {k: K}, tm.norm, x[i, k]))
    given = np.array([[3, 4], [0, 0], [0, -2], [np.nan, 0], [np.inf, 1]], np.float32)
    y, d_x = tm.vjp(f).step.compile()(x=given, d_y=np.array([5, 5, 1, 1, 1], np.float32))
    np.testing.assert_array_equal(y, np.linalg.norm(given, axis=1))
    np.testing.assert_array_equal(d_x[:3], [[3, 4], [0, 0], [0, -1]])
    assert np.isnan(d_x[3]).all()  # as torch.linalg.vector_norm has them
    along = tm.jvp(f).compile()(x=given[:3], t_x=np.array([[1, 1], [1, 2], [1, 2]], np.float32))[-1]
    np.testing.assert_allclose(along, [1.4, 0, -2], rtol=1e-6)


def test_a_product_of_one_zero_and_of_two() -> None:
    f = tm.Function("zeros", params=[N, K])
    x = f.input("x", tm.float64, [N, K])
    f.outputs(f.reduction("y", {i: N}, {k: K}, tm.product, x[i, k]))
    given = np.array([[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]])
    found = tm.vjp(f).step.compile()(x=given, d_y=np.ones(3))[-1]
    np.testing.assert_array_equal(found, [[12, 8, 6], [0, 8, 0], [0, 0, 0]])


def test_what_nothing_reads_has_the_gradient_zero_in_the_array_of_the_caller() -> None:
    f = tm.Function("some", params=[N])
    x = f.input("x", tm.float32, [N + 3])
    f.input("y", tm.float64, [N])
    f.scalar("s", tm.float64)
    f.outputs(f.computation("out", {i: N}, tm.cast(tm.float64, x[i + 1]) * 2))
    given, weights = np.ones(7, np.float32), np.arange(4.0)
    kernel = tm.vjp(f).step.compile()
    _, d_x, d_y, d_s = kernel(x=given, y=np.ones(4), s=1.0, d_out=weights, d_x=np.full(7, np.nan, np.float32))
    np.testing.assert_array_equal(d_x, [0, 0, 2, 4, 6, 0, 0])
    assert d_x.dtype == np.float32 and not d_y.any() and d_s == 0


def test_derivatives_of_functions_of_the_users() -> None:
    cubed = tm.extern(
        "cubed_of", [tm.float64, tm.int32], tm.float64, lambda x, n: x**3 + n,
        source="static double cubed_of(double x, int n) { return x * x * x + n; }",
        derivative=lambda x, n: (3 * x * x, None),
    )  # fmt: skip
    soft = tm.operator(
        "soft", lambda a, b: tm.log(tm.exp(a) + tm.exp(b)), float("-inf"), derivative=lambda y, x: tm.exp(x - y)
    )
    f = tm.Function("own", params=[N])
    x = f.input("x", tm.float64, [N])
    f.outputs(f.reduction("y", {}, {i: N}, soft, cubed(x[i], 2)))
    at = np.array([0.3, -0.2, 0.9])
    _, found = tm.vjp(f).step.compile()(x=at, d_y=2.0)
    share = np.exp(at**3) / np.exp(at**3).sum()
    np.testing.assert_allclose(found, 2 * share * 3 * at * at, rtol=1e-12)
    ahead = tm.jvp(f).compile()(x=at, t_x=np.array([1.0, 0.0, 2.0]))[-1]
    np.testing.assert_allclose(2 * ahead, found[0] + 2 * found[2], rtol=1e-12)


@pytest.mark.parametrize("accumulate", [None, tm.float32])
def test_sums_of_halves_are_in_float32_if_those_of_the_function_are(accumulate: Any) -> None:
    f = tm.Function("halves", params=[N, K])
    a, b = f.input("a", tm.float16, [N, K]), f.input("b", tm.float16, [K])
    more = {} if accumulate is None else {"accumulate": accumulate}
    f.outputs(f.reduction("c", {i: N}, {k: K}, tm.sum, a[i, k] * b[k], **more))
    step = tm.vjp(f, wrt=["b"]).step
    types = [str(c.dtype) for c in step.algorithm.computations.values() if c.is_reduction and c.name.startswith("d_b")]
    assert types == (["float16"] if accumulate is None else ["float32"])
    ones = np.ones((4096, 1), np.float16)
    _, found = step.compile()(a=ones, b=np.ones(1, np.float16), d_c=np.ones(4096, np.float16))
    assert found.dtype == np.float16 and found[0] == (2048 if accumulate is None else 4096)
