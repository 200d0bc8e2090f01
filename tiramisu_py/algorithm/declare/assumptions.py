"""Declared facts about an input's values, checked on the array that the caller passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.errors import ArgumentError

Array = npt.NDArray[Any]

#: The elements that are compared with their neighbours at a time.
_BLOCK = 1 << 16
#: The values for each element up to which a mark for each value takes less time than a sort.
_MARKED = 64


def verify_facts(declared: Input, array: Array, params: Mapping[str, int]) -> None:
    """Raise `ArgumentError`, naming the element, if a declared fact does not hold for an array (or a scalar)."""
    if array.size == 0 or _holds(declared, array, params):
        return
    if declared.values is not None:
        _verify_range(declared, array, params)
    if declared.monotone:
        _verify_monotone(declared, array)
    if declared.permutation:
        _verify_permutation(declared, array)
    if declared.injective:
        _verify_distinct(declared, array)
    if declared.covers is not None:
        _verify_cover(declared, array, params)


# -- the usual case: nothing is wrong


def _holds(declared: Input, array: Array, params: Mapping[str, int]) -> bool:
    """Whether all facts hold, in as few passes over the array as may be, and without temporary arrays of its size."""
    if declared.monotone and not _is_monotone(array):
        return False
    if declared.values is not None:
        low, high = (extent_value(bound, params) for bound in declared.values)
        if declared.monotone and array.ndim:
            if array[..., 0].min().item() < low or array[..., -1].max().item() >= high:
                return False
        elif not _is_within(array, low, high):
            return False
    if declared.covers is not None and (array[0] != 0 or array[-1] != extent_value(declared.covers, params)):
        return False
    if declared.permutation and not _is_permutation(array):
        return False
    return not declared.injective or _is_injective(declared, array, params)


def _is_within(array: Array, low: int, high: int) -> bool:
    """Whether all elements are at least `low` and less than `high`."""
    if low == 0 and array.dtype.kind == "i":
        # one pass: a negative number is a large one without a sign
        unsigned = array.view(f"u{array.itemsize}")
        return bool(unsigned.max().item() < min(high, 1 << (8 * array.itemsize - 1)))
    return bool(low <= array.min().item() and array.max().item() < high)


def _is_monotone(array: Array) -> bool:
    """Whether no element is less than the one before it in its row: in blocks, which stay in a cache."""
    if array.ndim != 1:
        return not (array[..., 1:] < array[..., :-1]).any()
    falls = np.empty(min(array.size, _BLOCK), dtype=np.bool_)
    for begin in range(1, array.size, _BLOCK):
        later = array[begin : begin + _BLOCK]
        if np.less(later, array[begin - 1 : begin - 1 + later.size], out=falls[: later.size]).any():
            return False
    return True


def _is_permutation(array: Array) -> bool:
    flat = array.reshape(-1)
    if not _is_within(flat, 0, flat.size):
        return False
    seen = np.zeros(flat.size, dtype=np.bool_)
    seen[flat] = True
    return bool(seen.all())


def _is_injective(declared: Input, array: Array, params: Mapping[str, int]) -> bool:
    """Whether no two elements are equal: by marks for each value of a small declared range, or else in order."""
    if declared.permutation:
        return True
    flat = array.reshape(-1)
    if declared.values is not None:
        low, high = (extent_value(bound, params) for bound in declared.values)
        if high - low < flat.size:
            return False
        if high - low <= _MARKED * flat.size:
            seen = np.zeros(high - low, dtype=np.bool_)
            seen[flat - low if low > 0 else flat if low == 0 else flat.astype(np.int64) - low] = True
            return int(np.count_nonzero(seen)) == flat.size
    in_order = np.sort(flat)
    return not bool((in_order[1:] == in_order[:-1]).any())


# -- the first element that is wrong


def _verify_range(declared: Input, array: Array, params: Mapping[str, int]) -> None:
    assert declared.values is not None
    low, high = (extent_value(bound, params) for bound in declared.values)
    _refuse(
        declared, array, (array < low) | (array >= high),
        f"but its values are declared to be at least {low} and less than {high}",
    )  # fmt: skip


def _verify_monotone(declared: Input, array: Array) -> None:
    falls = np.zeros(array.shape, dtype=np.bool_)
    falls[..., 1:] = array[..., 1:] < array[..., :-1]
    what = "it is declared to be monotone"
    if declared.covers is not None:
        what = "no run ends before it begins: give 0 and the sums of their lengths, in order"
    _refuse(declared, array, falls, f"which is less than the element before it, but {what}")


def _verify_permutation(declared: Input, array: Array) -> None:
    flat = array.reshape(-1)
    outside = (array < 0) | (array >= flat.size)
    _refuse(declared, array, outside, f"but it is declared to be a permutation of 0 to {flat.size - 1}")
    what, about = "it is declared to be a permutation", declared.inverts
    if about is not None:
        what = f"{about.name} has each position once: it is not the inverse of {about.of}, tm.inverse({about.of}, ..)"
    _refuse(declared, array, _repeated(array), f"which occurs before, but {what}")


def _verify_distinct(declared: Input, array: Array) -> None:
    _refuse(declared, array, _repeated(array), "which occurs before, but its elements are declared to be distinct")


def _repeated(array: Array) -> npt.NDArray[np.bool_]:
    """The elements that are equal to an earlier one."""
    found = np.ones(array.size, dtype=np.bool_)
    found[np.unique(array, return_index=True)[1]] = False
    return found.reshape(array.shape)


def _verify_cover(declared: Input, array: Array, params: Mapping[str, int]) -> None:
    assert declared.covers is not None
    for index, wanted in ((0, 0), (array.size - 1, extent_value(declared.covers, params))):
        wrong = np.zeros(array.shape, dtype=np.bool_)
        wrong[index] = array[index] != wanted
        end = "the first run begins at 0" if index == 0 else f"the last run ends at {declared.covers} = {wanted}"
        _refuse(declared, array, wrong, f"but {end}: each position is in one run")


def _refuse(declared: Input, array: Array, wrong: npt.NDArray[np.bool_], why: str) -> None:
    if not wrong.any():
        return
    first = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(wrong)))
    element = declared.name if array.ndim == 0 else f"{declared.name}[{', '.join(map(str, first))}]"
    raise ArgumentError(f"{element} = {array[first] if array.ndim else array[()]}, {why}")
