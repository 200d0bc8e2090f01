"""Triton's tutorial 05: layer norm, and the gradients of its input, its weights and its bias.

In Triton the gradients of the weights need locks, a buffer for each group of rows, and a second kernel that adds the
groups up. Here each program accumulates the sum of its rows, and `combine=` says how parts are added up: in order,
so that every call has the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

M, N = tm.params("M N")


@tm.jit
def forward(X, W, B, Y, Mean, Rstd, eps, LANES: tl.constexpr):
    """A program a row; LANES is at least the length of a row."""
    row, i = tl.program_id(0), tl.arange(0, LANES)
    N = X.shape[1]
    x = tl.load(X[row, i], mask=i < N, other=0)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(i < N, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
    tl.store(Mean[row], mean)
    tl.store(Rstd[row], rstd)
    w, b = tl.load(W[i], mask=i < N, other=0), tl.load(B[i], mask=i < N, other=0)
    tl.store(Y[row, i], centred * rstd * w + b, mask=i < N)


@tm.jit
def backward(DY, X, W, Mean, Rstd, DX, DW, DB, ROWS: tl.constexpr, LANES: tl.constexpr, COMBINE: tl.constexpr):
    """A program for so many rows: their gradients, and its part of the gradients of all weights."""
    rm, i = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LANES)
    M, N = X.shape
    inside = (rm[:, None] < M) & (i < N)
    x, dy = tl.load(X[rm[:, None], i], mask=inside, other=0), tl.load(DY[rm[:, None], i], mask=inside, other=0)
    mean, rstd = tl.load(Mean[rm], mask=rm < M, other=0), tl.load(Rstd[rm], mask=rm < M, other=0)
    w = tl.load(W[i], mask=i < N, other=0)
    hat = tl.where(inside, (x - mean[:, None]) * rstd[:, None], 0.0)
    weighted = w * dy
    along, whole = tl.sum(hat * weighted, axis=1) / N, tl.sum(weighted, axis=1) / N
    dx = (weighted - (hat * along[:, None] + whole[:, None])) * rstd[:, None]
    tl.store(DX[rm[:, None], i], dx, mask=inside)
    tl.accumulate(DW[i], tl.sum(dy * hat, axis=0), mask=i < N, combine=COMBINE)  # no lock, no second kernel to write
    tl.accumulate(DB[i], tl.sum(dy, axis=0), mask=i < N, combine=COMBINE)


def normalised() -> tuple[tm.Function, Any]:
    f = tm.Function("normalised", params=[M, N], assume="1 <= N <= 64")
    x, w, b = f.input("x", tm.float32, [M, N]), f.input("w", tm.float32, [N]), f.input("b", tm.float32, [N])
    y = f.array("y", tm.float32, [M, N])
    mean, rstd = f.array("mean", tm.float32, [M]), f.array("rstd", tm.float32, [M])
    run = forward[M](x, w, b, y, mean, rstd, f.scalar("eps", tm.float32), LANES=64)
    f.outputs(y, mean, rstd)
    return f, run


def gradients(combine: Any = tm.TWO_PASS) -> tuple[tm.Function, Any]:
    f = tm.Function("gradients", params=[M, N], assume="M >= 1 and 1 <= N <= 64")
    dy, x, w = f.input("dy", tm.float32, [M, N]), f.input("x", tm.float32, [M, N]), f.input("w", tm.float32, [N])
    mean, rstd = f.input("mean", tm.float32, [M]), f.input("rstd", tm.float32, [M])
    dx, dw, db = f.array("dx", tm.float32, [M, N]), f.array("dw", tm.float32, [N]), f.array("db", tm.float32, [N])
    run = backward[tl.cdiv(M, 8)](dy, x, w, mean, rstd, dx, dw, db, ROWS=8, LANES=64, COMBINE=combine)
    f.outputs(dx, dw, db)
    return f, run


def by_numpy(x: Any, w: Any, dy: Any, eps: float) -> tuple[Any, Any, Any]:
    """The gradients in float64."""
    x, w, dy = (each.astype(np.float64) for each in (x, w, dy))
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    hat, weighted = (x - x.mean(1, keepdims=True)) * rstd, w * dy
    along = (hat * weighted).mean(1, keepdims=True)
    return (weighted - hat * along - weighted.mean(1, keepdims=True)) * rstd, (dy * hat).sum(0), dy.sum(0)


if __name__ == "__main__":
    rng, eps = np.random.default_rng(0), np.float32(1e-5)
    x, dy = rng.normal(size=(2, 37, 50)).astype(np.float32)
    w, b = rng.normal(size=(2, 50)).astype(np.float32)
    f, run = normalised()
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok
    y, mean, rstd = f.compile()(x, w, b, eps=eps)
    hat = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps)
    np.testing.assert_allclose(y, hat * w + b, rtol=1e-4, atol=1e-5)
    g, run = gradients()
    tm.recipes.blocks(run, on=tm.cores())
    print(g.check())
    for found, wanted in zip(g.compile()(dy, x, w, mean, rstd), by_numpy(x, w, dy, eps), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    print("right: layer norm, and the gradients of x, w and b")
