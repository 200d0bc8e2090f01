"""Arguments of a run at given sizes: given arrays, cut to size, and random ones of the declared shapes and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declarations import Algorithm, Input
from tiramisu_py.algorithm.declare.inverses import inverse_of
from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value, shape_value
from tiramisu_py.errors import ArgumentError

Array = npt.NDArray[Any]

#: Random integers without a declared range are below this, so that products of a few of them fit.
SMALL = 100


def arguments(algorithm: Algorithm, given: Mapping[str, Any], params: Mapping[str, int], seed: int) -> dict[str, Any]:
    """The inputs at given parameter values; given arrays are cut to size. Raises `ArgumentError`."""
    unknown = [name for name in given if name not in algorithm.inputs]
    if unknown:
        raise ArgumentError(
            f"inputs has {unknown[0]!r}, which is no input of {algorithm.name}: {', '.join(algorithm.inputs) or 'none'}"
        )
    random = np.random.default_rng(seed)
    drawn = {
        name: _cut(declared, given[name], params) if name in given else _random(declared, params, random)
        for name, declared in algorithm.inputs.items()
    }
    for declared in algorithm.inputs.values():
        if declared.distinct is not None and not {declared.name, *declared.distinct.keys} & given.keys():
            _draw_keys(algorithm, declared, drawn)
    for declared in algorithm.inputs.values():
        if declared.inverts is not None and declared.name not in given:
            start, order = inverse_of(drawn[declared.inverts.of], drawn[declared.inverts.start].size - 1)
            kind = declared.dtype.numpy
            drawn |= {declared.inverts.start: start.astype(kind), declared.name: order.astype(kind)}
    return drawn


def _draw_keys(algorithm: Algorithm, of: Input, drawn: dict[str, Any]) -> None:
    """Let the keys of positions be those of the combinations that they are declared to have."""
    about, number = of.distinct, drawn[of.name]
    assert about is not None
    runs = [key for key in about.keys if algorithm.inputs[key].covers is not None]
    drawn[of.name] = number = np.sort(number) if runs else number  # in the order of their runs
    for key, column in zip(about.keys, about.columns, strict=True):
        if key not in runs:
            drawn[key] = drawn[column][number].astype(drawn[key].dtype)
        else:
            row = np.searchsorted(drawn[column], number, side="right") - 1
            drawn[key] = np.searchsorted(row, np.arange(drawn[key].size)).astype(drawn[key].dtype)


def _cut(declared: Input, given: Any, params: Mapping[str, int]) -> Any:
    if declared.scalar:
        return given
    shape, array = shape_value(declared.passed_shape, params), np.asarray(given)
    if array.ndim != len(shape) or any(has < needs for has, needs in zip(array.shape, shape, strict=False)):
        raise ArgumentError(
            f"inputs has {declared.name} of shape {array.shape}; a run at these sizes needs at least {shape}"
        )
    return np.asarray(array[tuple(slice(0, extent) for extent in shape)], order="C")


def _random(declared: Input, params: Mapping[str, int], random: np.random.Generator) -> Any:
    shape = shape_value(declared.passed_shape, params)
    kind = declared.dtype.numpy
    if declared.permutation:
        return random.permutation(int(np.prod(shape, dtype=np.int64))).astype(kind).reshape(shape)
    low, high = _bounds(declared, params)
    if low >= high and (declared.scalar or 0 not in shape):
        raise ArgumentError(
            f"the values of {declared.name} are declared to be at least {low} and less than {high}: no value is, at "
            "these sizes; choose others (small= of tune and balance), or give inputs="
        )
    if 0 in shape:
        return np.zeros(shape, kind)
    if declared.injective:
        return _apart(declared, random, low, high, shape)
    drawn = low + (high - low) * random.random(shape) if declared.dtype.is_float else random.integers(low, high, shape)
    typed = np.asarray(drawn).astype(kind)
    if declared.scalar:
        return typed[()]
    if declared.covers is not None:
        typed[0], typed[-1] = 0, extent_value(declared.covers, params)
    return np.sort(typed, axis=-1) if declared.monotone else typed


def _apart(declared: Input, random: np.random.Generator, low: int, high: int, shape: tuple[int, ...]) -> Any:
    """Numbers of a range, no two of them equal; raises `ArgumentError` where it has too few."""
    count = int(np.prod(shape, dtype=np.int64))
    if declared.values is None:
        high = max(high, min(low + count, declared.dtype.limits[1] + 1))
    if high - low < count:
        raise ArgumentError(
            f"{declared.name} has {count} elements at these sizes, which are declared to be distinct, and at least "
            f"{low} and less than {high}: choose other sizes (small= of tune and balance), or give inputs="
        )
    found = (low + random.choice(high - low, count, replace=False)).astype(declared.dtype.numpy).reshape(shape)
    return np.sort(found, axis=-1) if declared.monotone else found


def _bounds(declared: Input, params: Mapping[str, int]) -> tuple[int, int]:
    if declared.values is not None:
        low, high = (extent_value(bound, params) for bound in declared.values)
        return low, high
    if declared.dtype.is_bool:
        return 0, 2
    return 0, 1 if declared.dtype.is_float else SMALL
