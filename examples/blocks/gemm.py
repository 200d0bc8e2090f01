"""A matrix product as a block program: a program for each block of C, or several that add their parts in any order.

One source, four schedules: as declared, on cores (tiles of registers), on a GPU with a block of threads for a program,
and with the sums split among programs. Matrices of small integers: every order of the terms gives the same sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

M, N, K = tm.params("M N K")


@tm.jit
def matmul(A, B, C, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, SPLIT: tl.constexpr = 1):
    M, K = A.shape
    N = B.shape[1]
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (rm[:, None] < M) & (rn < N)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in tl.range(tl.program_id(2) * TK, K, SPLIT * TK):
        rk = k + tl.arange(0, TK)
        a = tl.load(A[rm[:, None], rk], mask=(rm[:, None] < M) & (rk < K), other=0)
        b = tl.load(B[rk[:, None], rn], mask=(rk[:, None] < K) & (rn < N), other=0)
        acc = tl.dot(a, b, acc)
    if SPLIT > 1:
        tl.accumulate(C[rm[:, None], rn], acc, mask=inside, combine=tm.ATOMIC)
    else:
        tl.store(C[rm[:, None], rn], acc, mask=inside)


def product(split: int = 1, tile: int = 32) -> tuple[tm.Function, Any]:
    f = tm.Function("product", params=[M, N, K])
    A, B, C = f.input("A", tm.float32, [M, K]), f.input("B", tm.float32, [K, N]), f.array("C", tm.float32, [M, N])
    run = matmul[tl.cdiv(M, tile), tl.cdiv(N, tile), split](A, B, C, TM=tile, TN=tile, TK=16, SPLIT=split)
    f.outputs(C)
    return f, run


def sizes_on_cores(rows: int, threads: int, cpu: tm.Target | None = None) -> tuple[int, int, int]:
    """Rows, columns and terms of a block: what a program keeps is half of the second-level cache of its core.

    These are powers of two, and so few rows that each thread has a program.
    """
    elements = (cpu or tm.target()).second // 2 // 4
    side = 16
    while 2 * (2 * side) ** 2 <= elements:  # a square of sums, and as much of both operands
        side *= 2
    own = 1 << max(rows // threads, 16).bit_length() - 1
    return min(side, own), side, side // 2


if __name__ == "__main__":
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(0, 9, shape).astype(np.float32) for shape in ((65, 50), (50, 40)))
    f, run = product()
    print(f.check())
    print(tm.recipes.blocks(run, on=tm.cores()))
    np.testing.assert_array_equal(f.compile()(a, b), a @ b)
    for split in (1, 2):
        f, run = product(split, tile=16)
        tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
        f.derive_transfers()
        print(f.check().bits)
        np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(a, b), a @ b)
    print("right: a @ b on cores and in the simulator, with whole and with split sums")
