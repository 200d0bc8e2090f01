"""atax: y = A^T (A x), a matrix and its transpose."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, i0, i1 = tm.iters("i j i0 i1")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"M": 1, "N": 1},
    "ODD": {"M": 35, "N": 67},
    "MINI": {"M": 38, "N": 42},
    "SMALL": {"M": 116, "N": 124},
    "LARGE": {"M": 1900, "N": 2100},
}


def algorithm() -> tm.Function:
    """The product with x, and that of the transpose with it."""
    f = tm.Function("atax", params=[M, N], assume="M >= 1 and N >= 1")
    A, x = f.input("A", tm.float64, [M, N]), f.input("x", tm.float64, [N])
    Ax = f.reduction("Ax", {i: M}, {j: N}, tm.sum, A[i, j] * x[j])
    y = f.reduction("y", {j: N}, {i: M}, tm.sum, A[i, j] * Ax[i])
    f.outputs(y)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Eight rows of A at a time, read from memory once: their products with a vector, then their sum, weighted.

    Threads share the blocks of rows, and have sums of columns of their own.
    """
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    y, Ax = f["y"], f["Ax"]
    y.update.split(i, 8, i0, i1)
    block = y.update.rfactor(i0)
    y.update.reorder(i0, j)
    y.update.parallelize(i0, combine=tm.PRIVATE)
    y.update.vectorize(j, 2 * lanes, remainder="mask")
    block.compute_at(y.update, j)
    block.store_in(tm.REGISTER)
    block.update.unroll(i, remainder="specialize")
    Ax.update.split(i, 8, i0, i1)
    Ax.update.parallelize(i0)
    Ax.update.vectorize(j, 4 * lanes, combine=tm.PRIVATE)
    Ax.update.prefetch(f["A"], j, 512)
    y.update.after(Ax.update, i0)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    m, n = sizes["M"], sizes["N"]
    return {"A": filled(lambda r, c: (r + c) % n / (5 * m), m, n), "x": filled(lambda r: 1 + r / n, n)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's products."""
    return ((given["A"] @ given["x"]) @ given["A"],)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
