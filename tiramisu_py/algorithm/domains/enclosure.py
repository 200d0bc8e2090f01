"""Conditions on values, over-approximated from the declared facts about the values."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, binary
from tiramisu_py.algorithm.traversal import rewrite


def approximation(algorithm: Algorithm, space: isl.Space, iterators: Sequence[str], condition: Expr) -> isl.Set:
    """The points of a frame at which a condition can hold, for some contents of the arrays that it reads.

    { [i, p] : exists v : lo <= v < hi and p < v }  for the condition  p < start[i]  and  lo <= start[...] < hi.
    A condition that is not affine in its values either excludes no point.
    """
    values: dict[tuple[object, ...], tuple[str, Access]] = {}
    opened = rewrite(condition, lambda e: _opened(e, values))
    extra = [name for name, _ in values.values()]
    wide = algorithm.frame(None, (*iterators, *extra))
    affine = Affine(wide)
    try:
        found = affine.condition(opened)
    except NotAffine:
        return sets.universe(space)
    for name, access in values.values():
        for fact in _facts(algorithm, name, access):
            found = found.intersect(affine.condition(fact))
    narrow = sets.named(sets.project_prefix(found, len(iterators)), sets.tuple_name(space))
    return sets.with_dims(narrow, iterators)


def _opened(e: Expr, values: dict[tuple[object, ...], tuple[str, Access]]) -> Expr | None:
    if not isinstance(e, Access):
        return None
    name, _ = values.setdefault(e.key(), (f"value {len(values)}", e))
    return Iter(name)


def _facts(algorithm: Algorithm, name: str, access: Access) -> list[Expr]:
    source = algorithm.inputs.get(access.source) or algorithm.computations.get(access.source)
    if source is None or source.values is None:
        return []
    low, high = source.values
    return [binary("<=", low, Iter(name)), binary("<", Iter(name), high)]


def undeclared_values(algorithm: Algorithm, condition: Expr) -> list[str]:
    """The sources of a condition's values that have no declared range."""
    values: dict[tuple[object, ...], tuple[str, Access]] = {}
    rewrite(condition, lambda e: _opened(e, values))
    return [access.source for name, access in values.values() if not _facts(algorithm, name, access)]
