"""The facts that the user declared of inputs, looked at before the compiled code relies on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.algorithm.sizes import extent_value
from tiramisu_py.errors import ArgumentError

Array = npt.NDArray[Any]

_CHUNK = 1 << 18
_ADVICE = "pass values for which it holds, or compile without the declaration"


def verify_facts(declared: Input, array: Array, params: Mapping[str, int]) -> None:
    """Raises `ArgumentError`, naming input, element and value, where a declared fact does not hold."""
    if array.size == 0:
        return
    if declared.dtype.is_bool:
        _verify_bool(declared, array)
    if declared.values is not None:
        _verify_values(declared, declared.values, array, params)
    if declared.monotone:
        _verify_monotone(declared, array)
    if declared.permutation:
        _verify_permutation(declared, array)


def _verify_bool(declared: Input, array: Array) -> None:
    found = _first(array.view(np.uint8), lambda part: part > 1)
    if found is not None:
        byte = int(array.view(np.uint8)[found])
        raise ArgumentError(f"{_element(declared, found)} holds the byte {byte}, which is neither False nor True")


def _verify_values(declared: Input, values: tuple[Expr, Expr], array: Array, params: Mapping[str, int]) -> None:
    low, high = (_bound(bound, params) for bound in values)
    smallest, largest = array.min().item(), array.max().item()
    if low <= smallest and largest < high:  # false for NaN, too
        return
    found = _first(array, lambda part: ~_within(part, low, high))
    if found is not None:
        fact = f"{values[0]} <= {declared.name} < {values[1]}"
        sizes = f" ({', '.join(f'{k} = {v}' for k, v in params.items())})" if params else ""
        raise ArgumentError(
            f"{_element(declared, found)} = {array[found]} breaks the declared fact {fact}{sizes}; {_ADVICE}"
        )


def _within(part: Array, low: float, high: float) -> npt.NDArray[np.bool_]:
    if part.dtype.kind in "iu":  # bounds may be beyond the type
        limits = np.iinfo(part.dtype)
        none = np.zeros(part.shape, dtype=np.bool_)
        above = part >= low if limits.min <= low <= limits.max else none | (low < limits.min)
        below = part < high if limits.min <= high <= limits.max else none | (high > limits.max)
        return np.asarray(above & below)
    return np.asarray((part >= low) & (part < high))


def _verify_monotone(declared: Input, array: Array) -> None:
    if array.ndim == 0 or array.shape[-1] < 2:
        return
    rows = array.reshape(-1, array.shape[-1])
    for row in range(rows.shape[0]):
        found = _first_descent(rows[row])
        if found is not None:
            at = (*(int(i) for i in np.unravel_index(row, array.shape[:-1])), found + 1)
            raise ArgumentError(
                f"{_element(declared, at)} = {rows[row, found + 1]} is less than the element before it, "
                f"{rows[row, found]}, but {declared.name} is declared monotone; {_ADVICE}"
            )


def _first_descent(row: Array) -> int | None:
    """The first position whose successor is not at least as large."""
    for start in range(0, row.size - 1, _CHUNK):
        part = row[start : start + _CHUNK + 1]
        falls = ~(part[1:] >= part[:-1])
        if falls.any():
            return start + int(falls.argmax())
    return None


def _verify_permutation(declared: Input, array: Array) -> None:
    """Each row along the last dimension holds every index of that dimension once."""
    length = array.shape[-1] if array.ndim else 1
    rows = array.reshape(-1, length)
    for row in range(rows.shape[0]):
        found = _first_misplaced(rows[row], length)
        if found is not None:
            at = (*(int(i) for i in np.unravel_index(row, array.shape[:-1])), found)
            raise ArgumentError(
                f"{_element(declared, at)} = {rows[row, found]} is a repetition or not within 0 to {length - 1}, "
                f"but {declared.name} is declared a permutation; {_ADVICE}"
            )


def _first_misplaced(row: Array, length: int) -> int | None:
    outside = _first(row, lambda part: ~_within(part, 0, length))
    if outside is not None:
        return outside[0]
    seen = np.zeros(length, dtype=np.bool_)
    seen[row] = True
    if seen.all():
        return None
    firsts = np.unique(row, return_index=True)[1]
    return int(np.setdiff1d(np.arange(length), firsts)[0])


def _first(array: Array, broken: Callable[[Array], npt.NDArray[np.bool_]]) -> tuple[int, ...] | None:
    """The index of the first element for which `broken` holds, looked for in parts that fit a cache."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        wrong = broken(flat[start : start + _CHUNK])
        if wrong.any():
            return tuple(int(i) for i in np.unravel_index(start + int(wrong.argmax()), array.shape))
    return None


def _bound(bound: Expr, params: Mapping[str, int]) -> int | float:
    return bound.value if isinstance(bound, Const) else extent_value(bound, params)


def _element(declared: Input, index: tuple[int, ...]) -> str:
    return f"{declared.name}[{', '.join(map(str, index))}]" if index else declared.name
