"""Masked loads and stores of vectors: only the first lanes are active."""

from __future__ import annotations

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.memory import Array, Element


def read(array: Array, indices: Element, active: int, where: str) -> Value:
    """The element, or one for each lane: 0 in inactive lanes."""
    lanes = _lanes(array, indices)
    if lanes == 1:
        return array.read(indices, where)
    found = np.zeros(lanes, dtype=array.data.dtype)
    if active > 0:
        found[:active] = array.read(_first(array, indices, active), where)
    return found


def write(array: Array, indices: Element, value: Value, active: int, where: str) -> None:
    """Store a value in the active lanes."""
    lanes = _lanes(array, indices)
    if lanes == 1 and _rank(array, indices):
        array.write(indices, value, where)
    elif active > 0:
        values = np.broadcast_to(value, (lanes,))
        array.write(_first(array, indices, active), values[:active], where)


def _rank(array: Array, indices: Element) -> bool:
    """Whether the indices name elements rather than whole vectors."""
    return len(indices) == array.data.ndim


def _lanes(array: Array, indices: Element) -> int:
    if not _rank(array, indices):
        return int(array.data.shape[-1])
    return max((np.size(index) for index in indices if np.ndim(index) > 0), default=1)


def _first(array: Array, indices: Element, active: int) -> Element:
    """The elements of the first lanes; of a whole vector, by a further index."""
    if not _rank(array, indices):
        return (*indices, np.arange(active))
    return tuple(index if np.ndim(index) == 0 else index[:active] for index in indices)
