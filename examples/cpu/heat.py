"""Heat in a plate: fifty steps in overlapping tiles of space and time, so that the grid is rarely read from memory.

A tile is computed for many steps before the next one begins, so that fifty steps are a few passes over the grid: two
where the second-level cache has 1 MB. The steps sweep over a tile together, four rows at a time, each step a row behind
the one before. Each keeps eight rows, all together little enough for that cache, from which the number of steps and the
sides of a tile follow. Four rows share what they load: a vector of each takes 3.5 loads in the place of 5. What the
last step of a pass stores is read much later, and stored past the caches.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

T, N, M = tm.params("T N M")
t, i, j, t0, i0, i1, j0, block, row = tm.iters("t i j t0 i0 i1 j0 block row")
LINE = 16  # numbers in a cache line: results are stored line by line
STEPS = 50
ROWS = 4  # rows at a time: each more saves fewer loads, and takes as much of the cache
HIGH = 40  # the height of a tile, in halos
FILLED = 7 / 8  # of the cache, by the rows of all steps of a tile
WIDE = 512  # the columns of a small tile
SWEEP = 3.0  # a sweep through memory, in steps in the cache
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


def scheduled(
    cpu: tm.Target | None = None,
    *,
    passes: int | None = None,
    columns: int | None = None,
    shared: int = ROWS,
    high: int = HIGH,
    streams: bool = True,
) -> tm.Function:
    """Many steps at a time; some rows of one step, then of the next, so that each step reads from the cache.

    These are as many rows as have `shared` loads. There are some `passes` over the grid, in tiles of so many columns,
    and `high` times as many rows as a pass has steps.
    """
    cpu = cpu or tm.target()
    steps, rows, wide = tile(cpu, passes, shared, high)
    f, heat = algorithm()
    heat.separate_cases()
    heat.time_tile(t, steps, {i: rows, j: columns or wide}, wavefront={i: shared})
    heat.parallelize(i0, j0)
    inside = f["heat_1_inner"]
    inside.skew(t, i, 1).skew(t0, i, -steps)  # rows of a step are a row earlier than those of the step before
    inside.split(i, shared, block, row, origin=1 - steps)
    inside.reorder(block, j, row)
    inside.unroll(row)
    heat.vectorize(j, cpu.lanes(tm.float32), remainder="mask")
    f["heat_out"].parallelize(i)
    f["heat_out"].vectorize(j, LINE)
    for last in ("heat_0_last", "heat_1_last", "heat_out"):
        if streams:
            f[last].store_nontemporal()
    return f


def tile(cpu: tm.Target, number: int | None = None, shared: int = ROWS, high: int = HIGH) -> tuple[int, int, int]:
    """The steps of a pass, and the rows and columns of a tile: those that cost least of all that fit in the cache.

    A tile is forty times as high as its halo, since height takes no room, and as wide as there is room for. What counts
    are the points that are computed twice, the ends of rows, which fill no vectors, and the sweeps through memory. The
    `number` of passes may be given.
    """
    costs = {}
    for passes in range(2, STEPS // 4) if number is None else (number,):
        steps = -(-(STEPS + 1) // passes)
        halo = 2 * -(-(steps - 1) // LINE) * LINE
        room = int(FILLED * cpu.second) // (2 * shared * tm.float32.bytes * (steps - 1)) - halo
        rows, columns = high * steps, max(room // (4 * LINE), 1) * 4 * LINE
        costs[steps, rows, columns] = (1 + (steps + 2 * LINE) / columns) * (1 + steps / rows) + SWEEP / steps
    return min(costs, key=lambda each: costs[each])


def tiles(cpu: tm.Target | None = None) -> tm.Function:
    """For comparison: small tiles that fit in the cache, one whole step of a tile after another."""
    cpu = cpu or tm.target()
    f, heat = algorithm()
    heat.time_tile(t, 8, {i: max(cpu.second // (16 * WIDE), 1), j: WIDE})
    heat.parallelize(i0)
    heat.vectorize(j, cpu.lanes(tm.float32), remainder="mask")
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


def sample(rows: int, columns: int, steps: int = STEPS) -> Arguments:
    """A random start."""
    start = np.random.default_rng(0).random((max(rows, 3), max(columns, 3)), dtype=np.float32)
    return {"start": start, "T": steps}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
