"""Matrix product: tiles in shared memory, partial results in registers, and the next tiles loaded meanwhile."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

M, N, K = tm.params("M N K")
i, j, k, i0, j0, i1, j1, i2, j2, k0, k1 = tm.iters("i j k i0 j0 i1 j1 i2 j2 k0 k1")
p, q = tm.iters("p q")


def algorithm(
    assume: str = "", memory: tm.Memory = tm.HOST
) -> tuple[tm.Function, tm.Input, tm.Input, tm.Reduction, tm.Computation]:
    """The sum over k, and the matrix that stores it; the caller's matrices are on the host or on the GPU."""
    f = tm.Function("product", params=[M, N, K], assume=assume)
    A = f.input("A", tm.float32, [M, K], memory=memory)
    B = f.input("B", tm.float32, [K, N], memory=memory)
    total = f.reduction("total", {i: M, j: N}, {k: K}, tm.sum, A[i, k] * B[k, j])
    C = f.computation("C", {i: M, j: N}, total[i, j])
    f.outputs(C)
    C.store_in(memory)
    return f, A, B, total, C


def shared_tiles() -> tm.Function:
    """One element for each thread; a block iterates over tiles of 16 x 16."""
    f, A, B, total, C = algorithm()
    C.gpu_tile(i, j, 16, 16, i0, j0, i1, j1)
    total.compute_at(C, j1)
    total.store_in(tm.REGISTER)
    total.update.split(k, 16, k0, k1)
    total.update.copy(A, [p, q], at=k0, into=tm.SHARED)
    total.update.copy(B, [p, q], at=k0, into=tm.SHARED)
    f.derive_transfers()
    return f


def register_tiles(buffers: int = 1, memory: tm.Memory = tm.HOST) -> tm.Function:
    """Each thread keeps 8 x 8 neighbours of a block's 128 x 128 elements in registers.

    Rows start at multiples of 16 bytes, so that a thread copies four neighbours at once. In shared memory, the rows of
    A that neighbouring threads read together are shifted against each other, and so are groups of 32 columns of B, to
    avoid bank conflicts.
    """
    f, A, B, total, C = algorithm("N mod 4 = 0 and K mod 4 = 0", memory)
    C.tile(i, j, 128, 128, i0, j0, i1, j1)
    C.split(i1, 8, i1, i2)
    C.split(j1, 8, j1, j2)
    C.reorder(i0, j0, i1, j1, i2, j2)
    C.tag_gpu(blocks=[i0, j0], threads=[i1, j1], minimum_blocks=2)
    C.unroll(i2)
    C.vectorize(j2, 4)
    total.compute_at(C, j1)
    total.store_in(tm.REGISTER)
    total.update.split(k, 16, k0, k1)
    total.update.reorder(k0, k1, *((i, j) if buffers == 1 else (j, i)))  # so that ptxas spills nothing for sm_90
    total.update.unroll(k1)
    for source, layout in ((A, [p, q + 4 * (p // 8 % 2)]), (B, [p, q + 4 * (q // 32)])):
        total.update.copy(
            source, [p, q], at=k0, into=tm.SHARED, layout=layout, deferred=buffers > 1, buffers=buffers, vector=4
        )
    f.derive_transfers()
    return f


def double_buffered(memory: tm.Memory = tm.HOST) -> tm.Function:
    """While a block multiplies two tiles, the next two are loaded into a second pair of buffers."""
    return register_tiles(2, memory)


VARIANTS = {"shared tiles": shared_tiles, "register tiles": register_tiles, "double buffered": double_buffered}


def sample(size: int, seed: int) -> dict[str, np.ndarray]:
    """Two random matrices, not square, with row lengths that are multiples of four."""
    numbers = np.random.default_rng(seed)
    inner, columns = -(-size // 4) * 4, -(-size // 4) * 4 + 8
    return {
        "A": numbers.random((size, inner), dtype=np.float32),
        "B": numbers.random((inner, columns), dtype=np.float32),
    }


if __name__ == "__main__":
    tell(VARIANTS, sample, (1, 150))
