"""What the stories of this folder share: where kernels run, and the comparison of bits."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

#: The first GPU, or the simulator where there is none.
DEVICE = "gpu" if tm.gpu_count() else "simulator"


def tell(f: tm.Function) -> tm.Kernel:
    """Print what is proven, and compile for cores, or for a GPU if the schedule has kernels."""
    print(f.check())
    return f.compile(device=DEVICE) if any(name.endswith(".cu") for name in f.source()) else f.compile(threads=2)


def as_scheduled(f: tm.Function, kernel: tm.Kernel, *given: Any, **named: Any) -> None:
    """Raise unless the kernel has the bits of the order that the schedule gives."""
    found, expected = kernel(*given, **named), f.evaluate(*given, as_scheduled=True, **named)
    for one, right in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, expected)), strict=True):
        np.testing.assert_array_equal(one, right)
