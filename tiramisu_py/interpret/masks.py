"""Loads and stores of vectors of which the first lanes alone are active."""

from __future__ import annotations

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.faults import InterpretError
from tiramisu_py.interpret.memory import Array, Element


def read(array: Array, indices: Element, active: int, padded: bool, where: str) -> Value:
    """The element, or one for each lane: 0 in those that are not active, or of padded ones whatever is there."""
    lanes = _lanes(array, indices)
    if lanes == 1:
        return array.read(indices, where)
    first = _first(array, indices, active)
    found = np.zeros(lanes, dtype=array.data.dtype)
    if padded:
        found[...] = array.data[array.inside(indices, where)]
    if active > 0:
        found[:active] = array.read(first, where)
    return found


def write(array: Array, indices: Element, value: Value, active: int, padded: bool, where: str) -> None:
    """Store a value in the lanes that are active; padded ones may touch only elements that hold nothing."""
    lanes = _lanes(array, indices)
    if lanes == 1 and _rank(array, indices):
        array.write(indices, value, where)
        return
    values = np.broadcast_to(value, (lanes,))
    if padded and active < lanes:
        beyond = tuple(index if np.ndim(index) == 0 else index[active:] for index in array.inside(indices, where))
        if _rank(array, indices) and np.any(array.written[beyond]):
            raise InterpretError(f"{where} writes {array.name} in lanes beyond the last, where something is kept")
    if active > 0:
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
