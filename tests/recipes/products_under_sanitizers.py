"""Run by test_matmul in a process of its own: matrix products, compiled with sanitizers."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.recipes.test_matmul import NARROW, WIDE, given, plain
from tests.sanitizers import sanitized_process


def main() -> None:
    for cpu, dtype in ((WIDE, tm.float32), (NARROW, tm.float64)):
        f, C, expected = plain(dtype=dtype)
        tm.recipes.matmul(C, cpu=cpu)
        kernel = f.compile(threads=2, sanitize=("address", "undefined"))
        for size in ((1, 1, 0), (5, 15, 3), (6, 17, 1), (7, 33, 385), (11, 49, 2), (13, 63, 17), (145, 129, 3)):
            arrays = given(f, "ik", "kj", size)
            np.testing.assert_array_equal(kernel(**arrays), expected(**arrays))
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main()
