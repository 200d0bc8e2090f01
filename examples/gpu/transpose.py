"""Transpose: reads and writes both run along rows, through a tile in shared memory with a column of padding."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, i0, j0, i1, j1, im, it, a, b = tm.iters("i j i0 j0 i1 j1 im it a b")


def algorithm(memory: tm.Memory = tm.HOST) -> tuple[tm.Function, tm.Input, tm.Computation]:
    """``B[i, j] = A[j, i]``, for matrices in host or GPU memory."""
    f = tm.Function("transpose", params=[M, N])
    A = f.input("A", tm.float32, [N, M], memory=memory)
    B = f.computation("B", {i: M, j: N}, A[j, i])
    f.outputs(B)
    B.store_in(memory)
    return f, A, B


def plain() -> tm.Function:
    """One element for each thread: reads are scattered."""
    f, _, B = algorithm()
    B.gpu_tile(i, j, 8, 32, i0, j0, i1, j1)
    f.derive_transfers()
    return f


def tiled(memory: tm.Memory = tm.HOST) -> tm.Function:
    """A tile of 32 x 32 for each block of 32 x 8 threads, four rows for each thread."""
    f, A, B = algorithm(memory)
    B.tile(i, j, 32, 32, i0, j0, i1, j1)
    B.split(i1, 8, im, it)
    B.tag_gpu(blocks=[i0, j0], threads=[it, j1])
    B.unroll(im)
    B.copy(A, [a, b], at=j0, into=tm.SHARED, pad=1)
    f.derive_transfers()
    return f


VARIANTS = {"plain": plain, "tiled": tiled}


def sample(size: int, seed: int) -> dict[str, np.ndarray]:
    """A random matrix, not square."""
    return {"A": np.random.default_rng(seed).random((size, size + 13), dtype=np.float32)}


if __name__ == "__main__":
    tell(VARIANTS, sample, (1, 90))
