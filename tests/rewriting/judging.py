"""Judges of derivatives that know no rule of them: differences of `evaluate()`, and the two modes."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

Given = dict[str, Any]


def listed(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


def floats_of(f: tm.Function) -> list[int]:
    """The numbers of the arrays of floating-point values among those that a function returns, without places."""
    return [k for k, name in enumerate(f.algorithm.output_arrays) if not name.endswith("_index") and _is_float(f, name)]


def _is_float(f: tm.Function, array: str) -> bool:
    for name in f.algorithm.outputs:
        dtype = f.algorithm.computations[name].dtype
        fields = getattr(dtype, "fields", None)
        own = {f"{name}_{part}": each for part, each in fields} if fields else {name: dtype}
        if array in own:
            return bool(own[array].is_float)
    raise KeyError(array)


def directions(f: tm.Function, given: Given, numbers: np.random.Generator, exact: bool) -> Given:
    """A direction for each floating-point input."""
    found: Given = {}
    for name, declared in f.algorithm.inputs.items():
        if declared.dtype.is_float:
            shape = np.shape(given[name])
            made = numbers.integers(-2, 3, shape) if exact else numbers.uniform(-1, 1, shape)
            found[name] = float(made) if declared.scalar else np.asarray(made, declared.dtype.numpy)
    return found


def pairing(a: Any, b: Any) -> float:
    return float(np.asarray(a, np.float64).ravel() @ np.asarray(b, np.float64).ravel())


def tangents(f: tm.Function, given: Given, direction: Given) -> list[np.ndarray[Any, Any]]:
    """The tangents of the floating-point outputs by forward mode."""
    return forwards(tm.jvp(f), f, given, direction)


def forwards(made: tm.Function, f: tm.Function, given: Given, direction: Given) -> list[np.ndarray[Any, Any]]:
    named = {f"t_{name}": each for name, each in direction.items()}
    return listed(made.evaluate(**given, **named))[len(f.algorithm.output_arrays) :]


def differences(f: tm.Function, given: Given, direction: Given, h: float = 1e-6) -> list[np.ndarray[Any, Any]]:
    """The tangents of the floating-point outputs by central differences."""
    ends = []
    for sign in (1, -1):
        moved = {name: given[name] + sign * h * each for name, each in direction.items()}
        found = listed(f.evaluate(**{**given, **moved}))
        ends.append([found[k] for k in floats_of(f)])
    with np.errstate(invalid="ignore"):  # of infinities
        return [(a - b) / (2 * h) for a, b in zip(*ends, strict=True)]


def weights(f: tm.Function, given: Given, numbers: np.random.Generator, exact: bool) -> list[np.ndarray[Any, Any]]:
    found = listed(f.evaluate(**given))
    types = [found[k] for k in floats_of(f)]
    return [
        np.asarray(numbers.integers(-2, 3, each.shape) if exact else numbers.uniform(-1, 1, each.shape), each.dtype)
        for each in types
    ]


def weighed(f: tm.Function, given: Given, by: list[np.ndarray[Any, Any]]) -> Given:
    """The arguments of a step: a weight for each floating-point output."""
    names = [f"d_{f.algorithm.output_arrays[k]}" for k in floats_of(f)]
    return {**given, **{name: each if each.shape else each.item() for name, each in zip(names, by, strict=True)}}
