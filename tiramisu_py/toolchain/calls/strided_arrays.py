"""Arrays whose elements are not contiguous: whether elements share memory, within an array and between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


def has_distinct_elements(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements share memory, where one step along each dimension leads beyond all steps along those
    with smaller strides. Other arrays are taken to have such elements.
    """
    reached = 0
    for stride, extent in sorted((abs(stride), extent) for stride, extent in zip(strides, shape, strict=True)):
        if extent > 1 and stride <= reached:
            return 0 in shape
        reached += (extent - 1) * stride if extent > 1 else 0
    return True


def are_interleaved(first: Array, second: Array, from_first: int, from_second: int) -> bool:
    """Whether two arrays, whose lowest elements are at these addresses, share no memory since they take different
    bytes of each `step` bytes: different columns of one matrix, or its even and odd rows.
    """
    for step in {abs(stride) for each in (first, second) for stride in _strides(each)} - {0}:
        one, other = _taken(first, step), _taken(second, step)
        offset = (from_second - from_first) % step
        if one <= offset and offset + other <= step:
            return True
    return False


def _strides(array: Array) -> list[int]:
    """The distances of neighbours that there are."""
    return [stride for extent, stride in zip(array.shape, array.strides, strict=True) if extent > 1]


def _taken(array: Array, step: int) -> int:
    """How many of each `step` bytes an array takes, from its lowest element on."""
    pairs = zip(array.shape, array.strides, strict=True)
    taken: int = array.itemsize + sum((extent - 1) * abs(stride) for extent, stride in pairs if stride % step)
    return taken
