"""Reductions of several values at once: the largest value of a row and where it is, and mean and variance in one pass.

Welford's operator combines the number of values, their mean and the squared distances from it. A reduction tries on
some terms whether it is associative and commutative. Rows run side by side in the lanes of a vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1 = tm.iters("r c r0 r1")


def merged(a: Any, b: Any) -> Any:
    """Number, mean and squared distances of the values of both."""
    (n, mean, squares), (m, other, others) = a, b
    share = tm.select(n + m == 0, np.float32(0), m / (n + m))
    apart = other - mean
    return n + m, mean + apart * share, squares + others + apart * apart * n * share


WELFORD = tm.operator("welford", merged, (np.float32(0),) * 3, names=("count", "mean", "squares"))


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Both reductions of each row, a vector of rows at a time; threads share the rows."""
    lanes = (cpu or tm.target()).lanes(tm.float32)
    f = tm.Function("moments", params=[R, C], assume="C >= 1")
    a = f.input("a", tm.float32, [R, C])
    one, zero = tm.cast(tm.float32, 1), tm.cast(tm.float32, 0)
    spread = f.reduction("spread", {r: R}, {c: C}, WELFORD, (one, a[r, c], zero))
    top = f.reduction("top", {r: R}, {c: C}, tm.argmax, a[r, c])
    f.outputs(spread, top)
    for each in (spread, top):
        each.update.split(r, lanes, r0, r1).reorder(r0, c, r1)
        each.update.parallelize(r0).vectorize(r1, lanes, remainder="mask")
    return f


def main() -> None:
    """Compare with NumPy, with ties and values that are no numbers."""
    f = scheduled()
    print(f.check())
    kernel = f.compile(threads=2)
    for rows, columns in ((0, 1), (1, 1), (15, 31), (17, 33), (33, 1025)):
        a = np.random.default_rng(rows).integers(0, 9, (rows, columns)).astype(np.float32)
        _, mean, squares, value, index = kernel(a)
        np.testing.assert_allclose(mean, a.mean(1, dtype=np.float64), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(squares / columns, a.var(1, dtype=np.float64), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(index, a.argmax(1))
        np.testing.assert_array_equal(value, a.max(1))
        if rows:
            a[0, -1] = np.nan
            assert kernel(a)[-1][0] == a[0].argmax()
    print("right: moments are those of NumPy, and the first of the largest values, or of what is no number")


if __name__ == "__main__":
    main()
