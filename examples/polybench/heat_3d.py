"""heat_3d: heat in a cube, each point from its six neighbours a step before."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

T, N = tm.params("T N")
t, i, j, k, t0, y = tm.iters("t i j k t0 y")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"T": 1, "N": 3},
    "ODD": {"T": 3, "N": 19},
    "MINI": {"T": 20, "N": 10},
    "SMALL": {"T": 40, "N": 20},
    "LARGE": {"T": 500, "N": 120},
}


def algorithm() -> tm.Function:
    """Two levels in each of the T steps: PolyBench's arrays A and B. The surface keeps its temperature."""
    f = tm.Function("heat_3d", params=[T, N], assume="T >= 1 and N >= 3")
    A = f.input("A", tm.float64, [N, N, N])
    surface = (i == 0) | (i == N - 1) | (j == 0) | (j == N - 1) | (k == 0) | (k == N - 1)

    def inside(heat: tm.Computation) -> tm.Expr:
        here = heat[t - 1, i, j, k]
        return (
            0.125 * (heat[t - 1, i + 1, j, k] - 2.0 * here + heat[t - 1, i - 1, j, k])
            + 0.125 * (heat[t - 1, i, j + 1, k] - 2.0 * here + heat[t - 1, i, j - 1, k])
            + 0.125 * (heat[t - 1, i, j, k + 1] - 2.0 * here + heat[t - 1, i, j, k - 1])
            + here
        )

    heat = f.computation(
        "heat",
        {t: 2 * T + 1, i: N, j: N, k: N},
        lambda heat: tm.select(t == 0, A[i, j, k], tm.select(surface, heat[t - 1, i, j, k], inside(heat))),
    )
    f.outputs(heat[2 * T, i, j, k])
    heat.fold(t, 2)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Levels follow one another through the planes, a plane apart, while these are in the cache."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    heat = f["heat"]
    heat.set_schedule("{ [t, i, j, k] -> [t0 = floor(t / 4), y = i + t, t, j, k] }")
    for part in (heat, f["heat_out"]):
        part.vectorize(k, lanes, remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    n = sizes["N"]
    return {"A": np.fromfunction(lambda x, y, z: (x + y + n - z) * 10 / n, (n, n, n)), "T": sizes["T"]}


def exact(given: Arguments) -> tuple[Array, ...]:
    """A level after the other."""
    A = given["A"].copy()
    for _ in range(2 * given["T"]):
        here = A[1:-1, 1:-1, 1:-1]
        around = A[2:, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1] + A[1:-1, 2:, 1:-1] + A[1:-1, :-2, 1:-1]
        A[1:-1, 1:-1, 1:-1] = here + (around + A[1:-1, 1:-1, 2:] + A[1:-1, 1:-1, :-2] - 6 * here) / 8
    return (A,)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
