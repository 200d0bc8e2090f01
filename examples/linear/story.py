"""The common steps of the stories in this folder: prove, compile, compare with NumPy in float64, time.

Sums are rounded in the order of the schedule, and products are contracted into fused multiply-adds: a value may differ
from the exact one by the rounding error that any order of its terms can have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import tiramisu_py as tm

Array = np.ndarray[Any, Any]
Arguments = dict[str, Any]
FAST = ("contract",)


def tell(
    scheduled: Callable[[], tm.Function],
    sample: Callable[..., Arguments],
    exact: Callable[[Arguments], tuple[Array, Array]],
    sizes: Sequence[tuple[int, ...]],
    large: tuple[int, ...],
) -> None:
    """Compare a scheduled program with NumPy on small samples, with one and two threads; time it on a large one."""
    f = scheduled()
    print(f.check())
    for threads in (1, 2):
        kernel = f.compile(fast=FAST, threads=threads)
        for size in sizes:
            compare(kernel, sample(*size), exact)
        shown = " x ".join(map(str, large))
        print(f"{f.name}, {shown}, threads: {threads}: {least_time(f, kernel, sample(*large)) * 1e3:.2f} ms")
    print(f"right: {f.name} is as close to NumPy as rounding allows")


def compare(kernel: tm.Kernel, given: Arguments, exact: Callable[[Arguments], tuple[Array, Array]]) -> None:
    """Raise unless each value is within its error bound, for plain arrays, unaligned ones, NaN and infinities."""
    for each in (given, unaligned(given), *with_specials(given)):
        with np.errstate(invalid="ignore", over="ignore"):
            values, bound = exact(each)
        found: Any = kernel(**each)
        finite = np.isfinite(values)
        np.testing.assert_array_equal(found[~finite], values[~finite].astype(found.dtype))
        apart = np.abs(found[finite].astype(np.float64) - values[finite])
        assert (apart <= bound[finite]).all(), f"{apart.max():g} beyond {bound[finite].max():g}"


def unaligned(given: Arguments) -> Arguments:
    """The same values in arrays that begin one element after the start of a cache line."""
    return {name: shifted(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}


def shifted(values: Array) -> Array:
    """A copy that is aligned to its elements only."""
    room = np.empty(values.size + 2 * 64 // values.itemsize, values.dtype)
    first = (-room.ctypes.data % 64) // values.itemsize + 1
    copy = room[first : first + values.size].reshape(values.shape)
    copy[...] = values
    return copy


def with_specials(given: Arguments) -> Iterator[Arguments]:
    """The arguments with NaN, infinity and minus infinity in the last element of one array, for each array."""
    for name, value in given.items():
        if isinstance(value, np.ndarray) and value.size and value.dtype.kind == "f":
            for special in (np.nan, np.inf, -np.inf):
                changed = value.copy()
                changed[tuple(length - 1 for length in value.shape)] = special
                yield {**given, name: changed}


def error(terms: int, magnitudes: Array, dtype: Any) -> Array:
    """The largest rounding error of sums of `terms` products, given the sums of their magnitudes.

    It holds for any order and number of terms (C.-P. Jeannerod and S. M. Rump, 2013).
    """
    return (terms + 2) * float(np.finfo(dtype).eps) / 2 * magnitudes


def least_time(f: tm.Function, kernel: tm.Kernel, given: Arguments, calls: int = 5) -> float:
    """The time in seconds of the fastest of a few calls that write to the same array."""
    (name,) = f.algorithm.outputs
    out = {name: kernel(**given)}
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        kernel(**given, **out)
        seconds.append(time.perf_counter() - start)
    return min(seconds)
