"""A sparse matrix times a vector: by rows (CSR), and on slices of eight rows (SELL) that an inspector makes once.

By rows, up to eight entries are gathered and multiplied at a time, entries to come are prefetched, and threads have
rows with about the same number of entries. Slices have no ends of rows inside their loops: they are faster still, and
pay where a matrix is used many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from story import FAST, Arguments, Array, compare, error, tell

import tiramisu_py as tm

N, M, NNZ = tm.params("N M NNZ")
i, p = tm.iters("i p")
MOST, AHEAD = 8, 512  # entries of a short row at once, how many entries ahead others are prefetched
SIZES = ((0,), (1,), (2,), (9,), (300,))
LARGE = (200_000,)
OTHERS = [{"columns": "random"}]


def algorithm() -> tuple[tm.Function, tm.Reduction]:
    """y = A x; row i of A has the entries start[i] up to start[i + 1]."""
    f = tm.Function("spmv", params=[N, M, NNZ])
    start = f.input("start", tm.int32, [N + 1], values=(0, NNZ + 1), monotone=True)
    column = f.input("column", tm.int32, [NNZ], values=(0, M))
    value, x = f.input("value", tm.float32, [NNZ]), f.input("x", tm.float32, [M])
    y = f.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=value[p] * x[column[p]])
    f.outputs(y)
    return f, y


def scheduled(kind: str = "rows", columns: str = "banded", cpu: tm.Target | None = None) -> tm.Function:
    """Rows on threads, a vector of entries at a time, or the program of the executor on slices."""
    f, y = algorithm()
    if kind == "slices":
        return tm.sparse.sell(y).multiply
    y.update.after(y.init, i)
    y.parallelize(i, balance=f["start"])
    cpu = cpu or tm.target()
    remainder = "mask" if cpu.costs.has_masks(4) else "scalar"
    y.update.vectorize(p, min(cpu.lanes(tm.float32), MOST), combine=tm.PRIVATE, remainder=remainder)
    y.update.prefetch(f["value"], p, AHEAD)
    y.update.prefetch(f["column"], p, AHEAD)
    return f


@cache
def inspector() -> tm.sparse.SellKernels:
    """The kernels of the product on slices."""
    _, y = algorithm()
    return tm.sparse.sell(y).compile(fast=FAST)


def prepared(given: Mapping[str, Any], kind: str = "rows", columns: str = "banded") -> Arguments:
    """The arguments of the scheduled program: a matrix as it is, or in slices."""
    if kind == "rows":
        return dict(given)
    matrix = inspector().inspect(given["start"], given["column"], given["value"], M=len(given["x"]))
    return {**matrix.layout, **matrix.entries, "x": given["x"]}


def sample(rows: int, kind: str = "rows", columns: str = "banded") -> Arguments:
    """A square matrix with 8 to 24 entries in a row, some rows empty, near the diagonal or anywhere; a vector."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 25, rows) * (rng.random(rows) < 0.99)
    start = np.cumsum([0, *lengths]).astype(np.int32)
    row = np.repeat(np.arange(rows), lengths)
    near = np.clip(row + rng.integers(-2000, 2001, len(row)), 0, max(rows - 1, 0))
    anywhere = rng.integers(0, max(rows, 1), len(row))
    found = near if columns == "banded" else anywhere
    return {
        "value": rng.standard_normal(len(row), np.float32),
        "start": start,
        "column": found[np.lexsort((found, row))].astype(np.int32),
        "x": rng.standard_normal(rows, np.float32),
    }


def exact(given: Arguments, kind: str = "rows") -> tuple[Array, Array]:
    """The product in a wider type, and how far any order of the sums may be from it."""
    start, terms = given["start"], given["value"].astype(np.float64) * given["x"][given["column"]]
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    values, magnitudes = (np.bincount(row, each, len(start) - 1) for each in (terms, abs(terms)))
    return values, error(max(np.diff(start), default=0), magnitudes, np.float32)


def by_slices(**given: Any) -> Any:
    """Inspector and executor together, as one function of the arrays of CSR."""
    matrix = inspector().inspect(given["start"], given["column"], given["value"], M=len(given["x"]))
    return matrix(given["x"])


if __name__ == "__main__":
    for columns in ("banded", "random"):
        for size in SIZES:
            compare(by_slices, sample(*size, columns=columns), exact)
    tell(scheduled, sample, exact, SIZES, LARGE)
