"""A matrix product at the speed of the libraries: tiles of accumulators in registers, both operands packed.

A block of `KC` terms at a time is summed in the registers of the processor, and added to C, which begins at 0 in
the first block; the lines of C for the next tile are prefetched meanwhile. For each block, B is copied once into panels
as wide as a tile, which all threads share, and each block of `MC` tiles of rows of A into rows that do not collide in
the caches; small blocks give threads almost equal numbers of rows. A tile that is not full has a version of its own for
each number of rows and each number of vectors in a row; the last vector is padded in the panel, and masked in C.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

N, M, K = tm.params("N M K")
i, j, k, i0, j0, i1, j1, i2, k0, k1 = tm.iters("i j k i0 j0 i1 j1 i2 k0 k1")
ii, jj, kk, jo, jv = tm.iters("ii jj kk jo jv")
KC, MC = 384, 8  # terms of a block, tiles of a block of A
SIZES = ((1, 1, 0), (1, 1, 1), (7, 65, 385), (31, 37, 41), (73, 129, 0), (97, 131, 769))
LARGE = (1024, 1024, 1024)
OTHERS = [{"dtype": tm.float64}]


def algorithm(dtype: tm.DType = tm.float32) -> tuple[tm.Function, tm.Input, tm.Input, tm.Reduction]:
    """C = A B."""
    f = tm.Function("matmul", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 0")
    A = f.input("A", dtype, [N, K])
    B = f.input("B", dtype, [K, M])
    C = f.reduction("C", {i: N, j: M}, over={k: K}, op=tm.sum, expr=A[i, k] * B[k, j])
    f.outputs(C)
    return f, A, B, C


def scheduled(dtype: tm.DType = tm.float32, cpu: tm.Target | None = None) -> tm.Function:
    """Tiles of 6 rows by 4 of 32 registers, or 2 of 16, in blocks of 8 tiles by 384 terms; threads share the rows."""
    f, A, B, C = algorithm(dtype)
    cpu = cpu or tm.target()
    lanes, vectors = cpu.lanes(dtype), cpu.vector_registers // 8
    MR, NR = cpu.rows_of_sums(vectors), vectors * lanes
    C.update.split(k, KC, k0, k1)
    tile = C.update.rfactor(k0)
    C.tile(i, j, MR, NR, i0, j0, i1, j1)
    C.split(i0, MC, i2, i0)
    C.update.reorder(k0, i2, j0, i0, i1, j1)
    C.init.compute_at(C.update, i1)
    C.parallelize(i2)
    C.unroll(i1, remainder="specialize")
    C.vectorize(j1, lanes, remainder="mask", partial="specialize")
    C.update.prefetch(C, i0, 1)
    tile.compute_at(C.update, i0)
    tile.store_in(tm.REGISTER)
    tile.update.reorder(k, i, j)
    tile.unroll(i, remainder="specialize")
    tile.vectorize(j, lanes, remainder="pad", partial="specialize")
    panels = tile.update.copy(B, [kk, jj], at=k0, layout=[jj // NR, kk, jj % NR])
    panels.split(jj, NR, jo, jv)
    panels.parallelize(kk)
    panels.vectorize(jv, NR, remainder="mask")
    tile.update.copy(A, [ii, kk], at=i2, layout=[ii * (KC + lanes) + kk])
    return f


def sample(rows: int, columns: int, terms: int, dtype: tm.DType = tm.float32) -> Arguments:
    """Random matrices."""
    rng = np.random.default_rng(0)
    return {
        "A": rng.standard_normal((rows, terms)).astype(dtype.name),
        "B": rng.standard_normal((terms, columns)).astype(dtype.name),
    }


def exact(given: Arguments) -> tuple[Array, Array]:
    """The product in a wider type, and how far any order of the sums may be from it."""
    a, b = (given[name].astype(np.longdouble) for name in "AB")
    return a @ b, error(a.shape[1], abs(a) @ abs(b), given["A"].dtype)


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
