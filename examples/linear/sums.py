"""Sums of a matrix: of all elements, of each row, of each column, as fast as the matrix can be read.

A sum along a row needs many additions at the same time: a row has several registers of its own, whose lanes are
combined at the end. Rows follow one another: memory is read in one run.
Sums of columns need few accesses to their accumulators: eight rows are added before they are added to these.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1, c0, c1, c2 = tm.iters("r c r0 r1 c0 c1 c2")
ROWS, STRIP = 8, 16  # rows that are added at once, groups of columns of a thread
SIZES = ((1, 1), (3, 63), (8, 64), (17, 129), (131, 1031))
LARGE = (1024, 2048)
KINDS = ("rows", "all", "columns")
OTHERS = [{"kind": "all"}, {"kind": "columns"}]


def algorithm(kind: str = "rows") -> tuple[tm.Function, tm.Reduction]:
    """The sums of a matrix over its columns, its rows, or both."""
    f = tm.Function(f"sum_{kind}", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R, C])
    domain = {"rows": {r: R}, "columns": {c: C}, "all": {}}[kind]
    over = {"rows": {c: C}, "columns": {r: R}, "all": {r: R, c: C}}[kind]
    total = f.reduction("total", domain, over, tm.sum, x[r, c])
    f.outputs(total)
    return f, total


def scheduled(kind: str = "rows", cpu: tm.Target | None = None) -> tm.Function:
    """A row in a quarter of the registers, or eight rows, to sums of columns; threads share rows, or columns."""
    f, total = algorithm(kind)
    cpu = cpu or tm.target()
    lanes = cpu.lanes(tm.float32)
    width = min(8 * lanes, 64)  # columns whose sums, of eight rows each, stay in registers
    if kind == "columns":
        total.update.split(r, ROWS, r0, r1)
        eight = total.update.rfactor(r0)
        total.update.split(c, width, c0, c1)
        total.update.split(c0, STRIP, c2, c0)
        total.update.reorder(c2, r0, c0, c1)
        total.update.parallelize(c2)
        total.update.vectorize(c1, width, remainder="mask")
        eight.compute_at(total.update, c0)
        eight.store_in(tm.REGISTER)
        eight.update.reorder(r, c)
        eight.update.unroll(r, remainder="specialize")
        eight.vectorize(c, width, remainder="mask")
        return f
    rows = total.update.rfactor(r) if kind == "all" else total
    rows.init.parallelize(r)
    rows.update.parallelize(r)
    rows.update.vectorize(c, min(cpu.costs.registers // 4 * lanes, 64), combine=tm.PRIVATE)
    return f


def sample(rows: int, columns: int, kind: str = "rows") -> Arguments:
    """A random matrix."""
    return {"x": np.random.default_rng(0).standard_normal((rows, columns), np.float32)}


def exact(given: Arguments, kind: str = "rows") -> tuple[Array, Array]:
    """The sums in a wider type, and how far any order of them may be from it."""
    x = given["x"].astype(np.float64)
    axis = {"rows": 1, "columns": 0, "all": None}[kind]
    values, magnitudes = np.asarray(x.sum(axis)), np.asarray(abs(x).sum(axis))
    return values, error(x.size // values.size, magnitudes, np.float32)


if __name__ == "__main__":
    for each in KINDS:
        tell(partial(scheduled, each), sample, partial(exact, kind=each), SIZES, LARGE)
