"""Matrix product: tiles in shared memory, partial results in registers, and the next tiles on their way meanwhile."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

M, N, K = tm.params("M N K")
i, j, k, i0, j0, i1, j1, i2, j2, k0, k1 = tm.iters("i j k i0 j0 i1 j1 i2 j2 k0 k1")
p, q = tm.iters("p q")


def algorithm() -> tuple[tm.Function, tm.Input, tm.Input, tm.Reduction, tm.Computation]:
    """The sum over k, and the matrix that keeps it."""
    f = tm.Function("product", params=[M, N, K])
    A = f.input("A", tm.float32, [M, K])
    B = f.input("B", tm.float32, [K, N])
    total = f.reduction("total", {i: M, j: N}, {k: K}, tm.sum, A[i, k] * B[k, j])
    C = f.computation("C", {i: M, j: N}, total[i, j])
    f.outputs(C)
    return f, A, B, total, C


def shared_tiles() -> tm.Function:
    """Each thread one element; a block goes through tiles of 16 x 16."""
    f, A, B, total, C = algorithm()
    C.gpu_tile(i, j, 16, 16, i0, j0, i1, j1)
    total.compute_at(C, j1)
    total.store_in(tm.REGISTER)
    total.update.split(k, 16, k0, k1)
    total.update.cache_shared(A, k0, [p, q])
    total.update.cache_shared(B, k0, [p, q])
    f.derive_transfers()
    return f


def register_tiles(buffers: int = 1) -> tm.Function:
    """Each thread 4 x 4 neighbours of a block's 64 x 64 elements, in registers."""
    f, A, B, total, C = algorithm()
    C.tile(i, j, 64, 64, i0, j0, i1, j1)
    C.split(i1, 4, i1, i2)
    C.split(j1, 4, j1, j2)
    C.reorder(i0, j0, i1, j1, i2, j2)
    C.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    C.unroll(i2)
    C.unroll(j2)
    total.compute_at(C, j1)
    total.store_in(tm.REGISTER)
    total.unroll(i)
    total.unroll(j)
    total.update.split(k, 16, k0, k1)
    total.update.reorder(k0, k1, i, j)
    total.update.unroll(k1)
    total.update.cache_shared(A, k0, [p, q], pad=1, buffers=buffers, deferred=buffers > 1)
    total.update.cache_shared(B, k0, [p, q], buffers=buffers, deferred=buffers > 1)
    f.derive_transfers()
    return f


def double_buffered() -> tm.Function:
    """While a block multiplies two tiles, the next two are on their way into a second pair."""
    return register_tiles(buffers=2)


VARIANTS = {"shared tiles": shared_tiles, "register tiles": register_tiles, "double buffered": double_buffered}


def sample(size: int, seed: int) -> dict[str, np.ndarray]:
    """Two random matrices, not square."""
    numbers = np.random.default_rng(seed)
    return {
        "A": numbers.random((size, size + 3), dtype=np.float32),
        "B": numbers.random((size + 3, size + 5), dtype=np.float32),
    }


if __name__ == "__main__":
    tell(VARIANTS, sample, (1, 100))
