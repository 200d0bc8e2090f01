"""A sparse matrix times a dense one of 64 columns: a row of the result stays in registers.

Each entry is a row of the dense matrix times a number: as much of it at once as half of the registers hold. Threads
have rows with about the same number of entries.
"""

from __future__ import annotations

import numpy as np
import spmv
from story import Arguments, Array, error, tell

import tiramisu_py as tm

N, M, NNZ = tm.params("N M NNZ")
i, j, p, j0, j1 = tm.iters("i j p j0 j1")
COLUMNS = 64
SIZES = ((0,), (1,), (2,), (9,), (130,))
LARGE = (20_000,)


def algorithm() -> tuple[tm.Function, tm.Reduction, tm.Computation]:
    """C = A B; row i of A has the entries start[i] up to start[i + 1]."""
    f = tm.Function("spmm", params=[N, M, NNZ])
    start = f.input("start", tm.int32, [N + 1], values=(0, NNZ + 1), monotone=True)
    column = f.input("column", tm.int32, [NNZ], values=(0, M))
    value, B = f.input("value", tm.float32, [NNZ]), f.input("B", tm.float32, [M, COLUMNS])
    term = value[p] * B[column[p], j]
    total = f.reduction("total", {i: N, j: COLUMNS}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=term)
    C = f.computation("C", {i: N, j: COLUMNS}, total[i, j])
    f.outputs(C)
    return f, total, C


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Sums of a row, in half of the registers or less, one entry after another; rows on threads."""
    f, total, C = algorithm()
    cpu = cpu or tm.target()
    width = min(cpu.vector_registers // 2 * cpu.lanes(tm.float32), COLUMNS)
    C.parallelize(i, balance=f["start"])
    C.split(j, width, j0, j1)
    C.vectorize(j1, width)
    total.compute_at(C, j0)
    total.update.interchange(j, p)
    total.vectorize(j, width)
    total.store_in(tm.REGISTER)
    return f


def sample(rows: int) -> Arguments:
    """A square matrix with 8 to 24 entries in a row near the diagonal, and a dense one."""
    given = spmv.sample(rows)
    del given["x"]
    return {**given, "B": np.random.default_rng(1).standard_normal((rows, COLUMNS), np.float32)}


def exact(given: Arguments) -> tuple[Array, Array]:
    """The product in a wider type, and how far any order of the sums may be from it."""
    start, dense = given["start"], given["B"].astype(np.float64)
    terms = given["value"].astype(np.float64)[:, None] * dense[given["column"]]
    values, magnitudes = (np.zeros((len(start) - 1, COLUMNS)) for _ in range(2))
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    np.add.at(values, row, terms)
    np.add.at(magnitudes, row, abs(terms))
    return values, error(max(np.diff(start), default=0), magnitudes, np.float32)


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
