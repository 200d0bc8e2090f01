"""Loops in another order; loops that stay where they are may be named, and shared with other statements."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N, M, K = tm.params("N M K")
i, j, k = tm.iters("i j k")


def product() -> tuple[tm.Function, tm.Computation]:
    f = tm.Function("mm", params=[N, M, K])
    a, b = f.input("a", tm.float64, [N, K]), f.input("b", tm.float64, [K, M])
    c = f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    return f, c


def test_an_outermost_loop_that_stays_may_be_named_though_it_is_shared() -> None:
    f, c = product()
    c.update.after(c.init, i)
    c.update.reorder(i, k, j)
    other, same = product()
    same.update.after(same.init, i)
    same.update.reorder(k, j)
    assert f.show("pseudocode") == other.show("pseudocode")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 4, (7, 5)).astype(float), rng.integers(-4, 4, (5, 6)).astype(float)
    np.testing.assert_array_equal(f.compile()(a=a, b=b), a @ b)


def test_an_innermost_loop_that_stays_may_be_named_though_another_statement_leaves_before_it() -> None:
    f = tm.Function("f", params=[N, M])
    p = f.computation("p", {i: N, j: M}, tm.cast(tm.int64, i + j))
    q = f.computation("q", {i: N, j: M, k: 2}, p[i, j] * k)
    f.outputs(q)
    q.after(p, j)
    q.reorder(j, i, k)
    assert f.show("pseudocode").index("for j") < f.show("pseudocode").index("for i")
    np.testing.assert_array_equal(f.compile()(N=3, M=4), f.evaluate(N=3, M=4))


def test_a_shared_loop_that_moves_is_still_refused() -> None:
    _, c = product()
    c.update.after(c.init, i)
    with pytest.raises(tm.CommandError, match="the command needs them perfectly nested"):
        c.update.reorder(k, i, j)
