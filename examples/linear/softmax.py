"""Softmax of rows: the largest value, the exponentials and their sum of a row, while it is in the cache.

The exponentials of a row stay in the cache until their sum is known; the next row is fetched meanwhile, and the results
go past the caches. `tm.recipes.rows(y)` gives the same commands.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c = tm.iters("r c")
LINE = 16  # elements of a cache line: results are stored line by line
SIZES = ((1, 1), (3, 17), (5, 64), (4, 259))
LARGE = (1024, 2048)


def algorithm() -> tuple[tm.Function, list[tm.Computation], tm.Computation]:
    """The stages of each row, and the result: one division for each row, and not for each element."""
    f = tm.Function("softmax", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R, C])
    top = f.reduction("top", {r: R}, {c: C}, tm.max, x[r, c])
    power = f.computation("power", {r: R, c: C}, tm.exp(x[r, c] - top[r]))
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, power[r, c])
    inverse = f.computation("inverse", {r: R}, np.float32(1) / total[r])
    y = f.computation("y", {r: R, c: C}, power[r, c] * inverse[r])
    f.outputs(y)
    return f, [top, power, total, inverse], y


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """A row at a time; threads share the rows; eight vectors of partial results, so that additions do not wait."""
    f, stages, y = algorithm()
    partial = min(8 * (cpu or tm.target()).lanes(tm.float32), 64)
    y.parallelize(r)
    y.vectorize(c, LINE, remainder="mask")
    y.store_nontemporal()
    for stage in reversed(stages):
        stage.compute_at(y, r)
        if isinstance(stage, tm.Reduction):
            stage.update.vectorize(c, partial, combine=tm.PRIVATE)
    power = stages[1]
    power.vectorize(c, LINE, remainder="mask")
    power.prefetch(f["x"], r, 1)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """Random rows."""
    return {"x": 4 * np.random.default_rng(0).standard_normal((rows, columns), np.float32)}


def exact(given: Arguments) -> tuple[Array, Array]:
    """The values in a wider type, and an error of 2 ** -20 of each, and of the smallest numbers."""
    x = given["x"].astype(np.float64)
    power = np.exp(x - x.max(1, keepdims=True))
    values: Array = power / power.sum(1, keepdims=True)
    return values, (2.0**-20 + x.shape[1] * 2.0**-24) * values + 2.0**-126


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
