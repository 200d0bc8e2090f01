"""One order for what may stand in any order: factors of a product, and products of a sum.

Factors are sorted by what they are an element of. Two elements of one array, ``A[i, k] * A[j, k]``, are sorted by their
indices: where ``(i, k)`` comes before ``(j, k)`` the product has one order, elsewhere the other, so that a term becomes
a few, on disjoint sets of points.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise, permutations
from typing import Any, TypeVar

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.equivalence.terms import Factor, Term, Unknown

_T = TypeVar("_T")

#: At most so many factors or products that are alike are sorted by their indices.
_MOST_ALIKE = 3


def arranged(term: Term) -> list[Term]:
    """A term with its factors in order, in pieces where the order depends on the indices."""
    found = in_order(term.points, term.factors, lambda each: each.kind, lambda each: each.indices)
    return [replace(term, points=points, factors=factors) for points, factors in found]


def in_order(
    points: isl.Set,
    items: Sequence[_T],
    kind: Callable[[_T], Any],
    indices: Callable[[_T], Sequence[isl.Aff]],
) -> list[tuple[isl.Set, tuple[_T, ...]]]:
    """The items by their kinds, and those of one kind by their indices: pieces of `points` with an order each."""
    found: list[tuple[isl.Set, tuple[_T, ...]]] = [(points, ())]
    for _, alike in groupby(sorted(items, key=kind), key=kind):
        group = tuple(alike)
        if len(group) == 1 or not indices(group[0]):
            found = [(piece, before + group) for piece, before in found]
            continue
        if len(group) > _MOST_ALIKE:
            raise Unknown(f"a product or a sum has {len(group)} elements of the same array")
        orders = list(_orders(group, indices))
        found = [
            (piece.intersect(where), before + order)
            for piece, before in found
            for where, order in orders
            if not piece.is_disjoint(where)
        ]
    return found


def _orders(group: tuple[_T, ...], indices: Callable[[_T], Sequence[isl.Aff]]) -> Iterator[tuple[isl.Set, Any]]:
    """The permutations of some items, each with the points at which it is their order: disjoint, and all points."""
    for order in permutations(range(len(group))):
        where: isl.Set | None = None
        for a, b in pairwise(order):
            before = _precedes([*indices(group[a])], [*indices(group[b])], or_equal=a < b)
            where = before if where is None else where.intersect(before)
        assert where is not None
        if not where.is_empty():
            yield where, tuple(group[each] for each in order)


def _precedes(a: list[isl.Aff], b: list[isl.Aff], or_equal: bool) -> isl.Set:
    """Where one list of forms comes before another in lexicographic order."""
    first, second = a[0].to_pw_aff(), b[0].to_pw_aff()
    if len(a) == 1:
        return sets.as_set(first.le_set(second) if or_equal else first.lt_set(second))
    later = sets.as_set(first.eq_set(second)).intersect(_precedes(a[1:], b[1:], or_equal))
    return sets.as_set(first.lt_set(second)).union(later)


def kinds_of(factors: Sequence[Factor]) -> Hashable:
    """The arrays whose elements the factors of a term are."""
    return tuple(each.kind for each in factors)
