"""Heat in a plate: fifty steps in overlapping tiles of space and time, so that the grid is rarely read from memory.

A tile of 1024 x 1024 points is computed for 26 steps before the next one begins, so that fifty steps are two passes
over the grid; the steps sweep over it together, two rows at a time, each step a row behind the one before. They keep
four rows each: together 435 kB, little enough for the cache of a core. What the last step of a pass stores is read
much later, and stored past the caches.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

T, N, M = tm.params("T N M")
t, i, j, i0, i1, j0 = tm.iters("t i j i0 i1 j0")
LINE = 16  # numbers in a cache line: results are stored line by line
STAY, MOVE = np.float32(0.6), np.float32(0.1)


def algorithm() -> tuple[tm.Function, tm.Computation]:
    """Each inner point moves towards its four neighbours; the edge of the plate keeps its temperature."""
    f = tm.Function("heat", params=[T, N, M], assume="T >= 1 and N >= 3 and M >= 3")
    start = f.input("start", tm.float32, [N, M])
    edge = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == M - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: N, j: M},
        lambda h: tm.select(
            edge,
            start[i, j],
            h[t - 1, i, j] * STAY
            + ((h[t - 1, i, j - 1] + h[t - 1, i, j + 1]) + (h[t - 1, i - 1, j] + h[t - 1, i + 1, j])) * MOVE,
        ),
    )
    f.outputs(heat[T, i, j])
    return f, heat


def scheduled() -> tm.Function:
    """26 steps at a time; two rows of one step, then of the next, so that each step reads from the cache."""
    f = in_tiles(26, {i: 1024, j: 1024}, {i: 2})
    f["heat_last"].store_nontemporal()
    return f


def tiles() -> tm.Function:
    """For comparison: small tiles that fit in the cache, one whole step of a tile after another."""
    return in_tiles(13, {i: 64, j: 512}, None)


def in_tiles(steps: int, sizes: dict[tm.Iter, int], wavefront: dict[tm.Iter, int] | None) -> tm.Function:
    """Several steps at a time in tiles; a tile recomputes the values that it needs of its neighbours."""
    f, heat = algorithm()
    heat.time_tile(t, steps, sizes, wavefront=wavefront)
    heat.parallelize(i0, j0)
    heat.vectorize(j, LINE, remainder="mask")
    f["heat_out"].parallelize(i)
    f["heat_out"].vectorize(j, LINE)
    f["heat_out"].store_nontemporal()
    return f


def step_by_step() -> tm.Function:
    """For comparison: two alternating grids; in each step the rows are distributed over the threads."""
    f, heat = algorithm()
    heat.store_in(tm.Buffer("two", [2, N, M], tm.float32), [t % 2, i, j])
    for stage in (heat, f["heat_out"]):
        stage.split(i, 8, i0, i1)
        stage.parallelize(i0)
        stage.vectorize(j, LINE)
    return f


VARIANTS = {"tiles": tiles, "step by step": step_by_step}


def sample(rows: int, columns: int, steps: int = 50) -> Arguments:
    """A random start."""
    start = np.random.default_rng(0).random((max(rows, 3), max(columns, 3)), dtype=np.float32)
    return {"start": start, "T": steps}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
