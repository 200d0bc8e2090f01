"""Run by test_keep in a process of its own: packing and what reads it, compiled with sanitizers."""

from __future__ import annotations

import numpy as np

from tests.sanitizers import sanitized_process
from tests.schedule.storage.test_keep import SIZES, jj, jo, jv, kk, numbers, padded, product


def main() -> None:
    s = product()
    s.panels.split(jj, 4, jo, jv)
    s.panels.reorder(jo, kk, jv)
    s.panels.vectorize(jv, 4, remainder="mask")
    for f, kind in ((s.f, np.int32), (padded().f, np.int8)):
        kernel = f.compile(sanitize=("address", "undefined"))
        for n, m, terms in SIZES:
            a, b = numbers(n, terms), numbers(terms, m, dtype=kind)
            np.testing.assert_array_equal(kernel(a, kernel.pack("B", b)), f.evaluate(a, b))
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main()
