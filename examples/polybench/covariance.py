"""covariance: the covariances of M attributes over N observations."""

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
    """Means of columns, the data without them, and products of columns with later ones; the rest is mirrored.

    Products are computed from the start of a block of `width` columns, for whole tiles along the diagonal.
    """
    f = tm.Function("covariance", params=[M, N], assume="M >= 1 and N >= 2")
    data = f.input("data", tm.float64, [N, M])
    total = f.reduction("total", {j: M}, {k: N}, tm.sum, data[k, j])
    mean = f.computation("mean", {j: M}, total[j] / N)
    centred = f.computation("centred", {k: N, j: M}, data[k, j] - mean[j])
    product = f.reduction("product", {i: M, j: (i // width * width, M)}, {k: N}, tm.sum, centred[k, i] * centred[k, j])
    cov = f.computation("cov", {i: M, j: M}, tm.select(i <= j, product[i, j], product[j, i]) / (N - 1))
    f.outputs(cov)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The recipes of column sums and of matrix products; panels of the centred data are both operands."""
    cpu = cpu or tm.target()
    sizes = tile_of(cpu)
    f = algorithm(sizes["columns"])
    tm.recipes.columns(f["total"], cpu=cpu)
    f["centred"].parallelize(k)
    f["centred"].vectorize(j, cpu.lanes(tm.float64), remainder="mask")
    tm.recipes.matmul(f["product"], cpu=cpu, sizes=sizes)
    f["cov"].tile(i, j, 32, 32, i0, j0, i1, j1)
    f["cov"].parallelize(i0)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    m, n = sizes["M"], sizes["N"]
    return {"data": filled(lambda r, c: r * c / m, n, m)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's covariances."""
    return (np.cov(given["data"], rowvar=False).reshape(2 * given["data"].shape[1:]),)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
