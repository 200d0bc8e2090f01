"""Triton's tutorial 06, with its gradients: causal attention, and what becomes of q, k and v.

Three kernels, as in Triton. The forward one keeps of each row the logarithm of its sum of exponentials, from which the
others make the weights again; one is for blocks of columns (k and v), one for blocks of rows (q). None of them adds to
what another program stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

(L,) = tm.params("L")


@tm.jit
def forward(Q, K, V, Out, Log, scale, TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr):
    L = Q.shape[0]
    rm, rd = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, D)
    q = tl.load(Q[rm[:, None], rd], mask=rm[:, None] < L, other=0)
    top, total = tl.full((TM,), -float("inf"), tl.float32), tl.zeros((TM,), tl.float32)
    acc = tl.zeros((TM, D), tl.float32)
    for start in tl.range(0, (tl.program_id(0) + 1) * TM, TN):
        rn = start + tl.arange(0, TN)
        k = tl.load(K[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        v = tl.load(V[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        s = tl.where(rn[None, :] <= rm[:, None], tl.dot(q, tl.trans(k)) * scale, -float("inf"))
        high = tl.maximum(top, tl.max(s, axis=1))
        p, decay = tl.exp(s - high[:, None]), tl.exp(top - high)
        total = total * decay + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * decay[:, None])
        top = high
    tl.store(Out[rm[:, None], rd], acc / total[:, None], mask=rm[:, None] < L)
    tl.store(Log[rm], top + tl.log(total), mask=rm < L)


@tm.jit
def of_columns(Q, K, V, DO, Log, Delta, DK, DV, scale, TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr):
    """The gradients of a block of k and v: over the blocks of rows from its first column on."""
    L = Q.shape[0]
    rn, rd = tl.program_id(0) * TN + tl.arange(0, TN), tl.arange(0, D)
    k = tl.load(K[rn[:, None], rd], mask=rn[:, None] < L, other=0)
    v = tl.load(V[rn[:, None], rd], mask=rn[:, None] < L, other=0)
    dk, dv = tl.zeros((TN, D), tl.float32), tl.zeros((TN, D), tl.float32)
    for start in tl.range(tl.program_id(0) * TN, L, TM):
        rm = start + tl.arange(0, TM)
        q = tl.load(Q[rm[:, None], rd], mask=rm[:, None] < L, other=0)
        do = tl.load(DO[rm[:, None], rd], mask=rm[:, None] < L, other=0)
        log = tl.load(Log[rm], mask=rm < L, other=0)
        delta = tl.load(Delta[rm], mask=rm < L, other=0)
        seen = (rn[None, :] <= rm[:, None]) & (rm[:, None] < L)
        p = tl.where(seen, tl.exp(tl.dot(q, tl.trans(k)) * scale - log[:, None]), 0.0)
        dv = tl.dot(tl.trans(p), do, dv)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dk = tl.dot(tl.trans(ds), q, dk)
    tl.store(DK[rn[:, None], rd], dk * scale, mask=rn[:, None] < L)
    tl.store(DV[rn[:, None], rd], dv, mask=rn[:, None] < L)


@tm.jit
def of_rows(Q, K, V, DO, Log, Delta, DQ, scale, TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr):
    """The gradients of a block of q: over the blocks of columns up to its last row."""
    L = Q.shape[0]
    rm, rd = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, D)
    q = tl.load(Q[rm[:, None], rd], mask=rm[:, None] < L, other=0)
    do = tl.load(DO[rm[:, None], rd], mask=rm[:, None] < L, other=0)
    log, delta = tl.load(Log[rm], mask=rm < L, other=0), tl.load(Delta[rm], mask=rm < L, other=0)
    dq = tl.zeros((TM, D), tl.float32)
    for start in tl.range(0, (tl.program_id(0) + 1) * TM, TN):
        rn = start + tl.arange(0, TN)
        k = tl.load(K[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        v = tl.load(V[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        seen = rn[None, :] <= rm[:, None]
        p = tl.where(seen, tl.exp(tl.dot(q, tl.trans(k)) * scale - log[:, None]), 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds, k, dq)
    tl.store(DQ[rm[:, None], rd], dq * scale, mask=rm[:, None] < L)


def attended(tile: int = 16, depth: int = 16) -> tuple[tm.Function, Any]:
    f = tm.Function("attended", params=[L], assume="L >= 1")
    qkv = [f.input(name, tm.float32, [L, depth]) for name in "qkv"]
    o, log = f.array("o", tm.float32, [L, depth]), f.array("log", tm.float32, [L])
    run = forward[tl.cdiv(L, tile)](*qkv, o, log, f.scalar("scale", tm.float32), TM=tile, TN=tile, D=depth)
    f.outputs(o, log)
    return f, run


def gradients(tile: int = 16, depth: int = 16) -> tuple[tm.Function, list[Any]]:
    """Both kernels in one function, after the sums of o * do, an ordinary computation."""
    f = tm.Function("attention_gradients", params=[L], assume="L >= 1")
    q, k, v, o, do = (f.input(name, tm.float32, [L, depth]) for name in ("q", "k", "v", "o", "d_o"))
    log, scale = f.input("log", tm.float32, [L]), f.scalar("scale", tm.float32)
    i, d = tm.iters("i d")
    delta = f.reduction("delta", {i: L}, {d: depth}, tm.sum, o[i, d] * do[i, d])
    dq, dk, dv = (f.array(name, tm.float32, [L, depth]) for name in ("dq", "dk", "dv"))
    tiles = {"TM": tile, "TN": tile, "D": depth}
    runs = [
        of_columns[tl.cdiv(L, tile)](q, k, v, do, log, delta, dk, dv, scale, **tiles),
        of_rows[tl.cdiv(L, tile)](q, k, v, do, log, delta, dq, scale, **tiles),
    ]
    f.outputs(dq, dk, dv)
    return f, runs


def by_numpy(q: Any, k: Any, v: Any, do: Any, scale: float) -> tuple[Any, ...]:
    """What is attended, and the gradients, in float64."""
    q, k, v, do = (each.astype(np.float64) for each in (q, k, v, do))
    e = np.exp(np.where(np.tri(len(q), dtype=bool), q @ k.T * scale, -np.inf))
    p = e / e.sum(1, keepdims=True)
    dp = do @ v.T
    ds = p * (dp - (dp * p).sum(1, keepdims=True)) * scale
    return p @ v, ds @ k, ds.T @ q, p.T @ do


if __name__ == "__main__":
    q, k, v, do = np.random.default_rng(0).normal(size=(4, 45, 16)).astype(np.float32)
    f, run = attended()
    tm.recipes.blocks(run, on=tm.cores())
    o, log = f.compile()(q, k, v, scale=np.float32(0.25))
    wanted = by_numpy(q, k, v, do, 0.25)
    np.testing.assert_allclose(o, wanted[0], rtol=1e-3, atol=1e-4)
    g, runs = gradients()
    for each in runs:
        tm.recipes.blocks(each, on=tm.cores())
    print(g.check())
    for found, right in zip(g.compile()(q, k, v, o, do, log, scale=np.float32(0.25)), wanted[1:], strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)
    print("right: attention, and the gradients of q, k and v")
