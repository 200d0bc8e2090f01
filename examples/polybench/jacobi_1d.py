"""jacobi_1d: each point becomes the mean of itself and its two neighbours."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

T, N = tm.params("T N")
t, i = tm.iters("t i")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"T": 1, "N": 3},
    "ODD": {"T": 13, "N": 67},
    "MINI": {"T": 20, "N": 30},
    "SMALL": {"T": 40, "N": 120},
    "LARGE": {"T": 500, "N": 2000},
}


def algorithm() -> tm.Function:
    """Two levels in each of the T steps: PolyBench's arrays A and B. The ends stay as they are."""
    f = tm.Function("jacobi_1d", params=[T, N], assume="T >= 1 and N >= 3")
    A = f.input("A", tm.float64, [N])
    ends = (t == 0) | (i == 0) | (i == N - 1)
    mean = f.computation(
        "mean",
        {t: 2 * T + 1, i: N},
        lambda mean: tm.select(ends, A[i], 0.33333 * (mean[t - 1, i - 1] + mean[t - 1, i] + mean[t - 1, i + 1])),
    )
    f.outputs(mean[2 * T, i])
    mean.fold(t, 2)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Each level in vectors."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    f["mean"].vectorize(i, lanes, remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    return {"A": (np.arange(sizes["N"]) + 2) / sizes["N"], "T": sizes["T"]}


def exact(given: Arguments) -> tuple[Array, ...]:
    """A level after the other."""
    A = given["A"].copy()
    for _ in range(2 * given["T"]):
        A[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
    return (A,)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
