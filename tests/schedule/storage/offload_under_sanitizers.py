"""Run by test_offload in a process of its own: files of a recurrence, compiled with sanitizers."""

from __future__ import annotations

import sys

import numpy as np

import tiramisu_py as tm
from tests.sanitizers import sanitized_process
from tests.schedule.storage.test_offload import NUMBERS, backwards, t


def main(folder: str) -> None:
    f = backwards(late=1)
    f["u"].offload(t)
    sanitize = ("address", "undefined")
    for storage in (folder, "simulator"):
        kernel = f.compile(storage=storage, sanitize=sanitize, **({"seed": 1} if storage == "simulator" else {}))
        for shape in ((3, 1), (9, 700), (6, 5000)):
            a = NUMBERS.random(shape)
            np.testing.assert_array_equal(kernel(a), f.evaluate(a))
    for number in (1, 7, 12):
        failing = f.compile(storage=tm.SimulatedDisk(fails=number), sanitize=sanitize)
        try:
            failing(NUMBERS.random((9, 5)))
        except tm.KernelError:
            continue
        raise SystemExit("a copy that fails is not told")
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main(sys.argv[1])
