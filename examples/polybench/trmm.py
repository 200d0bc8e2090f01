"""trmm: B = alpha A^T B, where A is lower triangular with a diagonal of ones."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, filled, tell, tile_of

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, k = tm.iters("i j k")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"M": 1, "N": 1},
    "ODD": {"M": 35, "N": 67},
    "MINI": {"M": 20, "N": 30},
    "SMALL": {"M": 60, "N": 80},
    "LARGE": {"M": 1000, "N": 1200},
}


def algorithm(rows: int = 1) -> tm.Function:
    """The triangle with its diagonal, and its product with B, which the caller finds in B.

    Sums begin with the first of a block of `rows` rows: so they are equally long in a tile, with a few more zeros.
    """
    f = tm.Function("trmm", params=[M, N], assume="M >= 1 and N >= 1")
    alpha = f.scalar("alpha", tm.float64)
    A, B = f.input("A", tm.float64, [M, M]), f.input("B", tm.float64, [M, N])
    first = i // rows * rows
    T = f.computation("T", {i: M, k: (first, M)}, tm.select(k > i, A[k, i], tm.select(k == i, 1.0, 0.0)))
    TB = f.reduction("TB", {i: M, j: N}, {k: (first, M)}, tm.sum, T[i, k] * B[k, j])
    out = f.computation("out", {i: M, j: N}, alpha * TB[i, j])
    f.outputs(out)
    out.store_in(B, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The product by the recipe of matrix products, of rows from the first term that is not zero in their tile."""
    cpu = cpu or tm.target()
    sizes = tile_of(cpu)
    f = algorithm(sizes["rows"])
    tm.recipes.matmul(f["out"], cpu=cpu, sizes=sizes)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    m, n = sizes["M"], sizes["N"]
    A = filled(lambda r, c: (r + c) % m / m, m, m)
    return {
        "alpha": 1.5,
        "A": np.where(np.tri(m, k=-1, dtype=bool), A, -999),  # neither the diagonal nor the upper triangle is read
        "B": filled(lambda r, c: (n + r - c) % n / n, m, n),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's product with the triangle."""
    triangle = np.tril(given["A"], -1) + np.eye(len(given["A"]))
    return (given["alpha"] * triangle.T @ given["B"],)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
