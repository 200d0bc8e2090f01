"""Blocks of columns outside of steps: right where a block needs earlier ones alone, and not offered elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.auto.programs import D, M, N, i, j, k


def deflation(later: int) -> tm.Function:
    """Step k takes from each column its part along column k, or along a later one, of the step before."""
    f = tm.Function("deflation", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", D, [M, N])
    with f.together() as g:
        u = g.computation(
            "u",
            {k: N, i: M, j: (k, N)},
            lambda: tm.select(k == 0, a[i, j], u[k - 1, i, j] - q[k - 1, i] * u[k - 1, 0, j]),
        )
        q = g.computation("q", {k: N - later, i: M}, lambda: u[k, i, k + later] / 2)
    f.outputs(q)
    return f


@pytest.mark.parametrize(("later", "outside"), [(0, True), (1, False)])
def test_blocks_are_outside_of_steps_where_none_needs_a_later_one(later: int, outside: bool) -> None:
    f = deflation(later)
    assert ("outside of all steps" in f.auto_schedule(target="x86-64-v3", threads=1).explain()) is outside
    assert f.check().ok
    if outside:
        kernel = f.compile(threads=1, target="x86-64-v3" if "x86-64-v3" in tm.target().features else None)
        for rows, columns in ((1, 1), (3, 17), (5, 35)):
            given = np.random.default_rng(rows).random((rows, columns))
            np.testing.assert_allclose(kernel(a=given), f.evaluate(a=given), rtol=1e-9)
