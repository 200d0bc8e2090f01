"""2mm: D = alpha A B C + beta D, two matrix products."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

NI, NJ, NK, NL = tm.params("NI NJ NK NL")
i, j, k, h = tm.iters("i j k h")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"NI": 1, "NJ": 1, "NK": 1, "NL": 1},
    "ODD": {"NI": 17, "NJ": 29, "NK": 35, "NL": 67},
    "MINI": {"NI": 16, "NJ": 18, "NK": 22, "NL": 24},
    "SMALL": {"NI": 40, "NJ": 50, "NK": 70, "NL": 80},
    "LARGE": {"NI": 800, "NJ": 900, "NK": 1100, "NL": 1200},
}


def algorithm() -> tm.Function:
    """The first product, the second, and its sum with D, which the caller finds in D."""
    f = tm.Function("two_mm", params=[NI, NJ, NK, NL], assume="NI >= 1 and NJ >= 1 and NK >= 1 and NL >= 1")
    alpha, beta = f.scalar("alpha", tm.float64), f.scalar("beta", tm.float64)
    A, B = f.input("A", tm.float64, [NI, NK]), f.input("B", tm.float64, [NK, NJ])
    C, D = f.input("C", tm.float64, [NJ, NL]), f.input("D", tm.float64, [NI, NL])
    AB = f.reduction("AB", {i: NI, j: NJ}, {k: NK}, tm.sum, A[i, k] * B[k, j])
    ABC = f.reduction("ABC", {i: NI, h: NL}, {j: NJ}, tm.sum, AB[i, j] * C[j, h])
    out = f.computation("out", {i: NI, h: NL}, alpha * ABC[i, h] + beta * D[i, h])
    f.outputs(out)
    out.store_in(D, [i, h])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Each product by the recipe of matrix products."""
    f = algorithm()
    for product in (f["AB"], f["out"]):
        tm.recipes.matmul(product, cpu=cpu or tm.target())
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    ni, nj, nk, nl = (sizes[name] for name in ("NI", "NJ", "NK", "NL"))
    return {
        "alpha": 1.5,
        "beta": 1.2,
        "A": filled(lambda r, c: (r * c + 1) % ni / ni, ni, nk),
        "B": filled(lambda r, c: r * (c + 1) % nj / nj, nk, nj),
        "C": filled(lambda r, c: (r * (c + 3) + 1) % nl / nl, nj, nl),
        "D": filled(lambda r, c: r * (c + 2) % nk / nk, ni, nl),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's products."""
    return (given["alpha"] * given["A"] @ given["B"] @ given["C"] + given["beta"] * given["D"],)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
