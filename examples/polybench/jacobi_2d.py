"""jacobi_2d: each point becomes the mean of itself and its four neighbours."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

T, N = tm.params("T N")
t, i, j = tm.iters("t i j")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"T": 1, "N": 3},
    "ODD": {"T": 13, "N": 67},
    "MINI": {"T": 20, "N": 30},
    "SMALL": {"T": 40, "N": 90},
    "LARGE": {"T": 500, "N": 1300},
}


def algorithm() -> tm.Function:
    """Two levels in each of the T steps: PolyBench's arrays A and B. The border stays as it is."""
    f = tm.Function("jacobi_2d", params=[T, N], assume="T >= 1 and N >= 3")
    A = f.input("A", tm.float64, [N, N])
    border = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == N - 1)

    def inside(mean: tm.Computation) -> tm.Expr:
        here, left, right = mean[t - 1, i, j], mean[t - 1, i, j - 1], mean[t - 1, i, j + 1]
        return 0.2 * (here + left + right + mean[t - 1, i + 1, j] + mean[t - 1, i - 1, j])

    mean = f.computation("mean", {t: 2 * T + 1, i: N, j: N}, lambda mean: tm.select(border, A[i, j], inside(mean)))
    f.outputs(mean[2 * T, i, j])
    mean.fold(t, 2)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Passes of many levels in tiles, whose rows fit in the cache: four rows of a level, then of the next."""
    f = algorithm()
    tm.recipes.time_stencil(f["mean"], cpu=cpu)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    n = sizes["N"]
    return {"A": np.fromfunction(lambda r, c: (r * (c + 2) + 2) / n, (n, n)), "T": sizes["T"]}


def exact(given: Arguments) -> tuple[Array, ...]:
    """A level after the other."""
    A = given["A"].copy()
    for _ in range(2 * given["T"]):
        A[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
    return (A,)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
