"""Unrolled statements that read what others store some iterations before: gcc 12 took them apart at -O3."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tiramisu_py as tm

N = tm.params("N")[0]
i = tm.iters("i")[0]


def chain(unroll: int) -> tm.Function:
    """r reads q of this iteration and p of the one before, in one loop, r one iteration later."""
    f = tm.Function("chain", params=[N])
    a, b = f.input("a", tm.float64, [N + 1]), f.input("b", tm.float64, [N])
    at = f.input("at", tm.int32, [N + 2], values=(0, N + 1))
    p = f.computation("p", {i: N}, b[i // 2] - a[at[i]])
    q = f.computation("q", {i: (1, N + 1)}, p[i - 1])
    r = f.computation("r", {i: (1, N + 1)}, 2 * q[i] + p[i - 1], where=i != 1)
    f.outputs(r)
    p.unroll(i, unroll)
    r.after(p, i)
    r.shift(i, 1)
    q.after(p, i)
    r.after(q, i)
    return f


@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang") if shutil.which(c)])
@pytest.mark.parametrize("unroll", [2, 3, 4])
@pytest.mark.parametrize("size", [0, 1, 9, 13, 64])
def test_unrolled_statements_see_what_was_stored_before(size: int, unroll: int, compiler: str) -> None:
    random = np.random.default_rng(size)
    a, b = random.random(size + 1), random.random(size)
    at = random.integers(0, size + 1, size + 2, dtype=np.int32)
    r = np.full(size + 1, 7.0)
    chain(unroll).compile(compiler=compiler)(a, b, at, r=r)
    p = b[np.arange(size) // 2] - a[at[:size]]
    np.testing.assert_array_equal(r[2:], 2 * p[1:] + p[1:])
