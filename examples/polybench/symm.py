"""symm: C = alpha A B + beta C, where A is symmetric and only its lower triangle is read."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, k, i0, k0, i1, k1 = tm.iters("i j k i0 k0 i1 k1")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"M": 1, "N": 1},
    "ODD": {"M": 35, "N": 67},
    "MINI": {"M": 20, "N": 30},
    "SMALL": {"M": 60, "N": 80},
    "LARGE": {"M": 1000, "N": 1200},
}


def algorithm() -> tm.Function:
    """A is its lower triangle, mirrored; the product, and its sum with C, which the caller finds in C."""
    f = tm.Function("symm", params=[M, N], assume="M >= 1 and N >= 1")
    alpha, beta = f.scalar("alpha", tm.float64), f.scalar("beta", tm.float64)
    C = f.input("C", tm.float64, [M, N])
    A, B = f.input("A", tm.float64, [M, M]), f.input("B", tm.float64, [M, N])
    S = f.computation("S", {i: M, k: M}, tm.select(k <= i, A[i, k], A[k, i]))
    AB = f.reduction("AB", {i: M, j: N}, {k: M}, tm.sum, S[i, k] * B[k, j])
    out = f.computation("out", {i: M, j: N}, alpha * AB[i, j] + beta * C[i, j])
    f.outputs(out)
    out.store_in(C, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The mirrored triangle in tiles, then the product by the recipe of matrix products."""
    f = algorithm()
    S = f["S"]
    S.tile(i, k, 32, 32, i0, k0, i1, k1)
    S.parallelize(i0)
    tm.recipes.matmul(f["out"], cpu=cpu or tm.target())
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    m, n = sizes["M"], sizes["N"]
    A = filled(lambda r, c: (r + c) % 100 / m, m, m)
    return {
        "alpha": 1.5,
        "beta": 1.2,
        "C": filled(lambda r, c: (r + c) % 100 / m, m, n),
        "A": np.where(np.tri(m, dtype=bool), A, -999),  # the upper triangle is not read
        "B": filled(lambda r, c: (n + r - c) % 100 / m, m, n),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's product with the mirrored triangle."""
    lower = np.tril(given["A"])
    symmetric = lower + np.tril(lower, -1).T
    return (given["alpha"] * symmetric @ given["B"] + given["beta"] * given["C"],)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
