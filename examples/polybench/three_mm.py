"""3mm: G = (A B) (C D), three matrix products."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

NI, NJ, NK, NL, NM = tm.params("NI NJ NK NL NM")
i, j, k, h, m = tm.iters("i j k h m")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"NI": 1, "NJ": 1, "NK": 1, "NL": 1, "NM": 1},
    "ODD": {"NI": 17, "NJ": 29, "NK": 35, "NL": 67, "NM": 23},
    "MINI": {"NI": 16, "NJ": 18, "NK": 20, "NL": 22, "NM": 24},
    "SMALL": {"NI": 40, "NJ": 50, "NK": 60, "NL": 70, "NM": 80},
    "LARGE": {"NI": 800, "NJ": 900, "NK": 1000, "NL": 1100, "NM": 1200},
}


def algorithm() -> tm.Function:
    """The two factors, and their product."""
    positive = " and ".join(f"{size} >= 1" for size in ("NI", "NJ", "NK", "NL", "NM"))
    f = tm.Function("three_mm", params=[NI, NJ, NK, NL, NM], assume=positive)
    A, B = f.input("A", tm.float64, [NI, NK]), f.input("B", tm.float64, [NK, NJ])
    C, D = f.input("C", tm.float64, [NJ, NM]), f.input("D", tm.float64, [NM, NL])
    E = f.reduction("E", {i: NI, j: NJ}, {k: NK}, tm.sum, A[i, k] * B[k, j])
    F = f.reduction("F", {j: NJ, h: NL}, {m: NM}, tm.sum, C[j, m] * D[m, h])
    G = f.reduction("G", {i: NI, h: NL}, {j: NJ}, tm.sum, E[i, j] * F[j, h])
    f.outputs(G)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Each product by the recipe of matrix products."""
    f = algorithm()
    for product in (f["E"], f["F"], f["G"]):
        tm.recipes.matmul(product, cpu=cpu or tm.target())
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    ni, nj, nk, nl, nm = (sizes[name] for name in ("NI", "NJ", "NK", "NL", "NM"))
    return {
        "A": filled(lambda r, c: (r * c + 1) % ni / (5 * ni), ni, nk),
        "B": filled(lambda r, c: (r * (c + 1) + 2) % nj / (5 * nj), nk, nj),
        "C": filled(lambda r, c: r * (c + 3) % nl / (5 * nl), nj, nm),
        "D": filled(lambda r, c: (r * (c + 2) + 2) % nk / (5 * nk), nm, nl),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's products."""
    return ((given["A"] @ given["B"]) @ (given["C"] @ given["D"]),)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
