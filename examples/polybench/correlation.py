"""correlation: the correlations of M attributes over N observations."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, filled, tell, tile_of

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, k, i0, j0, i1, j1 = tm.iters("i j k i0 j0 i1 j1")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"M": 1, "N": 2},
    "ODD": {"M": 67, "N": 35},
    "MINI": {"M": 28, "N": 32},
    "SMALL": {"M": 80, "N": 100},
    "LARGE": {"M": 1200, "N": 1400},
}


def algorithm(width: int = 1) -> tm.Function:
    """Means and deviations of columns, the data scaled by them, and products of columns with later ones, mirrored.

    Products are computed from the start of a block of `width` columns, for whole tiles along the diagonal.
    """
    f = tm.Function("correlation", params=[M, N], assume="M >= 1 and N >= 2")
    data = f.input("data", tm.float64, [N, M])
    total = f.reduction("total", {j: M}, {k: N}, tm.sum, data[k, j])
    mean = f.computation("mean", {j: M}, total[j] / N)
    squares = f.reduction("squares", {j: M}, {k: N}, tm.sum, (data[k, j] - mean[j]) * (data[k, j] - mean[j]))
    deviation = f.computation("deviation", {j: M}, tm.sqrt(squares[j] / N))
    safe = f.computation("safe", {j: M}, tm.select(deviation[j] <= 0.1, 1.0, deviation[j]))
    scaled = f.computation("scaled", {k: N, j: M}, (data[k, j] - mean[j]) / (tm.sqrt(tm.cast(tm.float64, N)) * safe[j]))
    product = f.reduction("product", {i: M, j: (i // width * width, M)}, {k: N}, tm.sum, scaled[k, i] * scaled[k, j])
    corr = f.computation("corr", {i: M, j: M}, tm.select(i == j, 1.0, tm.select(i < j, product[i, j], product[j, i])))
    f.outputs(corr)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The recipes of column sums and of matrix products; panels of the scaled data are both operands."""
    cpu = cpu or tm.target()
    sizes = tile_of(cpu)
    f = algorithm(sizes["columns"])
    tm.recipes.columns(f["total"], cpu=cpu)
    tm.recipes.columns(f["squares"], cpu=cpu)
    f["scaled"].parallelize(k)
    f["scaled"].vectorize(j, cpu.lanes(tm.float64), remainder="mask")
    tm.recipes.matmul(f["product"], cpu=cpu, sizes=sizes)
    f["corr"].tile(i, j, 32, 32, i0, j0, i1, j1)
    f["corr"].parallelize(i0)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    m, n = sizes["M"], sizes["N"]
    return {"data": filled(lambda r, c: r * c / m + r, n, m)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's means and deviations, and the product of what they scale."""
    data = given["data"]
    deviation = data.std(axis=0)
    scaled = (data - data.mean(axis=0)) / (len(data) ** 0.5 * np.where(deviation <= 0.1, 1.0, deviation))
    corr = scaled.T @ scaled
    np.fill_diagonal(corr, 1.0)
    return (corr,)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
