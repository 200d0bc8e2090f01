"""Heat in a plate whose upper rows are on a GPU: in each step one row is copied to the GPU, and one from it."""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

T, N, M, G = tm.params("T N M G")
t, i, j = tm.iters("t i j")


def algorithm() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Each inner point moves towards its four neighbours; the plate is stored twice."""
    f = tm.Function("plate", params=[T, N, M, G], assume="T >= 1 and N >= 3 and M >= 3 and 0 <= G <= N")
    start = f.input("start", tm.float32, [N, M])
    edge = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == M - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: N, j: M},
        lambda h: tm.select(
            edge,
            start[i, j],
            h[t - 1, i, j] * 0.5
            + (h[t - 1, i - 1, j] + h[t - 1, i + 1, j] + h[t - 1, i, j - 1] + h[t - 1, i, j + 1]) * 0.125,
        ),
    )
    f.outputs(heat[T, i, j])
    heat.store_in(tm.Buffer("two", [2, N, M], tm.float32), [t % 2, i, j])
    return f, heat, f["heat_out"]


def halves() -> tm.Function:
    """Rows up to G are on the GPU, and stay there."""
    f, heat, result = algorithm()
    for stage in (heat, result):
        stage.partition(i, [G], [tm.gpu(tile=(4, 64)), tm.cores(vector=8)])
    f.derive_transfers()
    return f


VARIANTS = {"halves": halves}
SPLITS = (0.0, 0.02, 0.5, 0.97, 1.0)


def sample(split: float, size: int, seed: int) -> Arguments:
    """A random start, a number of steps, and the number of rows on the GPU."""
    rows = size + 2
    start = np.random.default_rng(seed).random((rows, rows + 9), dtype=np.float32)
    return {"start": start, "T": 5, "G": round(split * rows)}


if __name__ == "__main__":
    tell(VARIANTS, sample, SPLITS, 37)
