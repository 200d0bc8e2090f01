"""Products of weights before products with data: values, grades of bits, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E, R = tm.params("N E R")
n, p, q, r, k, j, h = tm.iters("n p q r k j h")
F = 3
DRAW = np.random.default_rng(1)
GIVEN: dict[str, Any] = {
    "src": DRAW.integers(0, 5, 20).astype(np.int32),
    "etype": DRAW.integers(0, 4, 20).astype(np.int32),
    "x": DRAW.standard_normal((5, F)),
    "W": DRAW.standard_normal((4, 2, F, F)),
    "w": DRAW.standard_normal((4, 2, F)),
}


def attention(between: str = "", *, kept: bool = False) -> tuple[tm.Function, Any, Any]:
    """The attention of two heads: a row times the weights of its type, times another row of the type."""
    f = tm.Function("attention", params=[N, E, R])
    src, etype = f.input("src", tm.int32, [E], values=(0, N)), f.input("etype", tm.int32, [E], values=(0, R))
    x, weights = f.input("x", tm.float64, [N, F]), f.input("W", tm.float64, [R, 2, F, F])
    w = f.input("w", tm.float64, [R, 2, F])
    hs = f.reduction("hs", {p: E, h: 2, j: F}, {k: F}, tm.sum, x[src[p], k] * weights[etype[p], h, k, j])
    read = tm.exp(hs[p, h, j]) if between == "exp" else hs[p, h, j]
    by = x[src[p], j] if between == "data" else w[etype[p], h, j]
    atts = f.reduction("atts", {p: E, h: 2}, {j: F}, tm.sum, read * by)
    f.outputs(*([hs] if kept else []), atts)
    return f, hs, atts


def right() -> Any:
    rows = np.einsum("ek,ehkj->ehj", GIVEN["x"][GIVEN["src"]], GIVEN["W"][GIVEN["etype"]])
    return (rows * GIVEN["w"][GIVEN["etype"]]).sum(-1)


def test_weights_are_multiplied_first() -> None:
    f, hs, atts = attention()
    before = f.copy()
    atts.reassociate(hs)
    assert tm.equivalent(before, f), tm.equivalent(before, f)
    report = f.check()
    assert report.ok, report
    assert "bits given up by atts.reassociate(hs)" in str(report) and "(everywhere:" in str(report)
    assert "hs" not in {statement.source for statement in f.program.statements.values()}
    for found in (f.compile()(**GIVEN), f.evaluate(**GIVEN), f.evaluate(**GIVEN, as_scheduled=True)):
        np.testing.assert_allclose(found, right(), rtol=1e-12)
    cost = f.cost(N=5, E=1000, R=4)
    work = {each.name: each.instances for each in cost.statements}
    assert work["atts_weights.update"] == 4 * 2 * F * F and work["atts.update"] == 1000 * 2 * F


def test_what_is_read_elsewhere_is_still_computed() -> None:
    f, hs, atts = attention(kept=True)
    atts.reassociate(hs)
    rows, found = f.compile()(**GIVEN)
    np.testing.assert_allclose(found, right(), rtol=1e-12)
    np.testing.assert_allclose((rows * GIVEN["w"][GIVEN["etype"]]).sum(-1), right(), rtol=1e-12)


def test_gradients_are_those_of_the_new_form() -> None:
    f, hs, atts = attention()
    weights = DRAW.standard_normal((20, 2))
    wanted = tm.vjp(f).step.compile()(**GIVEN, d_atts=weights)
    atts.reassociate(hs)
    g = tm.vjp(f)
    assert "d_atts_weights" in g.step.algorithm.computations
    for one, other in zip(g.step.compile()(**GIVEN, d_atts=weights), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_products_of_matrices_without_types() -> None:
    (a, b, c) = tm.params("A B C")
    f = tm.Function("chain", params=[a, b, c])
    x, u, v = f.input("x", tm.float64, [a, b]), f.input("u", tm.float64, [b, 7]), f.input("v", tm.float64, [7, c])
    xu = f.reduction("xu", {p: a, j: 7}, {k: b}, tm.sum, x[p, k] * u[k, j])
    y = f.reduction("y", {p: a, q: c}, {k: 7}, tm.sum, xu[p, k] * v[k, q])
    f.outputs(y)
    y.reassociate(xu)
    given = [DRAW.standard_normal(shape) for shape in ((4, 5), (5, 7), (7, 2))]
    np.testing.assert_allclose(f.compile()(*given), given[0] @ (given[1] @ given[2]), rtol=1e-12)


TYPES = {"int8": tm.int8, "float32": tm.float32}


def of_mixed_types(dtype: Any, wrapping: Any = None) -> tuple[tm.Function, Any, Any, dict[str, Any]]:
    """Rows of float64, times weights that are all of another type, and may be multiplied with others in that type."""
    (a,) = tm.params("a")  # no name of an iterator of the product, then
    f = tm.Function("mixed", params=[E, R, a], assume="E >= 1 and R >= 1 and a >= 1")
    etype, x = f.input("etype", tm.int32, [E], values=(0, R)), f.input("x", tm.float64, [E, a])
    u, v = f.input("u", dtype, [R, a, F]), f.input("v", dtype, [R, F])
    by = u[etype[p], k, j] * u[etype[p], k, 0] if wrapping else u[etype[p], k, j]
    m = f.reduction("m", {p: E, j: F}, {k: a}, tm.sum, x[p, k] * by)
    y = f.reduction("y", {p: E}, {j: F}, tm.sum, m[p, j] * v[etype[p], j])
    f.outputs(y)
    draw = np.random.default_rng(5)
    weights = (draw.integers(50, 120, shape).astype(dtype.numpy) for shape in ((4, 5, F), (4, F)))
    if dtype.is_float:
        weights = (draw.standard_normal(shape).astype(dtype.numpy) for shape in ((4, 5, F), (4, F)))
    given = {"etype": GIVEN["etype"], "x": draw.standard_normal((20, 5))}
    return f, m, y, given | dict(zip(("u", "v"), weights, strict=True))


@pytest.mark.parametrize("name", TYPES)
def test_weights_of_other_types_are_multiplied_in_that_of_the_product(name: str) -> None:
    """Integers would wrap by themselves, and float32 round, where their products with float64 do not."""
    f, m, y, given = of_mixed_types(TYPES[name])
    before = f.copy()
    y.reassociate(m)
    assert f["y_weights"].dtype == tm.float64
    assert tm.equivalent(before, f), tm.equivalent(before, f)
    u, v = (given[name].astype(np.float64)[given["etype"]] for name in ("u", "v"))
    wanted = np.einsum("pk,pkj,pj->p", given["x"], u, v)
    np.testing.assert_allclose(f.evaluate(**given, as_scheduled=True), wanted, rtol=1e-12, atol=1e-12)


def test_a_product_of_integers_wraps_as_it_did() -> None:
    f, m, y, given = of_mixed_types(tm.int8, wrapping=True)
    wanted = f.evaluate(**given)
    y.reassociate(m)
    u, v = (given[name][given["etype"]] for name in ("u", "v"))
    np.testing.assert_allclose(wanted, np.einsum("pk,pkj,pj->p", given["x"], (u * u[:, :, :1]).astype(float), v))
    np.testing.assert_allclose(f.compile()(**given), wanted, rtol=1e-12)


def test_a_sum_in_order_keeps_it() -> None:
    f = tm.Function("ordered", params=[N])
    x, u, v = f.input("x", tm.float64, [N, F]), f.input("u", tm.float64, [F, F]), f.input("v", tm.float64, [F])
    xu = f.reduction("xu", {n: N, j: F}, {k: F}, tm.sum, x[n, k] * u[k, j])
    y = f.reduction("y", {n: N}, {j: F}, tm.sum, xu[n, j] * v[j], determinism="ordered")
    f.outputs(y)
    with pytest.raises(tm.CommandError, match="y is declared determinism='ordered', and reassociate rounds"):
        y.reassociate(xu)


BETWEEN = {
    "exp": r"nothing else, such as exp, may be between them",
    "data": r"has a value for each src\[p\], as many as x\[src\[p\], k\] has rows",
}


@pytest.mark.parametrize("between", BETWEEN)
def test_what_is_no_product_of_weights_is_refused(between: str) -> None:
    f, hs, atts = attention(between)
    before = f.program
    with pytest.raises(tm.CommandError, match=BETWEEN[between]):
        atts.reassociate(hs)
    assert f.program is before


def test_other_sums_are_refused() -> None:
    f, hs, atts = attention()
    with pytest.raises(tm.CommandError, match="atts does not read atts"):
        atts.reassociate(atts)
    with pytest.raises(tm.CommandError, match="is no sum of"):
        atts.reassociate(f["W"])
    hs.update.vectorize(j, 2)
    with pytest.raises(tm.CommandError, match=r"hs\.update has been scheduled: give reassociate first"):
        atts.reassociate(hs)


def chain(first: int) -> tuple[tm.Function, Any, Any]:
    """Three matrices, none of which is one of weights: which product is first, counts alone say."""
    f = tm.Function("chain", params=[N])
    x, u, v = (
        f.input("x", tm.float64, [N, 6]),
        f.input("u", tm.float64, [6, first]),
        f.input("v", tm.float64, [first, N]),
    )
    xu = f.reduction("xu", {p: N, j: first}, {k: 6}, tm.sum, x[p, k] * u[k, j])
    y = f.reduction("y", {p: N, q: N}, {j: first}, tm.sum, xu[p, j] * v[j, q])
    f.outputs(y)
    return f, xu, y


def test_counted_work_decides_where_there_are_no_weights() -> None:
    f, xu, y = chain(9)
    with pytest.raises(tm.CommandError, match="give by='count' with the sizes"):
        y.reassociate(xu, by="count")
    with pytest.raises(tm.CommandError, match="work is counted at sizes, and that of N is not given"):
        y.reassociate(xu, by="count", sizes={})
    before = f.copy()
    y.reassociate(xu, by="count", sizes={"N": 5})
    work = {each.name: each.instances for each in f.cost(N=5).statements}
    assert work["y_weights.update"] + work["y.update"] == 5 * 6 * 9 + 5 * 5 * 6 < 5 * 6 * 9 + 5 * 5 * 9
    assert tm.equivalent(before, f), tm.equivalent(before, f)
    given = [DRAW.standard_normal(shape) for shape in ((5, 6), (6, 9), (9, 5))]
    np.testing.assert_allclose(f.compile()(*given), given[0] @ given[1] @ given[2], rtol=1e-12)


def test_more_work_is_refused_with_both_counts() -> None:
    f, xu, y = chain(2)
    before, after = (2 * each for each in (5 * 6 * 2 + 5 * 5 * 2, 5 * 6 * 2 + 5 * 5 * 6))
    with pytest.raises(tm.CommandError, match=f"y has {before} products and sums at these sizes, and {after} where"):
        y.reassociate(xu, by="count", sizes={"N": 5})
    assert f.check().bits == "bits preserved"
