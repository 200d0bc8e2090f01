"""Softmax of rows: the largest value, the exponentials and their sum of a row, while it is in the cache.

The exponential is part of the algorithm, a polynomial times a power of two, so that it runs in vectors: the power is a
product of those that the bits of its exponent name.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from story import Arguments, Array, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c = tm.iters("r c")
LANES, ACCUMULATORS = 16, 64
TERMS = tuple(np.float32(np.log(2) ** n / np.prod(range(1, n + 1))) for n in range(7))  # of 2 ** t near 0
ROUNDING = np.float32(1.5 * 2**23)  # added and taken away, it rounds to a whole number
SIZES = ((1, 1), (3, 17), (5, 64), (4, 259))
LARGE = (1024, 2048)


def exponential(x: tm.Expr) -> tm.Expr:
    """e ** x for x <= 0; the smallest positive numbers stand for those that are smaller."""
    power = tm.minimum(x * np.float32(-np.log2(np.e)), np.float32(127))
    whole = (power + ROUNDING) - ROUNDING
    part = whole - power
    value = reduce(lambda value, term: value * part + term, TERMS[-3::-1], part * TERMS[-1] + TERMS[-2])
    for bit in (64, 32, 16, 8, 4, 2, 1):
        value = value * tm.select(whole >= bit, np.float32(0.5**bit), np.float32(1))
        whole = whole - tm.select(whole >= bit, np.float32(bit), np.float32(0))
    return value


def algorithm() -> tuple[tm.Function, tm.Reduction, tm.Computation, tm.Reduction, tm.Computation]:
    """The stages of each row."""
    f = tm.Function("softmax", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R, C])
    top = f.reduction("top", {r: R}, {c: C}, tm.max, x[r, c])
    power = f.computation("power", {r: R, c: C}, exponential(x[r, c] - top[r]))
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, power[r, c])
    y = f.computation("y", {r: R, c: C}, power[r, c] / total[r])
    f.outputs(y)
    return f, top, power, total, y


def scheduled() -> tm.Function:
    """A row at a time; threads share the rows."""
    f, top, power, total, y = algorithm()
    y.parallelize(r)
    y.vectorize(c, LANES, remainder="mask")
    for stage in (total, power, top):
        stage.compute_at(y, r)
    power.vectorize(c, LANES, remainder="mask")
    total.update.vectorize(c, ACCUMULATORS, combine=tm.PRIVATE)
    top.update.vectorize(c, ACCUMULATORS, combine=tm.PRIVATE)
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
