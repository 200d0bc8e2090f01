"""Selections of large families of tests: a plain run makes these, `scripts/test --all` makes the whole family."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def covering(*axes: Sequence[Any], each: int = 1) -> list[Any]:
    """All combinations of some values, as parameters; those beyond a selection are marked `slow`.

    In the selection every value of every axis occurs: those of the longest axis `each` times, the others in turn.
    """
    if not all(axes):
        return []
    longest = max(len(axis) for axis in axes)
    chosen = set()
    for turn in range(each):
        for k in range(longest):
            chosen.add(tuple((k if len(axis) == longest else k + turn) % len(axis) for axis in axes))
    places = product(*(range(len(axis)) for axis in axes))
    return [
        _parameters([axis[k] for axis, k in zip(axes, place, strict=True)], slow=place not in chosen)
        for place in places
    ]


def some(values: Iterable[Any], is_chosen: Callable[[Any], bool]) -> list[Any]:
    """The values as parameters; those that are not chosen are marked `slow`."""
    return [_parameters([value], slow=not is_chosen(value)) for value in values]


def first(values: Sequence[Any], count: int) -> list[Any]:
    """The values as parameters; those after the first ones are marked `slow`."""
    return [_parameters([value], slow=k >= count) for k, value in enumerate(values)]


def _parameters(values: Sequence[Any], slow: bool) -> Any:
    flat: list[Any] = []
    for value in values:
        flat += value if isinstance(value, tuple) else [value]
    return pytest.param(*flat, marks=pytest.mark.slow if slow else ())
