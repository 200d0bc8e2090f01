"""seidel_2d: each point becomes the mean of the nine around it, of which four are new already."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

T, N = tm.params("T N")
t, i, j, t0, w = tm.iters("t i j t0 w")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"T": 1, "N": 3},
    "ODD": {"T": 13, "N": 37},
    "MINI": {"T": 20, "N": 40},
    "SMALL": {"T": 40, "N": 120},
    "LARGE": {"T": 500, "N": 2000},
}


def algorithm() -> tm.Function:
    """Rows above and points to the left are those of this step, the others those of the step before; in place."""
    f = tm.Function("seidel_2d", params=[T, N], assume="T >= 1 and N >= 3")
    A = f.input("A", tm.float64, [N, N])
    border = (i == 0) | (i == N - 1) | (j == 0) | (j == N - 1)

    def inside(mean: tm.Computation) -> tm.Expr:
        new = mean[t, i - 1, j - 1] + mean[t, i - 1, j] + mean[t, i - 1, j + 1] + mean[t, i, j - 1]
        old = mean[t - 1, i, j] + mean[t - 1, i, j + 1]
        return (new + old + mean[t - 1, i + 1, j - 1] + mean[t - 1, i + 1, j] + mean[t - 1, i + 1, j + 1]) / 9.0

    mean = f.computation(
        "mean",
        {t: T + 1, i: N, j: N},
        lambda mean: tm.select(t == 0, A[i, j], tm.select(border, mean[t - 1, i, j], inside(mean))),
    )
    f.outputs(mean[T, i, j])
    for field in ("mean", "mean_out"):
        f[field].store_in(A, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Wavefronts 2 i + j, stored and computed as vectors; 16 steps follow one another, four wavefronts apart."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    mean = f["mean"]
    mean.set_schedule("{ [t, i, j] -> [t0 = floor(t / 16), w = 2i + j + 4t, t, i] }")
    mean.store_in(tm.Buffer("fronts", [3 * N, N], tm.float64), [2 * i + j, i])
    mean.vectorize(i, lanes, remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    n = sizes["N"]
    return {"A": np.fromfunction(lambda r, c: (r * (c + 2) + 2) / n, (n, n)), "T": sizes["T"]}


def exact(given: Arguments) -> tuple[Array, ...]:
    """A step after the other, along wavefronts: the points with the same 2 i + j are independent."""
    A = given["A"].copy()
    n = len(A)
    fronts = [
        (rows, front - 2 * rows)
        for front in range(3, 3 * n - 5)
        for rows in [np.arange(max(1, (front - n + 3) // 2), min(n - 2, (front - 1) // 2) + 1)]
    ]
    for _ in range(given["T"]):
        for r, c in fronts:
            A[r, c] = sum(A[r + down, c + right] for down in (-1, 0, 1) for right in (-1, 0, 1)) / 9
    return (A,)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
