"""mvt: x1 + A y1 and x2 + A^T y2."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, i0, i1 = tm.iters("i j i0 i1")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 40},
    "SMALL": {"N": 120},
    "LARGE": {"N": 2000},
}


def algorithm() -> tm.Function:
    """Both products, added to the vectors, which the caller finds in place."""
    f = tm.Function("mvt", params=[N], assume="N >= 1")
    x1, x2, y1, y2 = (f.input(name, tm.float64, [N]) for name in ("x1", "x2", "y1", "y2"))
    A = f.input("A", tm.float64, [N, N])
    along = f.reduction("along", {i: N}, {j: N}, tm.sum, A[i, j] * y1[j])
    across = f.reduction("across", {j: N}, {i: N}, tm.sum, A[i, j] * y2[i])
    new_x1 = f.computation("new_x1", {i: N}, x1[i] + along[i])
    new_x2 = f.computation("new_x2", {j: N}, x2[j] + across[j])
    f.outputs(new_x1, new_x2)
    new_x1.store_in(x1, [i])
    new_x2.store_in(x2, [j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Eight rows of A at a time, read from memory once: their products with a vector, then their sum, weighted.

    Threads share the blocks of rows, and have sums of columns of their own.
    """
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    across, along = f["across"], f["along"]
    across.update.split(i, 8, i0, i1)
    block = across.update.rfactor(i0)
    across.update.reorder(i0, j)
    across.update.parallelize(i0, combine=tm.PRIVATE)
    across.update.vectorize(j, 2 * lanes, remainder="mask")
    block.compute_at(across.update, j)
    block.store_in(tm.REGISTER)
    block.update.unroll(i, remainder="specialize")
    along.update.split(i, 8, i0, i1)
    along.update.parallelize(i0)
    along.update.vectorize(j, 4 * lanes, combine=tm.PRIVATE)
    along.update.prefetch(f["A"], j, 512)
    across.update.after(along.update, i0)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    n = sizes["N"]
    vectors = (("x1", 0), ("x2", 1), ("y1", 3), ("y2", 4))
    return {
        **{name: filled(lambda r, d=d: (r + d) % n / n, n) for name, d in vectors},
        "A": filled(lambda r, c: r * c % n / n, n, n),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's products."""
    return given["x1"] + given["A"] @ given["y1"], given["x2"] + given["y2"] @ given["A"]


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
