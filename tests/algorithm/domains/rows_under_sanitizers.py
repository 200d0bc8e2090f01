"""Run by test_linearised in a process of its own: rows at the ends of an array of one dimension, with sanitizers."""

from __future__ import annotations

import numpy as np

from tests.algorithm.domains.test_linearised import INSIDE, KEPT, SIZES, elements, i, j, reading, stored
from tests.sanitizers import sanitized_process

SANITIZERS = ("address", "undefined")


def main() -> None:
    """Compile and run, and print "clean"."""
    for name in (
        "a row from its end",
        "from the last element",
        "a frame with a filter",
        "every second",
        "channels last",
    ):
        shape, extents, index = INSIDE[name]
        f = reading(shape, extents, index)
        f["y"].vectorize(j, 4, remainder="mask")
        kernel = f.compile(sanitize=SANITIZERS)
        for sizes in SIZES:
            given, x = dict(zip("NMK", sizes, strict=True)), elements(shape, sizes)
            np.testing.assert_array_equal(kernel(x=x, **given), f.evaluate(x=x, **given))
    for shape, index, wanted in KEPT.values():
        f = stored(index, shape=shape)
        f["y"].vectorize(j, 4)
        f["y"].parallelize(i)
        x = np.arange(7 * 13, dtype=np.int32).reshape(7, 13)
        np.testing.assert_array_equal(f.compile(sanitize=SANITIZERS)(x), wanted(x + 1))


if __name__ == "__main__":
    sanitized_process()
    main()
    print("clean")
