"""Run by test_value_ranges in a process of its own: computed indices at the ends of their tables, with sanitizers."""

from __future__ import annotations

import numpy as np

from tests.algorithm.domains.ranges.test_value_ranges import CASES, chain, gathered, i, numbers
from tests.sanitizers import sanitized_process

SANITIZERS = ("address", "undefined")


def main() -> None:
    """Compile and run, and print "clean"."""
    for name in ("a sum of two", "a wide distance of a narrow number", "a shift by a value", "a float within bounds"):
        made, dtype, extent, values = CASES[name]
        for width in (None, 8):
            f = gathered(made, dtype, extent, values)
            if width is not None:
                f["o"].vectorize(i, width)
            x, table = numbers(dtype, 17, values), np.arange(extent)
            np.testing.assert_array_equal(
                f.compile(sanitize=SANITIZERS)(x=x, table=table), f.evaluate(x=x, table=table)
            )
    f, (_, _, twice, out) = chain(30)
    for each in (twice, out):
        each.vectorize(i, 8)
    x, table = np.arange(-9, 10, dtype=np.int32), np.arange(30)
    np.testing.assert_array_equal(f.compile(sanitize=SANITIZERS)(x=x, table=table), f.evaluate(x=x, table=table))


if __name__ == "__main__":
    sanitized_process()
    main()
    print("clean")
