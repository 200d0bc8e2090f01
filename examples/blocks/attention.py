"""Attention, causal or not: a program for a block of rows, with the maxima and sums of the columns so far.

Scores are never stored whole: a loop carries the largest score, the sum of exponentials and the weighted sum of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

(L,) = tm.params("L")


@tm.jit
def attention(Q, K, V, Out, scale, TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr = True):
    L = Q.shape[0]
    rm, rd = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, D)
    q = tl.load(Q[rm[:, None], rd], mask=rm[:, None] < L, other=0)
    top, total = tl.full((TM,), -float("inf"), tl.float32), tl.zeros((TM,), tl.float32)
    acc = tl.zeros((TM, D), tl.float32)
    for start in tl.range(0, (tl.program_id(0) + 1) * TM if CAUSAL else L, TN):
        rn = start + tl.arange(0, TN)
        k = tl.load(K[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        v = tl.load(V[rn[:, None], rd], mask=rn[:, None] < L, other=0)
        seen = (rn[None, :] <= rm[:, None]) if CAUSAL else (rn[None, :] < L)
        s = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, -float("inf"))
        high = tl.maximum(top, tl.max(s, axis=1))
        p, decay = tl.exp(s - high[:, None]), tl.exp(top - high)
        total = total * decay + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * decay[:, None])
        top = high
    tl.store(Out[rm[:, None], rd], acc / total[:, None], mask=rm[:, None] < L)


def attended(
    tile: int = 32, depth: int = 16, causal: bool = True, columns: int | None = None
) -> tuple[tm.Function, Any]:
    """Blocks of `tile` rows, which take as many columns at a time, or so many."""
    f = tm.Function("attended", params=[L], assume="L >= 1")
    o, qkv = f.array("o", tm.float32, [L, depth]), [f.input(name, tm.float32, [L, depth]) for name in "qkv"]
    run = attention[tl.cdiv(L, tile)](
        *qkv, o, f.scalar("scale", tm.float32), TM=tile, TN=columns or tile, D=depth, CAUSAL=causal
    )
    f.outputs(o)
    return f, run


if __name__ == "__main__":
    x = np.random.default_rng(1).normal(size=(3, 70, 16)).astype(np.float32)
    e = np.exp(np.where(np.tri(70, dtype=bool), x[0] @ x[1].T * 0.25, -np.inf))
    expected = e / e.sum(1, keepdims=True) @ x[2]
    f, run = attended()
    print(run.ir)
    tm.recipes.blocks(run, on=tm.cores())
    print(f.check())
    np.testing.assert_allclose(f.compile()(*x, scale=0.25), expected, rtol=1e-4, atol=1e-5)
    out = np.empty_like(x[0])
    attention.interpret[3](*x, out, np.float32(0.25), TM=32, TN=32, D=16)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    print("right: attention on cores, and the same Python on NumPy")
