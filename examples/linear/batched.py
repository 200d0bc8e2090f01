"""Many small matrix products of one size: the sizes are constants, and each tile of a result is written once.

With the size in the program, a tile has exactly as many rows as divide it, and no loop over values is left; of small
matrices, none over terms either. The sums stay in registers until they are complete, so that nothing is added to
memory.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

(Q,) = tm.params("Q")
b, i, j, k, i0, i1 = tm.iters("b i j k i0 i1")
ROWS = {16: 16, 24: 12, 32: 8, 64: 4}  # of a tile, which is as wide as the matrix
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


def scheduled(size: int = 16) -> tm.Function:
    """A tile of rows at a time, in registers; threads share the products."""
    f, total, C = algorithm(size)
    width = {16: 16, 24: 32, 32: 32, 64: 64}[size]
    C.split(i, ROWS[size], i0, i1)
    C.parallelize(b)
    C.unroll(i1)
    C.vectorize(j, width, remainder="mask")
    total.compute_at(C, i0)
    total.store_in(tm.REGISTER)
    total.update.reorder(k, i, j)
    total.unroll(i)
    total.vectorize(j, width, remainder="mask")
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
