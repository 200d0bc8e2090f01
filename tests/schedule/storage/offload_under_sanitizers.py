"""Run by test_offload in a process of its own: files of a gradient, compiled with sanitizers."""

from __future__ import annotations

import sys

import numpy as np

import tiramisu_py as tm
from tests.sanitizers import sanitized_process
from tests.schedule.storage.test_offload import given, rod, t


def main(folder: str) -> None:
    kept, f = rod(), rod()
    f["u"].offload(t)
    right = kept.compile()
    sanitize = ("address", "undefined")
    kernels = [f.compile(storage=folder, sanitize=sanitize), f.compile(storage="simulator", seed=1, sanitize=sanitize)]
    for kernel in kernels:
        for steps, n in ((1, 4), (9, 700), (6, 5000)):
            arrays = given(n)
            for one, other in zip(kernel(**arrays, T=steps), right(**arrays, T=steps), strict=True):
                np.testing.assert_array_equal(one, other)
    for number in (1, 7, 12):
        failing = f.compile(storage=tm.SimulatedDisk(fails=number), sanitize=sanitize)
        try:
            failing(**given(40), T=9)
        except tm.KernelError:
            continue
        raise SystemExit("a copy that fails is not told")
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main(sys.argv[1])
