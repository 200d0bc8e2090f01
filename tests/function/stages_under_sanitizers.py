"""Calls of C functions over whole arrays, compiled with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.function.test_stages import quotients
from tests.programs.stage_stories import K, M, N, i, j, k, n, product, products, sums, triangle, whole

SANITIZERS = ("address", "undefined")


def main() -> None:
    """Products of awkward sizes, padded, shifted and in place; then a triangle."""
    plain, padded, many, added = product(), product(), products(), sums()
    padded["a1"].store_in(tm.Buffer("wide", [M, K + 3], tm.float32), [i, k + 2])
    padded["c"].store_in(tm.Buffer("rows", [2 * M, N + 1], tm.float32), [2 * i, j])
    many["c"].parallelize(n)
    added["c"].store_in(added["y3"], [i, j])
    kernels = [f.compile(sanitize=SANITIZERS) for f in (plain, padded, many, added)]
    for rows, columns, terms in ((1, 1, 1), (3, 5, 4), (2, 3, 0), (17, 19, 23)):
        a, b, y = whole(rows, terms), whole(terms, columns, seed=1), whole(rows, columns, seed=2)
        for kernel in kernels[:2]:
            np.testing.assert_array_equal(kernel(a, b), 2 * ((a + 1) @ b))
        np.testing.assert_array_equal(kernels[2](np.stack([a, a]), np.stack([b, b]))[1], a @ b)
        np.testing.assert_array_equal(kernels[3](a, b, y), 3 * y + a @ b - 1)
    a, b = np.eye(7) * 4, np.ones(7)
    np.testing.assert_allclose(triangle().compile(sanitize=SANITIZERS)(a, b), np.linalg.solve(np.tril(a + 1), b))
    several = quotients(each=True)
    numbers = np.arange(2 * 5 * 7, dtype=np.int32).reshape(2, 5, 7)
    for one, other in zip(several.compile(sanitize=SANITIZERS)(numbers), several.evaluate(numbers), strict=True):
        np.testing.assert_array_equal(one, other)
    print("clean")


if __name__ == "__main__":
    main()
