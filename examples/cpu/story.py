"""The common steps of the stories in this folder: prove, compile, compare with `evaluate()`, time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tiramisu_py as tm

Arguments = dict[str, "np.ndarray[Any, Any] | int | float"]
SIZES = ((1, 1), (3, 17), (37, 259))


def tell(scheduled: Callable[[], tm.Function], sample: Callable[[int, int], Arguments], large: tuple[int, int]) -> None:
    """Compare a scheduled program with its algorithm on small samples, bit for bit; time it on a large one."""
    f = scheduled()
    print(f.check())
    kernel = f.compile()
    for rows, columns in SIZES:
        given = sample(rows, columns)
        for found, expected in zip(several(kernel(**given)), several(f.evaluate(**given)), strict=True):
            np.testing.assert_array_equal(found, expected)
    print(f"{f.name}, {large[1]} x {large[0]}: {least_time(f, kernel, sample(*large)) * 1e3:.2f} ms")
    print(f"right: {f.name} computes what its algorithm says, bit for bit")


def several(results: Any) -> tuple[Any, ...]:
    """The results of a call as a tuple, whether one or several."""
    return results if isinstance(results, tuple) else (results,)


def least_time(f: tm.Function, kernel: tm.Kernel, given: Arguments, calls: int = 5) -> float:
    """The time in seconds of the fastest of a few calls that write to the same arrays."""
    outputs = dict(zip(f.algorithm.outputs, several(kernel(**given)), strict=True))
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        kernel(**given, **outputs)
        seconds.append(time.perf_counter() - start)
    return min(seconds)
