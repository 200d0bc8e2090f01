"""Listings 2.1, 5.1 and 5.7 of the thesis that Triton comes from: ReLU, a transposition, and matrix products.

The product has all transposes, a factor, and sums that TZ programs share. In the listing these take turns at a spin
lock for each block of C, with a counter that says who is the first; here `combine=` says how parts are added.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

M, N, K = tm.params("M N K")


@tm.jit
def relu(X, Y, BLOCK: tl.constexpr):
    """Listing 2.1, of blocks in the place of threads."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < X.shape[0]
    tl.store(Y[i], tl.maximum(tl.load(X[i], mask=inside, other=0), 0), mask=inside)


@tm.jit
def transpose(X, Y, TM: tl.constexpr, TN: tl.constexpr):
    """Listing 5.1, Y = X.T: the mask keeps reads and stores inside, and the strides are those of the arrays."""
    M, N = Y.shape
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (rm[:, None] < M) & (rn < N)
    x = tl.load(X + rm[:, None] * X.stride(1) + rn * X.stride(0), mask=inside, other=0)
    tl.store(Y + rm[:, None] * Y.stride(0) + rn * Y.stride(1), x, mask=inside)


@tm.jit
def matmul(
    A, B, C, alpha, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, TZ: tl.constexpr = 1,
    AT: tl.constexpr = False, BT: tl.constexpr = False, COMBINE: tl.constexpr = tm.TWO_PASS,
):  # fmt: skip
    """Listing 5.7, C = alpha * A @ B; A and B may be transposed."""
    M, N = C.shape
    K = A.shape[0] if AT else A.shape[1]
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (rm[:, None] < M) & (rn < N)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in tl.range(tl.program_id(2) * TK, K, TZ * TK):  # blocks of terms in turn: K need be no multiple of TZ
        rk = k + tl.arange(0, TK)
        in_a, in_b = (rm[:, None] < M) & (rk < K), (rk[:, None] < K) & (rn < N)
        a = tl.load(A[rk, rm[:, None]] if AT else A[rm[:, None], rk], mask=in_a, other=0)
        b = tl.load(B[rn, rk[:, None]] if BT else B[rk[:, None], rn], mask=in_b, other=0)
        acc = tl.dot(a, b, acc)
    if TZ > 1:
        tl.accumulate(C[rm[:, None], rn], acc * alpha, mask=inside, combine=COMBINE)  # no lock, no counter
    else:
        tl.store(C[rm[:, None], rn], acc * alpha, mask=inside)


def rectified(block: int = 64) -> tuple[tm.Function, Any]:
    f = tm.Function("rectified", params=[M])
    x, y = f.input("x", tm.float32, [M]), f.array("y", tm.float32, [M])
    run = relu[tl.cdiv(M, block)](x, y, BLOCK=block)
    f.outputs(y)
    return f, run


def transposed(rows: int = 16, columns: int = 32) -> tuple[tm.Function, Any]:
    f = tm.Function("transposed", params=[M, N])
    x, y = f.input("x", tm.float32, [N, M]), f.array("y", tm.float32, [M, N])
    run = transpose[tl.cdiv(M, rows), tl.cdiv(N, columns)](x, y, TM=rows, TN=columns)
    f.outputs(y)
    return f, run


def product(
    tiles: tuple[int, int, int] = (32, 32, 16), split: int = 1, first: bool = False, second: bool = False,
    combine: Any = tm.TWO_PASS, dtype: tm.DType = tm.float32,
) -> tuple[tm.Function, Any]:  # fmt: skip
    """``alpha * a @ b``: `first` and `second` say which operands are transposed."""
    f = tm.Function("product", params=[M, N, K])
    a = f.input("a", dtype, [K, M] if first else [M, K])
    b = f.input("b", dtype, [N, K] if second else [K, N])
    c = f.array("c", tm.float32, [M, N])
    rows, columns, terms = tiles
    run = matmul[tl.cdiv(M, rows), tl.cdiv(N, columns), split](
        a, b, c, f.scalar("alpha", tm.float32), TM=rows, TN=columns, TK=terms, TZ=split, AT=first, BT=second,
        COMBINE=combine,
    )  # fmt: skip
    f.outputs(c)
    return f, run


if __name__ == "__main__":
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=101).astype(np.float32)
    f, run = rectified()
    tm.recipes.blocks(run, on=tm.cores())
    np.testing.assert_array_equal(f.compile()(x), np.maximum(x, 0))
    f, run = transposed()
    print(run.ir)
    tm.recipes.blocks(run, on=tm.cores())
    a, b = (numbers.integers(-4, 5, shape).astype(np.float32) for shape in ((37, 50), (50, 19)))
    np.testing.assert_array_equal(f.compile()(a), a.T)
    for split, combine in ((1, tm.TWO_PASS), (4, tm.TWO_PASS), (4, tm.ATOMIC), (4, tm.LAST_BLOCK)):
        for first in (False, True):
            f, run = product((16, 16, 8), split, first, not first, combine)
            tm.recipes.blocks(run, on=tm.cores())
            given = (a.T.copy() if first else a), (b if first else b.T.copy())
            np.testing.assert_array_equal(f.compile()(*given, alpha=0.5), a @ b / 2)
        print(f"split {split}: {f.check().bits}")
    print("right: ReLU, a transposition, and products in all transposes, whole and split")
