"""Inverses of indices: the positions at which an index has each value, in their order; given, and verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.errors import ArgumentError

Array = npt.NDArray[Any]


class Inverse(NamedTuple):
    """The positions at which an index has a value n: ``order[start[n]]`` up to ``order[start[n + 1] - 1]``."""

    start: Array
    order: Array


def inverse_of(index: npt.ArrayLike, count: int) -> tuple[Array, Array]:
    """Where the run of each value of an index begins, and the positions by value: a stable sort by counting.

    Raises `ArgumentError` for an index that is none.
    """
    given = np.asarray(index)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ArgumentError(f"an inverse is of integers in one dimension, not of {given.dtype} of shape {given.shape}")
    wrong = np.flatnonzero((given < 0) | (given >= count))
    if wrong.size:
        at = int(wrong[0])
        raise ArgumentError(f"the index is {given[at]} at {at}, which is not at least 0 and less than {count}")
    start = np.zeros(count + 1, given.dtype if given.dtype.itemsize >= 4 else np.int32)
    np.cumsum(np.bincount(given, minlength=count), out=start[1:])
    return start, np.argsort(given, kind="stable").astype(start.dtype)


def in_parts(inputs: Mapping[str, Input], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, with inverses as their two arrays; raises `ArgumentError` for what is no pair of them."""
    pairs = {each.inverts.name: (each.inverts.start, each.name) for each in inputs.values() if each.inverts is not None}
    if not pairs.keys() & given.keys():
        return {**given}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in pairs:
            found[name] = value
            continue
        if not isinstance(value, tuple) or len(value) != 2:
            raise ArgumentError(f"{name} is a pair, where runs begin and the order of positions: pass tm.inverse(..)")
        found |= dict(zip(pairs[name], value, strict=True))
    return found


def verify_inverse(declared: Input, arrays: Mapping[str, Array]) -> None:
    """Raise `ArgumentError`, naming the element, where an array is not the inverse that it is declared to be."""
    about = declared.inverts
    assert about is not None
    order, start, index = arrays[declared.name], arrays[about.start], arrays[about.of]
    rows = np.repeat(np.arange(start.size - 1, dtype=index.dtype), np.diff(start))
    if rows.size == order.size and np.array_equal(index[order], rows):
        falls = (np.diff(order) <= 0) & (rows[1:] == rows[:-1])
        if not falls.any():
            return
        at = int(np.flatnonzero(falls)[0]) + 1
        raise ArgumentError(
            f"{declared.name}[{at}] = {order[at]} comes after {order[at - 1]} in the run {rows[at]} of {about.name}: "
            f"the positions of a run are in their order, as in tm.inverse({about.of}, ..)"
        )
    if rows.size != order.size:
        raise ArgumentError(f"{about.start} ends at {start[-1]}, and {declared.name} has {order.size} positions")
    at = int(np.flatnonzero(index[order] != rows)[0])
    raise ArgumentError(
        f"{declared.name}[{at}] = {order[at]} is in the run {rows[at]} of {about.name}, but {about.of}[{order[at]}] = "
        f"{index[order[at]]}: {about.name} is not the inverse of {about.of}, tm.inverse({about.of}, ..)"
    )
