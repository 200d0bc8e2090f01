"""The lower triangle of a symmetric matrix, smoothed on ranks whose rows a partitioner chooses when the program runs.

    mpirun -n 4 python -m mpi4py examples/mpi/partitioned.py

Row r has r + 1 elements, so blocks of equal numbers of rows would give the last rank most of the work. `partition`
gives each rank consecutive rows with about the same number of elements. One program is proven for every number of ranks
and every split: `lo` and `hi` are parameters whose values differ from rank to rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from mpi4py import MPI

import tiramisu_py as tm

R, lo, hi = tm.params("R lo hi")
r, c = tm.iters("r c")


def scheduled() -> tm.Function:
    """Means along rows, then of a row and the two beside it; the missing rows come from the neighbours."""
    f = tm.Function("smooth", params=[R, lo, hi], assume=R >= 3)
    matrix = f.input("matrix", tm.float64, [R, R + 1])
    along = f.computation("along", {r: R, c: (0, r + 1)}, (matrix[r, c] + matrix[r, c + 1]) / 2)
    mean = (along[r - 1, c] + along[r, c] + along[r + 1, c]) / 3
    smooth = f.computation("smooth", {r: (1, R - 1), c: (0, r)}, mean, shape=[R, R])
    f.outputs(smooth)
    f.blocks(R, lo, hi)
    for array in (matrix, smooth):
        array.distribute_array([r, c], rank=r, bounds=(lo, hi))
    for stage in (along, smooth):
        stage.tag_distribute(r, bounds=(lo, hi))
        stage.vectorize(c, 8)
    f.derive_transfers()
    return f


def partition(work: Sequence[int], ranks: int) -> list[int]:
    """The bounds of blocks of consecutive rows with about the same work: block k has rows bounds[k] to bounds[k + 1].

    Each block has a row at least; where there are fewer rows than ranks, the last ranks have none.
    """
    before, used = np.concatenate([[0], np.cumsum(work)]), min(ranks, len(work))
    bounds = [0]
    for k in range(1, used):
        nearest = int(np.abs(before - before[-1] * k / used).argmin())
        bounds.append(min(max(nearest, bounds[-1] + 1), len(work) - used + k))
    return [*bounds, *[len(work)] * (ranks + 1 - used)]


def largest(work: Sequence[int], bounds: Sequence[int]) -> float:
    """The share of the work in the block that has most of it."""
    return max(sum(work[low:high]) for low, high in pairwise(bounds)) / sum(work)


def main(rows: int) -> None:
    """Smooth a matrix on the ranks that there are, and compare with `evaluate()`."""
    comm = MPI.COMM_WORLD
    f = scheduled()
    kernel, work = f.compile(), [row + 1 for row in range(rows)]
    bounds = partition(work, comm.size)
    low, high = bounds[comm.rank : comm.rank + 2]
    matrix = np.random.default_rng(0).random((rows, rows + 1))
    mine = kernel(matrix[low:high], R=rows, lo=low, hi=high, comm=comm)
    wanted = f.evaluate(matrix=matrix, lo=0, hi=rows)[low:high]
    at, column = np.indices(mine.shape)
    inside = (at + low >= 1) & (at + low < rows - 1) & (column < at + low)
    if not comm.allreduce(np.array_equal(mine[inside], wanted[inside]), op=MPI.LAND):
        raise SystemExit("wrong")
    if comm.rank == 0:
        equal = [rows * k // comm.size for k in range(comm.size + 1)]
        print(f.check())
        print(f"right on {comm.size} ranks, with {', '.join(map(str, np.diff(bounds)))} of {rows} rows each: at most")
        print(f"{largest(work, bounds):.0%} of the work on one, where equal rows would have {largest(work, equal):.0%}")


if __name__ == "__main__":
    main(200)
