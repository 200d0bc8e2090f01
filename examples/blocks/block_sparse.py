"""Attention over sparse blocks, in the three kernels of the thesis: scores, their softmax, and the sums of values.

Only the blocks of a pattern have scores. `start` says which blocks belong to each row of blocks, of all heads one
after another, and `head`, `row` and `column` what a block is. `sddmm` is listing 6.1, a program for each block, whose
sums several programs may share; `softmax` is listing 6.2, a program for each row of scores, with a scale, relative
positions and a mask; `dsd` multiplies a row of blocks with the values.

Lines that differ: a table for each number in the place of one with all of them; `start` in the place of sizes and
offsets; another array for the shares, so that no program reads where one stores. Arrays of tokens are given in blocks,
`[Z, H, R, B, D]`, which is the memory of `[Z, H, R * B, D]`.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020), 6.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

#: The batch, heads, rows of blocks of a head and of all heads, blocks, and the depth of a token.
Z, H, R, W, E, D = tm.params("Z H R W E D")
b, w, e, i, j = tm.iters("b w e i j")


@tm.jit
def sddmm(
    head, row, column, Q, K, S, B: tl.constexpr, TK: tl.constexpr, TZ: tl.constexpr = 1,
    COMBINE: tl.constexpr = tm.TWO_PASS,
):  # fmt: skip
    block, z, i, j = tl.program_id(0), tl.program_id(1), tl.arange(0, B), tl.arange(0, B)
    h, m, n = tl.load(head[block]), tl.load(row[block]), tl.load(column[block])
    D = Q.shape[4]
    acc = tl.zeros((B, B), tl.float32)
    for k in tl.range(tl.program_id(2) * TK, D, TZ * TK):
        rk = k + tl.arange(0, TK)
        q = tl.load(Q[z, h, m, i[:, None], rk], mask=rk < D, other=0)
        key = tl.load(K[z, h, n, j[:, None], rk], mask=rk < D, other=0)
        acc = tl.dot(q, tl.trans(key), acc)
    if TZ > 1:
        tl.accumulate(S[z, block, i[:, None], j], acc, combine=COMBINE)
    else:
        tl.store(S[z, block, i[:, None], j], acc)


@tm.jit
def softmax(start, head, row, column, X, P, M, Y, scale, B: tl.constexpr, LANES: tl.constexpr):
    """LANES is at least the number of scores in the longest row."""
    r, rxm, lane, z = tl.program_id(0) // B, tl.program_id(0) % B, tl.arange(0, LANES), tl.program_id(1)
    block, rxn = tl.load(start[r]) + lane // B, lane % B
    check = block < tl.load(start[r + 1])
    h, m = tl.load(head[block], mask=check, other=0), tl.load(row[block], mask=check, other=0)
    n = tl.load(column[block], mask=check, other=0)
    x = tl.load(X[z, block, rxm, rxn], mask=check, other=0)
    p = tl.load(P[z, h, m, rxm, n, rxn], mask=check, other=0)
    kept = check & (tl.load(M[m, rxm, n, rxn], mask=check, other=0) != 0)
    x = tl.where(kept, x * scale + p, -float("inf"))
    top = tl.maximum(tl.max(x, axis=0), -1e30)  # a row without any score is one of zeros, not of NaN
    e = tl.where(kept, tl.exp(x - top), 0.0)
    tl.store(Y[z, block, rxm, rxn], e / tl.maximum(tl.sum(e, axis=0), 1e-30), mask=check)


@tm.jit
def dsd(start, head, column, A, V, Out, B: tl.constexpr, TD: tl.constexpr):
    r, z, i, j = tl.program_id(0), tl.program_id(1), tl.arange(0, B), tl.arange(0, B)
    D = V.shape[4]
    rd = tl.program_id(2) * TD + tl.arange(0, TD)
    acc = tl.zeros((B, TD), tl.float32)
    for e in tl.range(tl.load(start[r]), tl.load(start[r + 1])):
        h, n = tl.load(head[e]), tl.load(column[e])
        a = tl.load(A[z, e, i[:, None], j])
        v = tl.load(V[z, h, n, j[:, None], rd], mask=rd < D, other=0)
        acc = tl.dot(a, v, acc)
    tl.store(Out[z, r, i[:, None], rd], acc, mask=rd < D)


@tm.jit
def fused(column, Q, K, V, Out, scale, B: tl.constexpr, D: tl.constexpr):
    """All three in one kernel, for one head and equally many blocks in each row: a program goes on with the maxima and
    sums of its blocks so far.
    """
    r, i, j, rd = tl.program_id(0), tl.arange(0, B), tl.arange(0, B), tl.arange(0, D)
    q = tl.load(Q[r, i[:, None], rd])
    top, total = tl.full((B,), -1e30, tl.float32), tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for e in tl.range(0, column.shape[1]):
        n = tl.load(column[r, e])
        k = tl.load(K[n, j[:, None], rd])
        v = tl.load(V[n, j[:, None], rd])
        s = tl.dot(q, tl.trans(k)) * scale
        high = tl.maximum(top, tl.max(s, axis=1))
        p, decay = tl.exp(s - high[:, None]), tl.exp(top - high)
        total = total * decay + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * decay[:, None])
        top = high
    tl.store(Out[r, i[:, None], rd], acc / tl.maximum(total, 1e-30)[:, None])


def tables(f: tm.Function, *names: str) -> list[tm.Input]:
    """The tables of a pattern, as inputs."""
    known = {"head": H, "row": R, "column": R}
    return [
        f.input(name, tm.int32, [W + 1], values=(0, E + 1), monotone=True)
        if name == "start"
        else f.input(name, tm.int32, [E], values=(0, known[name]))
        for name in names
    ]


def scores(block: int = 8, terms: int = 8, split: int = 1, combine: Any = tm.TWO_PASS) -> tuple[tm.Function, Any]:
    f = tm.Function("scores", params=[Z, H, R, E, D])
    given = tables(f, "head", "row", "column")
    q, k = (f.input(name, tm.float32, [Z, H, R, block, D]) for name in "qk")
    s = f.array("s", tm.float32, [Z, E, block, block])
    run = sddmm[E, Z, split](*given, q, k, s, B=block, TK=terms, TZ=split, COMBINE=combine)
    f.outputs(s)
    return f, run


def shares(block: int = 8, lanes: int = 32) -> tuple[tm.Function, Any]:
    f = tm.Function("shares", params=[Z, H, R, W, E], assume="H >= 1 and R >= 1")
    given = tables(f, "start", "head", "row", "column")
    x, p = f.input("x", tm.float32, [Z, E, block, block]), f.input("p", tm.float32, [Z, H, R, block, R, block])
    m = f.input("m", tm.float32, [R, block, R, block])
    y = f.array("y", tm.float32, [Z, E, block, block], partial=True)
    run = softmax[W * block, Z](*given, x, p, m, y, f.scalar("scale", tm.float32), B=block, LANES=lanes)
    f.outputs(y)
    return f, run


def steps(block: int = 8) -> list[tm.Function]:
    """The shares by a kernel for each operation: a scale, positions, a mask, and a softmax, each with its own array."""
    at = {b: Z, e: E, i: block, j: block}
    found = []
    for name in ("scaled", "placed", "masked"):
        f = tm.Function(name, params=[Z, H, R, W, E], assume="H >= 1 and R >= 1")
        head, row, column = tables(f, "head", "row", "column")
        x = f.input("x", tm.float32, [Z, E, block, block])[b, e, i, j]
        if name == "scaled":
            y = f.computation("y", at, x * f.scalar("scale", tm.float32))
        elif name == "placed":
            p = f.input("p", tm.float32, [Z, H, R, block, R, block])
            y = f.computation("y", at, x + p[b, head[e], row[e], i, column[e], j])
        else:
            m = f.input("m", tm.float32, [R, block, R, block])
            y = f.computation("y", at, tm.select(m[row[e], i, column[e], j] != 0, x, -np.inf))
        f.outputs(y)
        found.append(f)
    return [*found, _softmax_of_runs(block)]


def _softmax_of_runs(block: int) -> tm.Function:
    f = tm.Function("softmax", params=[Z, W, E], assume="W >= 1")
    run = f.segments("start", W, of=E)
    x, rows = f.input("x", tm.float32, [Z, E, block, block]), {b: Z, w: W, i: block}
    top = f.reduction("top", rows, {e: run[w], j: block}, tm.max, x[b, e, i, j])
    shifted = tm.exp(x[b, e, i, j] - tm.maximum(top[b, w, i], -1e30))
    total = f.reduction("total", rows, {e: run[w], j: block}, tm.sum, shifted)
    y = f.computation("y", {b: Z, w: W, e: run[w], i: block, j: block}, shifted / tm.maximum(total[b, w, i], 1e-30))
    f.outputs(y)
    return f


def sums(block: int = 8, columns: int = 16) -> tuple[tm.Function, Any]:
    f = tm.Function("sums", params=[Z, H, R, W, E, D])
    given = tables(f, "start", "head", "column")
    a, v = f.input("a", tm.float32, [Z, E, block, block]), f.input("v", tm.float32, [Z, H, R, block, D])
    out = f.array("out", tm.float32, [Z, W, block, D])
    run = dsd[W, Z, tl.cdiv(D, columns)](*given, a, v, out, B=block, TD=columns)
    f.outputs(out)
    return f, run


def attended(block: int = 8, depth: int = 16) -> tuple[tm.Function, Any]:
    f = tm.Function("sparsely_attended", params=[R, E])
    column = f.input("column", tm.int32, [R, E], values=(0, R))
    q, k, v = (f.input(name, tm.float32, [R, block, depth]) for name in "qkv")
    out = f.array("out", tm.float32, [R, block, depth])
    run = fused[R](column, q, k, v, out, f.scalar("scale", tm.float32), B=block, D=depth)
    f.outputs(out)
    return f, run


def pattern(heads: int, rows: int, seed: int) -> dict[str, Any]:
    """The tables of random blocks below the diagonal; the last row of each head has none."""
    seen = np.random.default_rng(seed).random((heads, rows, rows)) < 0.6
    seen &= np.tri(rows, dtype=bool)
    seen[:, -1] = False
    head, row, column = (each.astype(np.int32) for each in np.nonzero(seen))
    ends = np.cumsum(seen.reshape(heads * rows, rows).sum(1))
    start = np.concatenate([[0], ends]).astype(np.int32)
    return {"start": start, "head": head, "row": row, "column": column}


def dense(given: dict[str, Any], blocks: Any, rows: int, heads: int) -> Any:
    """Sparse blocks as whole matrices of all heads, zero elsewhere."""
    batch, _, block, _ = blocks.shape
    whole = np.zeros((batch, heads, rows, block, rows, block), blocks.dtype)
    for e, (h, m, n) in enumerate(zip(given["head"], given["row"], given["column"], strict=True)):
        whole[:, h, m, :, n, :] = blocks[:, e]
    return whole.reshape(batch, heads, rows * block, rows * block)


def by_numpy(given: dict[str, Any], q: Any, k: Any, v: Any, p: Any, m: Any, scale: float) -> tuple[Any, Any, Any]:
    """Scores, shares and sums by dense matrices; the first two as blocks."""
    batch, heads, rows, block, depth = q.shape
    length, count = rows * block, len(given["head"])
    Q, K, V = (each.reshape(batch, heads, length, depth) for each in (q, k, v))
    s = Q @ K.transpose(0, 1, 3, 2)
    there = dense(given, np.ones((batch, count, block, block), np.float32), rows, heads) != 0
    x = np.where(there & (m.reshape(length, length) != 0), s * scale + p.reshape(s.shape), -np.inf)
    top = np.maximum(x.max(-1, keepdims=True, initial=-np.inf), -1e30)
    e = np.exp(x - top)
    y = e / np.maximum(e.sum(-1, keepdims=True), 1e-30)
    at = given["head"], given["row"], slice(None), given["column"]

    def in_blocks(whole: Any) -> Any:
        found = np.moveaxis(whole.reshape(batch, heads, rows, block, rows, block)[:, *at], 0, 1)
        return np.ascontiguousarray(found.reshape(batch, count, block, block))

    return in_blocks(s), in_blocks(y), (y @ V).reshape(batch, heads * rows, block, depth)


if __name__ == "__main__":
    numbers, heads, rows, depth, scale = np.random.default_rng(0), 2, 4, 24, 0.25
    given = pattern(heads, rows, seed=0)
    start, head, row, column = given.values()
    q, k, v = numbers.normal(size=(3, 2, heads, rows, 8, depth)).astype(np.float32)
    p, m = numbers.normal(size=(2, heads, rows, 8, rows, 8)).astype(np.float32), np.tri(rows * 8, dtype=np.float32)
    m = m.reshape(rows, 8, rows, 8)
    wanted = by_numpy(given, q, k, v, p, m, scale)
    calls = []
    for f, run in (scores(split=2), shares(), sums()):
        tm.recipes.blocks(run, on=tm.cores())
        print(f.check())
        calls.append(f.compile())
    s = calls[0](head, row, column, q, k)
    y = calls[1](start, head, row, column, s, p, m, scale=scale)
    out = calls[2](start, head, column, y, v)
    for found, right in zip((s, y, out), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)
    print(f"right: attention over {len(head)} blocks of {heads * rows * rows}")
