"""Workloads to measure a point on: the arguments of one or several sizes, and what is equal between two searches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py import DeviceArray
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import ALIGNMENT, Algorithm, infer_params
from tiramisu_py.queries import drawn_arguments as drawn
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]
Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """The arguments of one size: parameters and all inputs, by name."""

    algorithm: Algorithm
    params: Mapping[str, int]
    inputs: Values

    def arguments(self, written: Collection[str] = ()) -> dict[str, Any]:
        """The arguments of a call that changes the `written` inputs: these are copied, all others are the user's."""
        copied = {
            name: _aligned(given) if name in written and isinstance(given, np.ndarray) else given
            for name, given in self.inputs.items()
        }
        return {**copied, **self.params}

    @cached_property
    def key(self) -> dict[str, Any]:
        """A key that tells this case from others: shapes, types, and the contents of what the time may depend on."""
        return {"params": dict(self.params), "inputs": {name: self._key_of(name) for name in self.inputs}}

    def _key_of(self, name: str) -> Any:
        declared, given = self.algorithm.inputs[name], self.inputs[name]
        if declared.scalar:
            return repr(given.item() if isinstance(given, np.generic) else given)
        described = [list(given.shape), str(given.dtype)]
        has_facts = declared.values is not None or declared.monotone or declared.permutation
        if not has_facts:
            return described
        held = np.ascontiguousarray(given.get() if isinstance(given, DeviceArray) else given)
        return [*described, sha256(held.tobytes()).hexdigest()]


def cases_for(algorithm: Algorithm, arguments: object, sizes: object, seed: int) -> tuple[Case, ...]:
    """The cases of a user's `arguments` and `sizes`. Inputs that are not given are random. Raises `ArgumentError`."""
    listed = _listed_sizes(sizes)
    if callable(arguments):
        if not listed:
            raise ArgumentError("arguments= is a function of sizes: give them, such as sizes=[{'R': 1000, 'C': 2000}]")
        given = [{**size, **_made(arguments, size)} for size in listed]
    elif arguments is None or isinstance(arguments, Mapping):
        given = [{**(arguments or {}), **size} for size in listed or [{}]]
    elif _is_list(arguments) and not listed:
        given = [dict(each) for each in arguments]  # type: ignore[attr-defined]
    else:
        raise ArgumentError(
            f"arguments={arguments!r:.80}: give arrays and sizes by name, a list of such dicts, or a function of sizes"
        )
    return tuple(_case(algorithm, each, seed) for each in given)


def _case(algorithm: Algorithm, given: Values, seed: int) -> Case:
    known = (*algorithm.inputs, *algorithm.params)
    for name in given:
        if name not in known:
            raise ArgumentError(f"arguments has {name!r}: {algorithm.name} takes {', '.join(known) or 'none'}")
    sizes = {name: value for name, value in given.items() if name in algorithm.params}
    inputs = {name: value for name, value in given.items() if name in algorithm.inputs}
    shaped = [
        (name, declared.passed_shape, inputs[name].shape)
        for name, declared in algorithm.inputs.items()
        if not declared.scalar and isinstance(inputs.get(name), np.ndarray | DeviceArray)
    ]
    params = infer_params(algorithm.params, shaped, sizes)
    made = drawn(algorithm, {}, params, seed) if len(inputs) < len(algorithm.inputs) else {}
    missing = {name: _aligned(given) if isinstance(given, np.ndarray) else given for name, given in made.items()}
    for name, declared in algorithm.inputs.items():
        if name in inputs and not declared.scalar and not isinstance(inputs[name], np.ndarray | DeviceArray):
            raise ArgumentError(f"arguments has {name} = {inputs[name]!r:.60}: give a NumPy array")
    return Case(algorithm, params, {**missing, **inputs})


def _listed_sizes(sizes: object) -> list[Mapping[str, Any]]:
    if sizes is None:
        return []
    listed: Sequence[Any] = [sizes] if isinstance(sizes, Mapping) else sizes if _is_list(sizes) else []  # type: ignore[assignment]
    if not listed:
        raise ArgumentError(f"sizes={sizes!r}: give the sizes by name, {{'R': 1000, 'C': 2000}}, or a list of these")
    return [*listed]


def _aligned(given: Array) -> Array:
    """A copy that begins at a cache line, as arrays of `Kernel.empty` do."""
    room = np.empty(given.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    made: Array = room[start : start + given.nbytes].view(given.dtype).reshape(given.shape)
    made[...] = given
    return made


def _is_list(given: object) -> bool:
    """Whether it is a list of mappings, with at least one."""
    return isinstance(given, list | tuple) and bool(given) and all(isinstance(each, Mapping) for each in given)


def _made(arguments: Callable[..., Any], size: Mapping[str, Any]) -> Values:
    found = arguments(**size)
    if not isinstance(found, Mapping):
        raise ArgumentError(f"the function arguments= returned {found!r:.60}: let it return arguments by name")
    return found
