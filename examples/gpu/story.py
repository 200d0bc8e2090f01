"""The common steps of the stories in this folder: prove, compile, run on a GPU or the simulator, compare."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import tiramisu_py as tm

Arguments = dict[str, "np.ndarray | int"]


def tell(
    variants: Mapping[str, Callable[[], tm.Function]], sample: Callable[[int, int], Arguments], sizes: Sequence[int]
) -> None:
    """Check each variant of a program, and compare its results with `evaluate()` on samples of some sizes."""
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="gpu" if tm.gpu_count() else "simulator", help="gpu, gpu:1 or simulator")
    device = options.parse_args().device
    for name, build in variants.items():
        f = build()
        print(name, f.check(), sep=": ")
        kernel = f.compile(device=device)
        for size in sizes:
            given = sample(size, 0)
            np.testing.assert_array_equal(kernel(**given), f.evaluate(**given))
    print(f"right: {len(variants)} schedules on the {device}, bit for bit")
