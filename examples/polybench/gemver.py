"""gemver: a matrix updated by two outer products, and two products of it with vectors."""

from __future__ import annotations

import numpy as np
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
    """The new A, x with the product of its transpose with y, and w with that of A with x: all in place."""
    f = tm.Function("gemver", params=[N], assume="N >= 1")
    alpha, beta = f.scalar("alpha", tm.float64), f.scalar("beta", tm.float64)
    A = f.input("A", tm.float64, [N, N])
    u1, v1, u2, v2, w, x, y, z = (
        f.input(name, tm.float64, [N]) for name in ("u1", "v1", "u2", "v2", "w", "x", "y", "z")
    )
    updated = f.computation("updated", {i: N, j: N}, A[i, j] + u1[i] * v1[j] + u2[i] * v2[j])
    across = f.reduction("across", {j: N}, {i: N}, tm.sum, updated[i, j] * y[i])
    new_x = f.computation("new_x", {j: N}, x[j] + beta * across[j] + z[j])
    along = f.reduction("along", {i: N}, {j: N}, tm.sum, updated[i, j] * new_x[j])
    new_w = f.computation("new_w", {i: N}, w[i] + alpha * along[i])
    f.outputs(updated, new_x, new_w)
    updated.store_in(A, [i, j])
    new_x.store_in(x, [j])
    new_w.store_in(w, [i])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Eight rows of A at a time, updated and then summed, weighted, while they are in the cache; A is read again for w.

    Threads share the blocks of rows, and have sums of columns of their own.
    """
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    updated, across = f["updated"], f["across"]
    across.update.split(i, 8, i0, i1)
    block = across.update.rfactor(i0)
    across.update.reorder(i0, j)
    across.update.parallelize(i0, combine=tm.PRIVATE)
    across.update.vectorize(j, 2 * lanes, remainder="mask")
    block.compute_at(across.update, j)
    block.store_in(tm.REGISTER)
    block.update.unroll(i, remainder="specialize")
    updated.split(i, 8, i0, i1)
    updated.parallelize(i0)
    updated.vectorize(j, lanes, remainder="mask")
    updated.prefetch(f["A"], j, 512)
    across.update.after(updated, i0)
    f["new_w"].parallelize(i)
    f["along"].compute_at(f["new_w"], i)
    f["along"].update.vectorize(j, 4 * lanes, combine=tm.PRIVATE)
    f["along"].update.prefetch(updated, j, 512)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    n = sizes["N"]
    vectors = {
        name: filled(lambda r, d=d: (r + 1) / n / d, n)
        for name, d in (("u2", 2), ("v1", 4), ("v2", 6), ("y", 8), ("z", 9))
    }
    return {
        "alpha": 1.5,
        "beta": 1.2,
        "A": filled(lambda r, c: r * c % n / n, n, n),
        "u1": filled(lambda r: r, n),
        "w": np.zeros(n),
        "x": np.zeros(n),
        **vectors,
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's products."""
    A = given["A"] + np.outer(given["u1"], given["v1"]) + np.outer(given["u2"], given["v2"])
    x = given["x"] + given["beta"] * given["y"] @ A + given["z"]
    return A, x, given["w"] + given["alpha"] * A @ x


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
