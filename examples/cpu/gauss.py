"""Gaussian 5 x 5 in one pass: no intermediate is in memory.

Where moving numbers between two vectors is cheap, down and then across, and no value is computed twice: for each of a
few rows, the current and the previous vector of the first stage are kept in registers, and neighbours are read from
two. Where it is dear, across first, of numbers that are loaded again, and then down: a window of five rows goes down
through the rows of a band, of a cache line in each row. Results of large pictures are written with non-temporal stores.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C, S = tm.params("R C S")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
OUTER, INNER, CENTRE = (np.float32(w) for w in (0.0625, 0.25, 0.375))
LINE = 16  # numbers in a cache line
BAND = 12  # rows: of 16 that are read, four are read again for the next band, and 28 are read or written in turn


def weighted(at: list[tm.Expr]) -> tm.Expr:
    """Weights 1 4 6 4 1, scaled to 1, with three multiplications for five terms."""
    return (at[0] + at[4]) * OUTER + (at[1] + at[3]) * INNER + at[2] * CENTRE


def algorithm(across_first: bool | None = None) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Five weights down and five across, of rows S numbers apart in memory, in the order that the costs say."""
    f = tm.Function("gauss", params=[R, C, S], assume="R >= 1 and C >= 1 and S >= C + 4")
    image = f.input("image", tm.float32, [R + 4, S])
    if across_first is None:
        across_first = tm.target().costs.prefers_rows(5, BAND)
    if across_first:
        across = f.computation("across", {r: R + 4, c: C}, weighted([image[r, c + d] for d in range(5)]))
        smooth = f.computation("smooth", {r: R, c: C}, weighted([across[r + d, c] for d in range(5)]))
        f.outputs(smooth)
        return f, across, smooth
    down = f.computation("down", {r: R, c: C + 4}, weighted([image[r + d, c] for d in range(5)]))
    smooth = f.computation("smooth", {r: R, c: C}, weighted([down[r, c + d] for d in range(5)]))
    f.outputs(smooth)
    return f, down, smooth


def scheduled(
    cpu: tm.Target | None = None, *, band: int = BAND, vectors: int | None = None, streams: bool = True
) -> tm.Function:
    """Bands of rows, through which a window goes down or slides along them, as the costs of `cpu` say."""
    cpu = cpu or tm.target()
    if cpu.costs.prefers_rows(5, BAND):
        return downwards(cpu, band, vectors, streams)
    return sliding(cpu, streams)


def downwards(cpu: tm.Target, band: int = BAND, vectors: int | None = None, streams: bool = True) -> tm.Function:
    """A window of five rows in registers, of a cache line each where these hold it, and not of one vector.

    There are the window and its next row, weights and a sum, and what is loaded where that is no operand of arithmetic.
    """
    lanes = cpu.lanes(tm.float32)
    needed = 6 * (LINE // lanes) + 4 + (0 if cpu.costs.memory_operands else 5)
    if vectors is None:
        vectors = LINE // lanes if needed <= cpu.vector_registers else 1
    lanes *= vectors
    f, across, smooth = algorithm(across_first=True)
    smooth.tile(r, c, band, lanes, r0, c0, r1, c1)
    smooth.parallelize(r0)
    smooth.unroll(r1)
    smooth.vectorize(c1, lanes, remainder="mask")
    if streams:
        smooth.store_nontemporal()
    across.compute_at(smooth, r1)
    across.slide(r1, r, 1)
    across.store_in(tm.REGISTER)
    across.vectorize(c, lanes, remainder="mask")
    return f


def sliding(cpu: tm.Target, streams: bool = True) -> tm.Function:
    """A window of registers for each row: as many rows as the registers of `cpu` hold.

    A row keeps two vectors, and needs one for their sums, and another one for what it loads where that is no operand of
    arithmetic. The three
    weights and what is loaded and moved for the next row take eight registers.
    """
    lanes, of_row = cpu.lanes(tm.float32), 3 if cpu.costs.memory_operands else 4
    rows = (cpu.vector_registers - 8) // of_row
    f, down, smooth = algorithm(across_first=False)
    smooth.tile(r, c, rows, lanes, r0, c0, r1, c1)
    smooth.parallelize(r0)
    smooth.vectorize(c1, lanes, remainder="mask")
    if streams:
        smooth.store_nontemporal()
    down.compute_at(smooth, c0)
    down.slide(c0, c, lanes)
    down.store_in(tm.REGISTER)
    down.vectorize(c, lanes, remainder="mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A random picture with a border, in rows that are whole cache lines."""
    width = -(-(columns + 4) // LINE) * LINE
    return {"image": np.random.default_rng(0).random((rows + 4, width), dtype=np.float32), "C": columns}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
