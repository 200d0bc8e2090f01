"""Reductions with a step before or after them, beside NumPy's, with its types, NaN and empty rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import covering

N, K = tm.params("N K")
i, k = tm.iters("i k")

TYPES = [tm.float32, tm.float64, tm.int32, tm.uint8, tm.float16]
EXTENTS = [0, 1, 31, 33, 1025]


def logsumexp(a: np.ndarray) -> np.ndarray:
    """NumPy's, in float64."""
    wide = a.astype(np.float64)
    top = wide.max(1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    return np.asarray(np.log(np.exp(wide - shift).sum(1)) + shift[:, 0])


#: Each with NumPy's equivalent on the rows of a matrix.
OPERATORS: dict[str, tuple[Any, Any]] = {
    "any": (tm.any, lambda a: a.any(1)),
    "all": (tm.all, lambda a: a.all(1)),
    "mean": (tm.mean, lambda a: a.mean(1)),
    "var": (tm.var, lambda a: a.var(1)),
    "norm": (tm.norm, lambda a: np.linalg.norm(a.astype(np.float64), axis=1)),
    "logsumexp": (tm.logsumexp, logsumexp),
}


def reduced(op: Any, dtype: tm.DType, **options: Any) -> tuple[tm.Function, tm.Computation]:
    f = tm.Function("reduced", params=[N, K])
    x = f.input("x", dtype, [N, K])
    m = f.reduction("m", {i: N}, {k: K}, op, x[i, k], **options)
    f.outputs(m)
    return f, m


@pytest.mark.parametrize(("name", "dtype", "extent"), covering([*OPERATORS], TYPES, EXTENTS))
def test_it_is_numpys(name: str, dtype: tm.DType, extent: int) -> None:
    op, expected = OPERATORS[name]
    f, _ = reduced(op, dtype)
    assert f.check().ok
    random = np.random.default_rng(extent)
    high = 2 if name in ("any", "all") else 9
    x = random.integers(0, high, (5, extent)).astype(dtype.numpy)
    if dtype.is_float and name != "any":
        x = (x + random.random((5, extent))).astype(dtype.numpy)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        want = expected(x)
        got = f.evaluate(x)
        compiled = f.compile()(x)
    if name in ("any", "all"):
        np.testing.assert_array_equal(compiled, want)
    else:
        assert compiled.dtype == (x.dtype if dtype.is_float else np.float64)
        tolerance = {"float16": 2e-3, "float32": 3e-5}.get(dtype.name, 1e-12)
        np.testing.assert_allclose(compiled.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(compiled.astype(np.float64), got.astype(np.float64), rtol=2e-3)


def test_infinities_and_nan_are_those_of_numpy() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[1, -inf], [-inf, -inf], [inf, 1], [nan, 1], [0, -0.0]], np.float32)
    f, _ = reduced(tm.logsumexp, tm.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f.compile()(x), logsumexp(x), rtol=1e-6)
    f, _ = reduced(tm.any, tm.float32)
    np.testing.assert_array_equal(f.compile()(x), x.any(1))


def test_steps_are_computations_that_commands_address() -> None:
    f, m = reduced(tm.var, tm.float32)
    assert [*f.algorithm.computations] == ["m_sum", "m_mean", "m_squares", "m"]
    m.parallelize(i)
    for name in ("m_squares", "m_mean", "m_sum"):
        f[name].compute_at(m, i)
    f["m_sum"].update.vectorize(k, 16, combine=tm.PRIVATE)
    with pytest.raises(tm.CommandError, match=r'm is no reduction, .* f\["m_sum"\].update, f\["m_squares"\].update'):
        _ = m.update
    assert f.check().ok
    x = np.random.default_rng(0).random((7, 45), np.float32)
    np.testing.assert_allclose(f.compile()(x), x.var(1), rtol=1e-5)


def test_halves_are_combined_in_a_wider_type() -> None:
    f, m = reduced(tm.sum, tm.float16, accumulate=tm.float32)
    x = np.full((2, 4099), 1.0, np.float16)
    assert (m.dtype, f["m_float32"].dtype) == (tm.float16, tm.float32)
    np.testing.assert_array_equal(f.compile()(x), x.sum(1, dtype=np.float32).astype(np.float16))


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda f, x: f.reduction("m", [i], {k: K}, tm.mean, x[i, k]), "takes a dict of iterators and extents"),
        (lambda f, x: f.reduction("m", {i: N}, {k: K}, tm.mean, x[i, k], where=x[i, k] > 0), "divides by the number"),
        (lambda f, x: f.reduction("m", {i: N}, {k: K}, tm.mean, x[i, k], dtype=tm.float64), "and no dtype="),
        (
            lambda f, x: f.reduction("m", {i: N}, {k: K}, tm.argmax, x[i, k], accumulate=tm.float64),
            r"argmax combines several: write tm.cast\(tm.float64, ...\) of the terms",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(declare: Any, message: str) -> None:
    f = tm.Function("refused", params=[N, K])
    x = f.input("x", tm.float32, [N, K])
    with pytest.raises(tm.DeclarationError, match=message):
        declare(f, x)
