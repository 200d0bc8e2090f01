"""Unions of several sets or relations, put together in the order in which they come."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

import islpy as isl

_Part = TypeVar("_Part", isl.Set, isl.Map, isl.UnionSet, isl.UnionMap)
_Key = TypeVar("_Key", bound=Hashable)


def united(parts: Iterable[_Part]) -> _Part | None:
    """The union of parts of one space; None where there are none."""
    found: _Part | None = None
    for part in parts:
        found = part if found is None else found.union(part)
    return found


def union_of(parts: Iterable[_Part]) -> _Part:
    """The union of one or more parts of one space. Raises `ValueError` where there are none."""
    found = united(parts)
    if found is None:
        raise ValueError("a union of no parts has no space")
    return found


def united_by_key(parts: Iterable[tuple[_Key, _Part]]) -> dict[_Key, _Part]:
    """The union of the parts of each key, by the first occurrence of the keys."""
    found: dict[_Key, _Part] = {}
    for key, part in parts:
        found[key] = found[key].union(part) if key in found else part
    return found


def maps_of(union: isl.UnionMap | None) -> list[isl.Map]:
    """The relations of a union, one for each pair of tuples; none of None."""
    if union is None:
        return []
    listed = union.get_map_list()
    return [listed.get_at(k) for k in range(listed.n_map())]
