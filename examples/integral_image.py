"""A summed-area table: two recurrences, one along each axis; the other axis is free to run concurrently.

The sums along a row depend on each other, but the rows do not: rows run in parallel. The sums down a column depend on
each other, but the columns do not: columns run in vectors. Parallel rows for the second recurrence are refused.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

R, C = tm.params("R C")
r, c = tm.iters("r c")


def table() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """``total[r, c]`` is the sum of ``x`` over all rows up to r and columns up to c."""
    f = tm.Function("integral", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.int64, [R, C])
    along = f.computation("along", {r: R, c: C}, lambda along: tm.select(c == 0, x[r, c], along[r, c - 1] + x[r, c]))
    total = f.computation(
        "total", {r: R, c: C}, lambda total: tm.select(r == 0, along[r, c], total[r - 1, c] + along[r, c])
    )
    f.outputs(total)
    return f, along, total


f, along, total = table()
total.parallelize(r)
violation = f.check().violations[0]
print(f"refused: {violation}\n")
assert violation.witness.params == {"R": 2, "C": 1}

f, along, total = table()
along.parallelize(r)
total.vectorize(c, 8)
kernel = f.compile()
for shape in [(1, 1), (2, 9), (67, 131)]:
    given = np.random.default_rng(0).integers(-1000, 1000, shape)
    np.testing.assert_array_equal(kernel(given), given.cumsum(axis=0).cumsum(axis=1))
print("right: equal to two cumulative sums of NumPy")
