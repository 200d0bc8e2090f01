"""Requirements on the arguments of a search. Each function raises `ArgumentError`, naming the argument."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from tiramisu_py import Function
from tiramisu_py.errors import ArgumentError

#: Options of `Function.compile` that a search does not take.
_OWN_OPTIONS = ("trace", "sanitize", "architectures")


def require_at_least_one(**given: object) -> None:
    """Each is an integer of at least 1."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(f"{name}={value!r}: give an integer of at least 1")


def require_seconds(name: str, given: object) -> None:
    """A limit of time: a number above 0, or None."""
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < math.inf:
        raise ArgumentError(f"{name}={given!r}: give the time limit in {name}, or None for no limit")


def require_seed(seed: object) -> None:
    """An integer of at least 0."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ArgumentError(f"seed={seed!r}: give an integer of at least 0")


def require_options(caller: str, options: Mapping[str, Any]) -> None:
    """Options of `Function.compile` that a search passes on."""
    known = [name for name in inspect.signature(Function.compile).parameters if name != "self"]
    taken = [name for name in known if name not in _OWN_OPTIONS]
    for name in options:
        if name not in taken:
            raise ArgumentError(f"{caller} has no option {name}=; those for compilation are {', '.join(taken)}")
