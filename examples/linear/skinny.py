"""A product of 64 x K by K x 64: so few values that threads can only share the terms of their sums.

Blocks of terms are summed side by side, each thread to a result of its own, and these are added at the end. Both
operands are read once, in order, so that nothing is packed.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

(K,) = tm.params("K")
i, j, k, i0, j0, i1, j1, k0, k1 = tm.iters("i j k i0 j0 i1 j1 k0 k1")
SIDE, KC = 64, 512  # rows and columns, terms of a block
SIZES = ((0,), (1,), (511,), (513,), (2311,))
LARGE = (16384,)


def algorithm() -> tuple[tm.Function, tm.Reduction]:
    """C = A B."""
    f = tm.Function("skinny", params=[K], assume="K >= 0")
    A = f.input("A", tm.float32, [SIDE, K])
    B = f.input("B", tm.float32, [K, SIDE])
    C = f.reduction("C", {i: SIDE, j: SIDE}, {k: K}, tm.sum, A[i, k] * B[k, j])
    f.outputs(C)
    return f, C


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Tiles of rows by a few vectors of columns in registers; threads share the blocks of terms."""
    f, C = algorithm()
    cpu = cpu or tm.target()
    vectors = cpu.vector_registers // 8
    rows, columns = cpu.rows_of_sums(vectors), vectors * cpu.lanes(tm.float32)
    C.update.split(k, KC, k0, k1)
    tile = C.update.rfactor(k0)
    C.update.tile(i, j, rows, columns, i0, j0, i1, j1)
    C.update.reorder(k0, j0, i0, i1, j1)
    C.update.parallelize(k0, combine=tm.PRIVATE)
    C.update.unroll(i1, remainder="specialize")
    C.update.vectorize(j1, columns)
    tile.compute_at(C.update, i0)
    tile.store_in(tm.REGISTER)
    tile.update.reorder(k, i, j)
    tile.unroll(i, remainder="specialize")
    tile.vectorize(j, columns)
    return f


def sample(terms: int) -> Arguments:
    """Random matrices."""
    rng = np.random.default_rng(0)
    return {
        "A": rng.standard_normal((SIDE, terms), np.float32),
        "B": rng.standard_normal((terms, SIDE), np.float32),
    }


def exact(given: Arguments) -> tuple[Array, Array]:
    """The product in a wider type, and how far any order of the sums may be from it."""
    a, b = (given[name].astype(np.float64) for name in "AB")
    return a @ b, error(a.shape[1], abs(a) @ abs(b), np.float32)


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
