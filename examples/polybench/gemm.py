"""gemm: C = alpha A B + beta C, a matrix product that is added to what C held."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

NI, NJ, NK = tm.params("NI NJ NK")
i, j, k = tm.iters("i j k")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"NI": 1, "NJ": 1, "NK": 1},
    "ODD": {"NI": 17, "NJ": 67, "NK": 35},
    "MINI": {"NI": 20, "NJ": 25, "NK": 30},
    "SMALL": {"NI": 60, "NJ": 70, "NK": 80},
    "LARGE": {"NI": 1000, "NJ": 1100, "NK": 1200},
}


def algorithm() -> tm.Function:
    """The product, and its sum with C, which the caller finds in C."""
    f = tm.Function("gemm", params=[NI, NJ, NK], assume="NI >= 1 and NJ >= 1 and NK >= 1")
    alpha, beta = f.scalar("alpha", tm.float64), f.scalar("beta", tm.float64)
    C = f.input("C", tm.float64, [NI, NJ])
    A, B = f.input("A", tm.float64, [NI, NK]), f.input("B", tm.float64, [NK, NJ])
    AB = f.reduction("AB", {i: NI, j: NJ}, {k: NK}, tm.sum, A[i, k] * B[k, j])
    out = f.computation("out", {i: NI, j: NJ}, alpha * AB[i, j] + beta * C[i, j])
    f.outputs(out)
    out.store_in(C, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Tiles of accumulators in registers over packed operands: the recipe of matrix products."""
    f = algorithm()
    tm.recipes.matmul(f["out"], cpu=cpu or tm.target())
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    ni, nj, nk = (sizes[name] for name in ("NI", "NJ", "NK"))
    return {
        "alpha": 1.5,
        "beta": 1.2,
        "C": filled(lambda r, c: (r * c + 1) % ni / ni, ni, nj),
        "A": filled(lambda r, c: r * (c + 1) % nk / nk, ni, nk),
        "B": filled(lambda r, c: r * (c + 2) % nj / nj, nk, nj),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's product."""
    return (given["alpha"] * given["A"] @ given["B"] + given["beta"] * given["C"],)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
