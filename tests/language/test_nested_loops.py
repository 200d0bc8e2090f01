"""Loops in loops that carry a sum: one reduction over all of their iterations."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

T = 4


@tm.jit
def planes(X, Y, T: tl.constexpr, S: tl.constexpr):
    """Sums over columns, planes of constant number, and the columns up to the plane's once more."""
    at = tl.program_id(0) * T + tl.arange(0, T)
    acc = tl.zeros((T,), tl.float32)
    for s in tl.range(0, S):
        for k in tl.range(0, X.shape[1]):
            acc += tl.load(X[at, k, s], mask=at < X.shape[0], other=0)
    tl.store(Y[at], acc, mask=at < X.shape[0])


@tm.jit
def triangles(X, Y, T: tl.constexpr):
    """Sums over a row's part up to its number, of all planes: the inner bounds depend on the outer loop."""
    at = tl.program_id(0) * T + tl.arange(0, T)
    acc = tl.zeros((T,), tl.float32)
    for k in tl.range(0, X.shape[1]):
        for s in tl.range(0, X.shape[2]):
            for r in tl.range(0, s + 1):
                acc += tl.load(X[at, k, r], mask=at < X.shape[0], other=0)
    tl.store(Y[at], acc, mask=at < X.shape[0])


def test_a_sum_goes_on_from_loop_to_loop() -> None:
    n, k, p = tm.params("n k p")
    x = np.random.default_rng(0).integers(0, 9, (5, 6, 3)).astype(np.float32)
    for kernel, constants, expected in (
        (planes, {"S": 3}, x.sum((1, 2))),
        (triangles, {}, (x * [3, 2, 1]).sum((1, 2))),
    ):
        f = tm.Function("sums", params=[n, k, p], assume="p = 3" if kernel is planes else "")
        X, Y = f.input("X", tm.float32, [n, k, p]), f.array("Y", tm.float32, [n])
        run = kernel[tl.cdiv(n, T)](X, Y, T=T, **constants)
        f.outputs(Y)
        report = f.check()
        assert report.ok, report
        np.testing.assert_array_equal(f.evaluate(x), expected)
        found = np.zeros(5, np.float32)
        kernel.interpret[2](x, found, T=T, **constants)
        np.testing.assert_array_equal(found, expected)
        tm.recipes.blocks(run, on=tm.cores())
        np.testing.assert_array_equal(f.compile()(x), expected)


def test_a_loop_without_iterations_adds_nothing() -> None:
    n, k = tm.params("n k")
    f = tm.Function("sums", params=[n, k])
    X, Y = f.input("X", tm.float32, [n, k, 3]), f.array("Y", tm.float32, [n])
    planes[tl.cdiv(n, T)](X, Y, T=T, S=3)
    f.outputs(Y)
    np.testing.assert_array_equal(f.evaluate(np.ones((5, 0, 3), np.float32)), np.zeros(5))
