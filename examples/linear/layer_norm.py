"""Layer normalisation of rows: mean and variance of a row, in many lanes, while it is in the cache.

The last stage fetches the next row, and stores past the caches. `tm.recipes.rows(y)` gives the same commands.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c = tm.iters("r c")
SMALL = np.float32(1e-5)  # added to the variance
LINE = 16  # elements of a cache line: results are stored line by line
SIZES = ((1, 1), (3, 17), (5, 64), (4, 259))
LARGE = (1024, 2048)


def algorithm() -> tuple[tm.Function, list[tm.Computation], tm.Computation]:
    """Mean and variance of each row, and the row with mean 0 and variance 1, scaled and shifted by columns."""
    f = tm.Function("layer_norm", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R, C])
    scale, shift = f.input("scale", tm.float32, [C]), f.input("shift", tm.float32, [C])
    count = tm.cast(tm.float32, C)
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, x[r, c])
    mean = f.computation("mean", {r: R}, total[r] / count)
    apart = x[r, c] - mean[r]
    squares = f.reduction("squares", {r: R}, {c: C}, tm.sum, apart * apart)
    factor = f.computation("factor", {r: R}, np.float32(1) / tm.sqrt(squares[r] / count + SMALL))
    y = f.computation("y", {r: R, c: C}, (x[r, c] - mean[r]) * factor[r] * scale[c] + shift[c])
    f.outputs(y)
    return f, [total, mean, squares, factor], y


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """A row at a time; threads share the rows; eight vectors of partial results, so that additions do not wait."""
    f, stages, y = algorithm()
    partial = min(8 * (cpu or tm.target()).lanes(tm.float32), 64)
    y.parallelize(r)
    y.vectorize(c, LINE, remainder="mask")
    y.store_nontemporal()
    y.prefetch(f["x"], r, 1)
    for stage in reversed(stages):
        stage.compute_at(y, r)
        if isinstance(stage, tm.Reduction):
            stage.update.vectorize(c, partial, combine=tm.PRIVATE)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """Random rows, scales and shifts."""
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal((rows, columns), np.float32),
        "scale": rng.standard_normal(columns, np.float32),
        "shift": rng.standard_normal(columns, np.float32),
    }


def exact(given: Arguments) -> tuple[Array, Array]:
    """The values in a wider type, and the rounding errors of the sums, which count where a row is nearly constant."""
    x, scale, shift = (given[name].astype(np.float64) for name in ("x", "scale", "shift"))
    apart = x - x.mean(1, keepdims=True)
    factor = 1 / np.sqrt((apart**2).mean(1, keepdims=True) + SMALL)
    values: Array = apart * factor * scale + shift
    largest = abs(x).max(1, keepdims=True) * factor
    return values, (x.shape[1] + 16) * 2.0**-23 * ((1 + largest) * abs(scale) + abs(shift))


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
