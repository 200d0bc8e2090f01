"""Adjoints of values in runs of positions: kept by position, as the values are, and never for each run and position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E, R = tm.params("N E R")
n, p, r, d, k = tm.iters("n p r d k")
F = 3
DRAW = np.random.default_rng(5)
TYPE = np.sort(DRAW.choice([0, 2, 3], 30)).astype(np.int32)  # runs without positions
GIVEN: dict[str, Any] = {
    "types": np.searchsorted(TYPE, np.arange(6)).astype(np.int32),
    "dst": DRAW.integers(0, 4, 30).astype(np.int32),
    "a": DRAW.standard_normal((30, F)),
    "s": DRAW.standard_normal((5, F)),
}


def softmax() -> tm.Function:
    """Values of positions, their sums over runs, and a scatter that reads both at the run of a position."""
    f = tm.Function("softmax", params=[N, E, R])
    types, dst = f.segments("types", R, of=E), f.input("dst", tm.int32, [E], values=(0, N))
    a, s = f.input("a", tm.float64, [E, F]), f.input("s", tm.float64, [R, F])
    e = f.computation("e", {r: R, p: types[r], d: F}, tm.exp(a[p, d] * s[r, d]))
    total = f.reduction("total", {r: R, d: F}, {p: types[r]}, tm.sum, e[r, p, d])
    part = e[types.of(p), p, d] / total[types.of(p), d]
    f.outputs(f.scatter("out", {n: N, d: F}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=part))
    return f


def value(a: Any, s: Any) -> Any:
    e = np.exp(a * s[TYPE])
    total, out = np.zeros((5, F)), np.zeros((4, F))
    np.add.at(total, TYPE, e)
    np.add.at(out, GIVEN["dst"], e / total[TYPE])
    return out


def test_adjoints_are_kept_by_position() -> None:
    g = tm.vjp(softmax())
    assert g.step.check().ok, g.step.check()
    kept = {each.name: each.elements for each in g.step.cost(N=4, E=30, R=5).arrays}
    own = {name: elements for name, elements in kept.items() if name.startswith("d_e")}
    assert own == {"d_e": 30 * F}, own


def test_gradients_are_those_of_differences() -> None:
    g = tm.vjp(softmax())
    weights = DRAW.standard_normal((4, F))
    out, *found = g.step.compile()(**GIVEN, d_out=weights)
    np.testing.assert_allclose(out, value(GIVEN["a"], GIVEN["s"]), rtol=1e-12)
    for name, gradient in zip(g.wrt, found, strict=True):
        way = DRAW.standard_normal(gradient.shape)
        moved = [{"a": GIVEN["a"], "s": GIVEN["s"], name: GIVEN[name] + step * way} for step in (1e-6, -1e-6)]
        ends = [(value(**each) * weights).sum() for each in moved]
        np.testing.assert_allclose((gradient * way).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("of_position", [True, False])
def test_a_read_at_another_run_keeps_its_condition(of_position: bool) -> None:
    """Only the run of the position itself is known: a read at another place of the same run is not."""
    f = tm.Function("shifted", params=[E, R], assume="E >= 1")
    types = f.segments("types", R, of=E)
    a = f.input("a", tm.float64, [E])
    e = f.computation("e", {r: R, p: types[r]}, 2.0 * a[p])
    at = p if of_position else E - 1 - p
    f.outputs(f.computation("out", {p: E}, e[types.of(at), at]))
    weights = DRAW.standard_normal(30)
    g = tm.vjp(f)
    assert g.step.check().ok
    _, found = g.step.compile()(GIVEN["types"], GIVEN["a"][:, 0].copy(), weights)
    np.testing.assert_allclose(found, 2 * (weights if of_position else weights[::-1]), rtol=1e-12)


def test_an_adjoint_that_is_a_sum_is_kept_by_position() -> None:
    f = tm.Function("rows", params=[E, R, N])
    types = f.segments("types", R, of=E)
    a, w = f.input("a", tm.float64, [E]), f.input("w", tm.float64, [N, E])
    e = f.computation("e", {r: R, p: types[r]}, tm.exp(a[p]))
    f.outputs(f.reduction("out", {r: R, k: N}, {p: types[r]}, tm.sum, e[r, p] * w[k, p]))
    g = tm.vjp(f, wrt=["a"])
    kept = {each.name: each.elements for each in g.step.cost(E=30, R=5, N=F).arrays}
    assert kept["d_e"] == 30, kept
    statements = {each.name: each.instances for each in g.step.cost(E=30, R=5, N=F).statements}
    assert statements["d_e.update"] == 30 * F, statements
    weights, drawn, rows = DRAW.standard_normal((F, 30)), DRAW.standard_normal(30), DRAW.standard_normal((5, F))
    *_, found = g.step.compile()(types=GIVEN["types"], a=drawn, w=weights, d_out=rows)
    np.testing.assert_allclose(found, np.exp(drawn) * (weights * rows[TYPE].T).sum(0))
