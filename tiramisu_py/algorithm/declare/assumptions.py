"""Declared facts about an input's values, checked on the array that the caller passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.errors import ArgumentError


def verify_facts(declared: Input, array: npt.NDArray[Any], params: Mapping[str, int]) -> None:
    """Raise `ArgumentError`, naming the element, if a declared fact does not hold for an array (or a scalar)."""
    if array.size == 0:
        return
    if declared.values is not None:
        _verify_range(declared, array, params)
    if declared.monotone:
        _verify_monotone(declared, array)
    if declared.permutation:
        _verify_permutation(declared, array)


def _verify_range(declared: Input, array: npt.NDArray[Any], params: Mapping[str, int]) -> None:
    assert declared.values is not None
    low, high = (extent_value(bound, params) for bound in declared.values)
    if low <= array.min().item() and array.max().item() < high:  # without a temporary array
        return
    _refuse(
        declared, array, (array < low) | (array >= high),
        f"but its values are declared to be at least {low} and less than {high}",
    )  # fmt: skip


def _verify_monotone(declared: Input, array: npt.NDArray[Any]) -> None:
    falls = np.zeros(array.shape, dtype=np.bool_)
    falls[..., 1:] = array[..., 1:] < array[..., :-1]
    _refuse(declared, array, falls, "which is less than the element before it, but it is declared to be monotone")


def _verify_permutation(declared: Input, array: npt.NDArray[Any]) -> None:
    flat = array.reshape(-1)
    outside = (array < 0) | (array >= flat.size)
    _refuse(declared, array, outside, f"but it is declared to be a permutation of 0 to {flat.size - 1}")
    seen = np.zeros(flat.size, dtype=np.bool_)
    seen[flat] = True
    if seen.all():
        return
    repeated = np.ones(flat.size, dtype=np.bool_)
    repeated[np.unique(flat, return_index=True)[1]] = False
    _refuse(
        declared, array, repeated.reshape(array.shape),
        "which occurs before, but it is declared to be a permutation",
    )  # fmt: skip


def _refuse(declared: Input, array: npt.NDArray[Any], wrong: npt.NDArray[np.bool_], why: str) -> None:
    if not wrong.any():
        return
    first = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(wrong)))
    element = declared.name if array.ndim == 0 else f"{declared.name}[{', '.join(map(str, first))}]"
    raise ArgumentError(f"{element} = {array[first] if array.ndim else array[()]}, {why}")
