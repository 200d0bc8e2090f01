"""Kernels in Triton's own words, beside which block programs are read: no masks, since all sizes are whole blocks.

Imported only where Triton is installed; nothing is run.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(A, B, C, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, TRANSPOSED: tl.constexpr):
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in range(0, K, TK):
        a = tl.load(A + rm[:, None] * K + (k + rk)[None, :])
        if TRANSPOSED:
            b = tl.load(B + rn[:, None] * K + (k + rk)[None, :]).T
        else:
            b = tl.load(B + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(C + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def softmax(X, Y, LANES: tl.constexpr):
    at = tl.program_id(0) * LANES + tl.arange(0, LANES)
    x = tl.load(X + at)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y + at, e / tl.sum(e, axis=0))


@triton.jit
def layer_norm(X, W, B, Y, Mean, Rstd, eps, LANES: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, LANES)
    x = tl.load(X + row * LANES + i)
    mean = tl.sum(x, axis=0) / LANES
    centred = x - mean
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / LANES + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    tl.store(Y + row * LANES + i, centred * rstd * tl.load(W + i) + tl.load(B + i))


@triton.jit
def attention(Q, K, V, Out, scale, TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr):
    rm, rd = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, D)
    q = tl.load(Q + rm[:, None] * D + rd[None, :])
    top, total = tl.full((TM,), -float("inf"), tl.float32), tl.zeros((TM,), tl.float32)
    acc = tl.zeros((TM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * TM, TN):
        rn = start + tl.arange(0, TN)
        k = tl.load(K + rn[:, None] * D + rd[None, :])
        v = tl.load(V + rn[:, None] * D + rd[None, :])
        s = tl.where(rn[None, :] <= rm[:, None], tl.dot(q, k.T, input_precision="ieee") * scale, -float("inf"))
        high = tl.maximum(top, tl.max(s, axis=1))
        p, decay = tl.exp(s - high[:, None]), tl.exp(top - high)
        total = total * decay + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * decay[:, None], input_precision="ieee")
        top = high
    tl.store(Out + rm[:, None] * D + rd[None, :], acc / total[:, None])


KERNELS = {"matmul": matmul, "softmax": softmax, "layer_norm": layer_norm, "attention": attention}


def compiled(name: str, types: dict[str, str], constants: dict[str, Any], warps: int, stages: int, arch: int) -> Any:
    """A kernel for a GPU that need not be here: its cubin, and the bytes of shared memory of a block."""
    kernel = KERNELS[name]
    attributes = {(at,): [["tt.divisibility", 16]] for at, kind in enumerate(types.values()) if kind != "fp32"}
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    return made.asm["cubin"], int(made.metadata.shared)
