"""Sums that read values of their own group, in tiles: factors that no other test has, and groups of another form."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.auto.programs import D, N, i, j, k


def upper_factor() -> tm.Function:
    """A = U^T U: rows of U from those above; terms read two elements of one row."""
    f = tm.Function("upper_factor", params=[N], assume="N >= 1")
    a = f.input("a", D, [N, N])
    with f.together() as g:
        s = g.reduction("s", {i: N, j: (i, N)}, {k: i}, tm.sum, lambda: u[k, i] * u[k, j], shape=[N, N])
        u = g.computation(
            "u",
            {i: N, j: (i, N)},
            lambda: tm.select(i == j, tm.sqrt(a[i, j] - s[i, j]), (a[i, j] - s[i, j]) / u[i, i]),
            shape=[N, N],
        )
    f.outputs(u)
    return f


def test_the_rows_of_an_upper_factor_are_made_in_tiles() -> None:
    f = upper_factor()
    assert "u: tiles of" in f.auto_schedule(target="x86-64-v3", threads=2).explain()
    kernel = f.compile(threads=2, target="x86-64-v3" if "x86-64-v3" in tm.target().features else None)
    for size in (1, 7, 67):
        root = np.random.default_rng(size).random((size, size))
        given = root @ root.T + size * np.eye(size)
        np.testing.assert_allclose(np.triu(kernel(a=given)), np.linalg.cholesky(given).T, rtol=1e-9, atol=1e-9)


def test_sums_of_elements_further_down_are_not_made_in_tiles() -> None:
    f = tm.Function("below", params=[N], assume="N >= 1")
    a = f.input("a", D, [N, N])
    with f.together() as g:
        s = g.reduction("s", {i: N, j: N}, {k: (i + 1, N)}, tm.sum, lambda: u[k, j] * u[k, k])
        u = g.computation("u", {i: N, j: N}, lambda: a[i, j] - s[i, j])
    f.outputs(u)
    assert "tiles of" not in f.auto_schedule(threads=2).explain()
    given = np.random.default_rng(1).random((13, 13)) / 13
    np.testing.assert_allclose(f.compile()(a=given), f.evaluate(a=given), rtol=1e-12)
