"""Softmax with one pass for both reductions: its operator has two values, the largest one and the sum of powers.

Where a larger value comes, the sum so far is scaled to it. Lanes have rows of their own; threads share blocks of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from story import tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1 = tm.iters("r c r0 r1")


def combined(a: Any, b: Any) -> Any:
    """The larger of two values, and both sums of powers relative to it; equal infinities are no distance apart."""
    (top, total), (other, others) = a, b
    larger = tm.max(top, other)
    first = tm.select(top == larger, np.float32(1), tm.exp(top - larger))
    second = tm.select(other == larger, np.float32(1), tm.exp(other - larger))
    return larger, total * first + others * second


ONLINE = tm.operator("online", combined, (np.float32(-np.inf), np.float32(0)), names=("top", "total"))


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """As many rows side by side as a vector has lanes."""
    lanes = (cpu or tm.target()).lanes(tm.float32)
    f = tm.Function("online_softmax", params=[R, C], assume="C >= 1")
    x = f.input("x", tm.float32, [R, C])
    both = f.reduction("both", {r: R}, {c: C}, ONLINE, (x[r, c], tm.cast(tm.float32, 1)))
    y = f.computation("y", {r: R, c: C}, tm.exp(x[r, c] - both[r]["top"]) / both[r]["total"])
    f.outputs(y)
    both.update.split(r, lanes, r0, r1).reorder(r0, c, r1)
    both.update.parallelize(r0).vectorize(r1, lanes, remainder="mask")
    y.parallelize(r).vectorize(c, lanes, remainder="mask")
    return f


def main() -> None:
    """Compare with NumPy in float64."""
    f = scheduled()
    kernel = tell(f)
    assert f.check().determinism["both"] == "ordered"
    for shape in ((0, 1), (1, 1), (15, 31), (17, 33), (33, 1025)):
        x = 9 * np.random.default_rng(shape[0]).standard_normal(shape, np.float32)
        x[1:, 0] = -np.inf
        power = np.exp(x.astype(np.float64) - x.max(1, initial=-np.inf, keepdims=True))
        np.testing.assert_allclose(kernel(x), power / power.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)
    print("right: softmax with one pass over the terms is that of NumPy")


if __name__ == "__main__":
    main()
