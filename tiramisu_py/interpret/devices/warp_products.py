"""Products in tensor cores: what the threads of a warp have loaded, put together, and the sums of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.program.machine.tensor_instructions import WARP_SHAPE

#: The bits of a float32 that tf32 leaves out.
_LEFT_OUT = 13


def product_of_warp(threads: Sequence[tuple[Any, Any, Any]], instruction: str) -> list[list[Value]]:
    """The four sums of each thread, from ``(its sums, what it has loaded of the left factor, and of the right one)``.

    Each product is exact, and their sum is rounded once: a GPU rounds, in places of its own, more often.
    """
    x_count, y_count = WARP_SHAPE
    group = len(threads[0][1][0])
    terms = group * x_count * len(threads[0][2])
    left = np.zeros((2 * y_count, terms))
    right = np.zeros((terms, y_count))
    sums = np.zeros((2 * y_count, 2 * x_count))
    for number, (own, of_left, of_right) in enumerate(threads):
        y, x = divmod(number, x_count)
        for block in range(len(of_right)):
            at = slice(group * (x_count * block + x), group * (x_count * block + x + 1))
            right[at, y] = of_right[block]
            for h in range(2):
                left[y + y_count * h, at] = of_left[2 * block + h]
        for k, value in enumerate(own):
            sums[y + y_count * (k // 2), 2 * x + k % 2] = value
    if instruction.endswith("tf32"):
        left, right = _shortened(left), _shortened(right)
    with np.errstate(all="ignore"):
        total = (sums + left @ right).astype(np.float32)
    return [
        [total[y + y_count * (k // 2), 2 * x + k % 2] for k in range(4)] for y in range(y_count) for x in range(x_count)
    ]


def _shortened(values: np.ndarray) -> np.ndarray:
    """Numbers with 10 bits after the point: the others are left out."""
    bits = values.astype(np.float32).view(np.uint32)
    return (bits >> np.uint32(_LEFT_OUT) << np.uint32(_LEFT_OUT)).view(np.float32).astype(np.float64)
