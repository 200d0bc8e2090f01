"""Heat in a plate on a grid of ranks: a time loop, four neighbours, and two copies of the plate."""

from __future__ import annotations

import numpy as np
from story import Arguments, blocks, process_grid, tell

import tiramisu_py as tm

(T,) = tm.params("T")
t, i, j, qi, qj, i1, j1 = tm.iters("t i j qi qj i1 j1")
COLUMNS = 21


def algorithm(ranks: int, rows: int) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Each inner point moves towards its four neighbours; each rank has a rectangle of the plate."""
    down, across = process_grid(ranks)
    high, wide = blocks(rows, down), blocks(COLUMNS, across)
    f = tm.Function("plate", params=[T], assume="T >= 1")
    start = f.input("start", tm.float32, [rows, COLUMNS])
    edge = (t == 0) | (i == 0) | (i == rows - 1) | (j == 0) | (j == COLUMNS - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: rows, j: COLUMNS},
        lambda h: tm.select(
            edge,
            start[i, j],
            h[t - 1, i, j] * 0.5
            + (h[t - 1, i - 1, j] + h[t - 1, i + 1, j] + h[t - 1, i, j - 1] + h[t - 1, i, j + 1]) * 0.125,
        ),
    )
    f.outputs(heat[T, i, j])
    result = f["heat_out"]
    heat.store_in(tm.Buffer("two", [2, rows, COLUMNS], tm.float32), [t % 2, i, j])
    for array in (start, result):
        array.distribute_array([i, j], rank=(i // high, j // wide))
    for stage in (heat, result):
        stage.tile(i, j, high, wide, qi, qj, i1, j1)
        stage.tag_distribute(qi, qj)
    heat.vectorize(j1, 8)
    return f, heat, result


def derived(ranks: int, rows: int) -> tm.Function:
    """In each step the edges of the rectangles are exchanged."""
    f, _, _ = algorithm(ranks, rows)
    f.derive_transfers()
    return f


def overlapped(ranks: int, rows: int) -> tm.Function:
    """The inside of each rectangle is computed while its edges are in flight."""
    f, _, _ = algorithm(ranks, rows)
    f.derive_transfers(overlap=True)
    return f


VARIANTS = {"derived": derived, "overlapped": overlapped}


def sample(_: str, size: int, seed: int) -> Arguments:
    """A random start, and a number of steps."""
    return {"start": np.random.default_rng(seed).random((size, COLUMNS), dtype=np.float32), "T": 5}


if __name__ == "__main__":
    tell(VARIANTS, sample, (24, 17))
