"""Run by test_guarded_ranges in a process of its own: values outside a table that are guarded, with sanitizers."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.algorithm.domains.ranges.test_guarded_ranges import BYTES, EXTENT, INSIDE, columns, i, picked
from tests.sanitizers import sanitized_process

SANITIZERS = ("address", "undefined")


def main() -> None:
    """Compile and run, and print "clean"."""
    table = np.arange(EXTENT)
    for name in INSIDE:
        f = picked(INSIDE[name])
        f["o"].update.vectorize(i, 8, combine=tm.PRIVATE)
        assert f.compile(sanitize=SANITIZERS)(BYTES, table) == f.evaluate(x=BYTES, table=table)
    f = columns()
    x = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, (11, 13)).astype(np.int32)
    x[::2] %= EXTENT
    floats = np.arange(EXTENT, dtype=np.float32)
    np.testing.assert_array_equal(f.compile(sanitize=SANITIZERS)(x, floats), f.evaluate(x=x, table=floats))


if __name__ == "__main__":
    sanitized_process()
    main()
    print("clean")
