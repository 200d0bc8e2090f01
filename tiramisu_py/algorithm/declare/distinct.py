"""Distinct combinations of keys: the number of each position's combination, and the keys of each; given, and verified.

``of[p]`` is the number of the combination of keys that position p has, and ``columns[k][of[p]]`` is its key k. So what
depends on the keys of a position alone is a function of that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.declare.inverses import verify_inverse
from tiramisu_py.algorithm.declare.run_numbers import verify_numbers
from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct combinations of some keys: `of` has the number of each position's, `columns` the keys of each.

    They are in the order of the last key, and of the others, from last to first, where it is the same. Their number is
    ``len(pairs)``.
    """

    of: Array
    columns: tuple[Array, ...]
    _starts: dict[int, Array] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.columns[0].size)

    def starts(self, count: int) -> Array:
        """Where the combinations with each value of the last key begin, for values from 0 to `count`."""
        if count not in self._starts:
            last = self.columns[-1]
            made = np.searchsorted(last, np.arange(count + 1)).astype(last.dtype)
            self._starts[count] = np.frombuffer(made.tobytes(), made.dtype)  # nobody can change it
        return self._starts[count]


def distinct_of(keys: Sequence[npt.ArrayLike]) -> tuple[Array, tuple[Array, ...]]:
    """The number of each position's combination of keys, and the keys of each combination, by the last key.

    Raises `ArgumentError` for keys that are none.
    """
    if not keys:
        raise ArgumentError("distinct takes one key or more: tm.distinct(src, etype)")
    given = [np.asarray(key) for key in keys]
    for number, key in enumerate(given):
        if key.ndim != 1 or key.dtype.kind not in "iu":
            raise ArgumentError(
                f"key {number} is {key.dtype} of shape {key.shape}: keys are integers in one dimension, one a position"
            )
        if key.size != given[0].size:
            raise ArgumentError(f"key {number} has {key.size} positions, and key 0 has {given[0].size}")
    order = np.lexsort(given)
    by_key = [key[order] for key in given]
    new = np.ones(order.size, np.bool_)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in by_key])
    of = np.empty(order.size, np.int64 if order.size > np.iinfo(np.int32).max else np.int32)
    of[order] = np.cumsum(new) - 1
    return of, tuple(np.ascontiguousarray(key[new]) for key in by_key)


def arrays_of_distinct(
    inputs: Mapping[str, Input], given: Mapping[str, Any], beside: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Arguments by name, with distinct combinations as their arrays; raises `ArgumentError` for what is none.

    Keys may be among arguments that are given `beside` them.
    """
    declared = {each.distinct.name: each for each in inputs.values() if each.distinct is not None}
    found: dict[str, Any] = {}
    everything = {**(beside or {}), **given}
    for name, value in given.items():
        if name not in declared:
            found[name] = value
            continue
        about = declared[name].distinct
        assert about is not None
        if not isinstance(value, Distinct) or len(value.columns) != len(about.keys):
            raise ArgumentError(f"{name} is what tm.distinct({', '.join(about.keys)}) returns, of the keys of each")
        found[declared[name].name] = value.of
        for key, column, array in zip(about.keys, about.columns, value.columns, strict=True):
            if inputs[key].covers is None:
                found[column] = array
            elif key in everything and np.ndim(everything[key]) == 1 and len(everything[key]):
                found[column] = value.starts(len(everything[key]) - 1)
            else:
                raise ArgumentError(f"{key} says how many runs there are, and {name} needs that: pass {key}, an array")
    return found


def together_names(declared: Input) -> tuple[str, ...]:
    """The inputs that a fact about several arrays is about; none where there is no such fact."""
    if declared.inverts is not None:
        return declared.name, declared.inverts.start, declared.inverts.of
    if declared.distinct is not None:
        return declared.name, *declared.distinct.keys, *declared.distinct.columns
    return (declared.name, declared.run_of) if declared.run_of else ()


def verify_together(declared: Input, inputs: Mapping[str, Input], arrays: Mapping[str, Array]) -> None:
    """Raise `ArgumentError`, naming the element, where an array is not what it is declared to be beside others."""
    if declared.inverts is not None:
        verify_inverse(declared, arrays)
    if declared.run_of:
        verify_numbers(declared, arrays)
    about = declared.distinct
    if about is None:
        return
    of = arrays[declared.name]
    for key, column in zip(about.keys, about.columns, strict=True):
        if inputs[key].covers is None:
            wrong = np.flatnonzero(arrays[column][of] != arrays[key])
        else:
            rows = np.repeat(np.arange(arrays[key].size - 1), np.diff(arrays[key]))
            wrong = np.flatnonzero((of < arrays[column][rows]) | (of >= arrays[column][rows + 1]))
        if wrong.size:
            at = int(wrong[0])
            keys = ", ".join(about.keys)
            raise ArgumentError(
                f"{declared.name}[{at}] = {of[at]} is a combination with another {key} than position {at} has: "
                f"{about.name} is not that of {keys}, tm.distinct({keys}, ..)"
            )
