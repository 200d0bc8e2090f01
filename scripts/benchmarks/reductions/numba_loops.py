"""Loops for numba: sums of terms of one or two arrays of values x terms x values, with reassociation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def made(
    numba: Any, formula: Callable[..., Any], arrays: int, along_terms: bool, one_value: bool
) -> Callable[..., None]:
    """The loops of a formula, which get two arrays, perhaps the same; terms innermost where they are contiguous."""
    compiled = numba.njit(fastmath=True)(formula)
    of_one = numba.njit(fastmath=True)(lambda x, y: compiled(0, x)[0])
    of_two = numba.njit(fastmath=True)(lambda x, y: compiled(0, x, y)[0])
    term = of_one if arrays == 1 else of_two

    def rows(x: Any, y: Any, out: Any) -> None:
        for a in numba.prange(x.shape[0]):
            total = np.float32(0)
            for k in range(x.shape[1]):
                total += term(x[a, k, 0], y[a, k, 0])
            out[a, 0] = total

    def columns(x: Any, y: Any, out: Any) -> None:
        for a in numba.prange(x.shape[0]):
            out[a, :] = 0
            for k in range(x.shape[1]):
                for b in range(x.shape[2]):
                    out[a, b] += term(x[a, k, b], y[a, k, b])

    def whole(x: Any, y: Any, out: Any) -> None:
        total = np.float32(0)
        for k in numba.prange(x.shape[1]):
            total += term(x[0, k, 0], y[0, k, 0])
        out[0, 0] = total

    loops = numba.njit(parallel=True, fastmath=True)
    if not along_terms:
        return loops(columns)  # type: ignore[no-any-return]
    return loops(whole if one_value else rows)  # type: ignore[no-any-return]
