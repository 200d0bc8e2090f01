"""Sizes of a recipe that users give by name, in the place of those that follow from the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

from tiramisu_py.errors import ArgumentError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Sizes = TypeVar("Sizes", bound="DataclassInstance")


def with_sizes(sizes: Sizes, recipe: str, given: Mapping[str, int], least: Mapping[str, int] | None = None) -> Sizes:
    """The sizes, those given instead; each is at least 1, or what `least` says. Raises `ArgumentError`."""
    known = [each.name for each in fields(sizes)]
    example = ", ".join(f"{name!r}: {getattr(sizes, name)}" for name in known[:2])
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{recipe}: sizes is {given!r}: give sizes by name, {{{example}}}")
    for name, value in given.items():
        if name not in known:
            raise ArgumentError(f"{recipe}: there is no size {name!r} here: there are {', '.join(known)}")
        start = (least or {}).get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < start:
            raise ArgumentError(f"{recipe}: {name} is {value!r}: give an integer from {start} on")
    return replace(sizes, **given)
