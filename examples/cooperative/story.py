"""The common steps of the stories in this folder: prove, compile for cores and GPU, compare for many splits."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import tiramisu_py as tm

Arguments = dict[str, "np.ndarray | int"]


def tell(
    variants: Mapping[str, Callable[[], tm.Function]],
    sample: Callable[[float, int, int], Arguments],
    splits: Sequence[float],
    size: int,
) -> None:
    """Check each variant of a program, and compare it with `evaluate()` for some shares of the work on the GPU."""
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="gpu" if tm.gpu_count() else "simulator", help="gpu, gpu:1 or simulator")
    device = options.parse_args().device
    for name, build in variants.items():
        f = build()
        print(name, f.check(), sep=": ")
        kernel = f.compile(device=device)
        for split in splits:
            given = sample(split, size, 0)
            np.testing.assert_array_equal(kernel(**given), f.evaluate(**given))
            print(f"  equal to evaluate() with G = {given['G']}")
    schedules = "1 schedule" if len(variants) == 1 else f"{len(variants)} schedules"
    print(f"right: {schedules} on cores and the {device}, {len(splits)} splits each, bit for bit")
