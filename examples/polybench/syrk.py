"""syrk: C = alpha A A^T + beta C in the lower triangle of C."""

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


def algorithm(width: int = 1) -> tm.Function:
    """The products of rows with earlier ones, added to the triangle of C, which the caller finds in C.

    Products are computed to the end of a block of `width` columns, for whole tiles along the diagonal.
    """
    f = tm.Function("syrk", params=[M, N], assume="M >= 1 and N >= 1")
    alpha, beta = f.scalar("alpha", tm.float64), f.scalar("beta", tm.float64)
    C, A = f.input("C", tm.float64, [N, N]), f.input("A", tm.float64, [N, M])
    AA = f.reduction("AA", {i: N, j: tm.min(i // width * width + width, N)}, {k: M}, tm.sum, A[i, k] * A[j, k])
    out = f.computation("out", {i: N, j: i + 1}, alpha * AA[i, j] + beta * C[i, j], shape=[N, N])
    f.outputs(out)
    out.store_in(C, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The recipe of matrix products, for the tiles that reach into the triangle; panels of A are both operands."""
    cpu = cpu or tm.target()
    sizes = tile_of(cpu)
    f = algorithm(sizes["columns"])
    tm.recipes.matmul(f["AA"], cpu=cpu, sizes=sizes)
    f["out"].parallelize(i)
    f["out"].vectorize(j, cpu.lanes(tm.float64), remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    m, n = sizes["M"], sizes["N"]
    return {
        "alpha": 1.5,
        "beta": 1.2,
        "C": filled(lambda r, c: (r * c + 2) % m / m, n, n),
        "A": filled(lambda r, c: (r * c + 1) % n / n, n, m),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's product, of which the lower triangle is taken."""
    A, C = given["A"], given["C"]
    new = given["alpha"] * A @ A.T + given["beta"] * C
    return (np.where(np.tri(len(C), dtype=bool), new, C),)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
