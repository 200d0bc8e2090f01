"""Many small matrix products of one size: the sizes are constants, and each tile of a result is written once.

With the size in the program, a tile has as many rows as registers hold, and what is left over has a version of its
own; of small matrices, no loop over terms is left. The sums stay in registers until they are complete, so that nothing
is added to memory.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

(Q,) = tm.params("Q")
b, i, j, k, i0, j0, i1, j1 = tm.iters("b i j k i0 j0 i1 j1")
SIZES = ((1,), (2,), (7,))
LARGE = (1024,)
OTHERS = [{"size": size} for size in (16, 24, 32, 64)]


def algorithm(size: int = 16) -> tuple[tm.Function, tm.Reduction, tm.Computation]:
    """C = A B, for each of many pairs."""
    f = tm.Function("batched", params=[Q], assume="Q >= 1")
    A = f.input("A", tm.float32, [Q, size, size])
    B = f.input("B", tm.float32, [Q, size, size])
    total = f.reduction("total", {b: Q, i: size, j: size}, {k: size}, tm.sum, A[b, i, k] * B[b, k, j])
    C = f.computation("C", {b: Q, i: size, j: size}, total[b, i, j])
    f.outputs(C)
    return f, total, C


def tile(size: int, cpu: tm.Target) -> tuple[int, int]:
    """The rows and columns of a tile: all columns, as far as four rows of them stay in registers; and rows that divide
    the matrix, if these are sums enough for what is loaded."""
    lanes = cpu.lanes(tm.float32)
    vectors = max(n for n in (1, 2, 4, 8) if n == 1 or (n < 2 * size // lanes and cpu.rows_of_sums(n) >= 4))
    most = min(cpu.rows_of_sums(vectors), size)
    rows = max(n for n in range(1, most + 1) if size % n == 0)
    return rows if rows * vectors >= 12 else most, vectors * lanes


def scheduled(size: int = 16, cpu: tm.Target | None = None) -> tm.Function:
    """A tile of rows at a time, in registers; threads share the products."""
    f, total, C = algorithm(size)
    cpu = cpu or tm.target()
    lanes, (rows, columns) = cpu.lanes(tm.float32), tile(size, cpu)
    C.tile(i, j, rows, columns, i0, j0, i1, j1)
    C.parallelize(b)
    C.unroll(i1, remainder="specialize")
    C.vectorize(j1, lanes, remainder="mask", partial="specialize")
    total.compute_at(C, j0)
    total.store_in(tm.REGISTER)
    total.update.reorder(k, i, j)
    total.unroll(i, remainder="specialize")
    total.vectorize(j, lanes, remainder="mask", partial="specialize")
    if size <= 24:
        total.update.unroll(k)  # a loop of so few iterations costs as much as their products
    return f


def sample(count: int, size: int = 16) -> Arguments:
    """Random matrices."""
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((count, size, size), np.float32) for name in "AB"}


def exact(given: Arguments) -> tuple[Array, Array]:
    """The products in a wider type, and how far any order of the sums may be from them."""
    a, b = (given[name].astype(np.float64) for name in "AB")
    return a @ b, error(a.shape[2], abs(a) @ abs(b), np.float32)


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
