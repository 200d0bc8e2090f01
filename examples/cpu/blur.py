"""Box blur 3 x 3 in one pass: no intermediate is in memory.

Where moving numbers between two vectors is cheap, sums of three are taken down, then across: for each of a few rows,
the current and the previous vector of the first stage are kept in registers, and a sum of three neighbours reads both.
Where it is dear, sums are taken across first, of numbers that are loaded again, and then down: a window of three rows
goes down through the rows of a band, of a cache line in each row. Results of large pictures are written with
non-temporal stores.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C, S = tm.params("R C S")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
THIRD = np.float32(1 / 3)
LINE = 16  # numbers in a cache line
BAND = 12  # rows: of 14 that are read, two are read again for the next band, and 26 are read or written in turn


def algorithm(across_first: bool | None = None) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Sums of three, times a third, of rows that are S numbers apart in memory, in the order that the costs say."""
    f = tm.Function("blur", params=[R, C, S], assume="R >= 1 and C >= 1 and S >= C + 2")
    image = f.input("image", tm.float32, [R + 2, S])
    if across_first is None:
        across_first = tm.target().costs.prefers_rows(3, BAND)
    if across_first:
        across = f.computation("across", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) * THIRD)
        by = f.computation("by", {r: R, c: C}, (across[r, c] + across[r + 1, c] + across[r + 2, c]) * THIRD)
        f.outputs(by)
        return f, across, by
    down = f.computation("down", {r: R, c: C + 2}, (image[r, c] + image[r + 1, c] + image[r + 2, c]) * THIRD)
    by = f.computation("by", {r: R, c: C}, (down[r, c] + down[r, c + 1] + down[r, c + 2]) * THIRD)
    f.outputs(by)
    return f, down, by


def scheduled(
    cpu: tm.Target | None = None, *, band: int = BAND, vectors: int | None = None, streams: bool = True
) -> tm.Function:
    """Bands of rows, through which a window goes down or slides along them, as the costs of `cpu` say."""
    cpu = cpu or tm.target()
    if cpu.costs.prefers_rows(3, BAND):
        return downwards(cpu, band, vectors, streams)
    return sliding(cpu, streams)


def sliding(cpu: tm.Target, streams: bool = True) -> tm.Function:
    """A window of registers for each row.

    A row keeps two vectors, and needs one for their sums, and another one for what it loads where that is no operand of
    arithmetic. The factor
    and what is loaded and moved for the next row take six registers.
    """
    lanes, of_row = cpu.lanes(tm.float32), 3 if cpu.costs.memory_operands else 4
    rows = (cpu.vector_registers - 6) // of_row
    f, down, by = algorithm(across_first=False)
    by.tile(r, c, rows, lanes, r0, c0, r1, c1)
    by.parallelize(r0)
    by.vectorize(c1, lanes, remainder="mask")
    if streams:
        by.store_nontemporal()
    down.compute_at(by, c0)
    down.slide(c0, c, lanes)
    down.store_in(tm.REGISTER)
    down.vectorize(c, lanes, remainder="mask")
    return f


def downwards(cpu: tm.Target, band: int = BAND, vectors: int | None = None, streams: bool = True) -> tm.Function:
    """A window of three rows in registers, of a cache line each where these hold it, and not of one vector.

    There are the window and its next row, weights and a sum, and what is loaded where that is no operand of arithmetic.
    """
    lanes = cpu.lanes(tm.float32)
    needed = 4 * (LINE // lanes) + 4 + (0 if cpu.costs.memory_operands else 3)
    if vectors is None:
        vectors = LINE // lanes if needed <= cpu.vector_registers else 1
    lanes *= vectors
    f, across, by = algorithm(across_first=True)
    by.tile(r, c, band, lanes, r0, c0, r1, c1)
    by.parallelize(r0)
    by.unroll(r1)
    by.vectorize(c1, lanes, remainder="mask")
    if streams:
        by.store_nontemporal()
    across.compute_at(by, r1)
    across.slide(r1, r, 1)
    across.store_in(tm.REGISTER)
    across.vectorize(c, lanes, remainder="mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A random picture with a border, in rows that are whole cache lines."""
    width = -(-(columns + 2) // LINE) * LINE
    return {"image": np.random.default_rng(0).random((rows + 2, width), dtype=np.float32), "C": columns}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
