"""A sum of terms of which each exists at some elements: one condition for the inside, and borders of their own.

    y[i] = a[i - 1]  where 1 <= i,  + a[i + 1]  where i < N - 1
    -->  select(1 <= i < N - 1, a[i - 1] + a[i + 1], select(1 <= i, a[i - 1], 0) + select(i < N - 1, a[i + 1], 0))

Elements are told apart only where there are many of each kind. A border, whose length is a constant in one dimension,
is one part, and its terms keep their conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.expressions import Expr, binary, select
from tiramisu_py.algorithm.types import DType
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.isl_expressions import condition_of
from tiramisu_py.rewriting.partial_derivatives import zero

#: A piece of a domain of constant sizes is thin if this many of it are no longer than the domain.
MUCH = 8
#: With more parts than this, the others belong to the border.
MOST_PARTS = 8


@dataclass(frozen=True, eq=False)
class PartialTerm:
    """A term that exists at some elements."""

    points: isl.Set
    value: Expr


@dataclass(frozen=True, eq=False)
class PartialSum:
    """A term that is a sum over the iterators `over`, at the elements and values of these in `points`.

    Its terms count where `guards` hold; they are of the values of the `reader`.
    """

    points: isl.Set
    over: tuple[str, ...]
    guards: tuple[Expr, ...]
    value: Expr
    reader: Computation


@dataclass(frozen=True, eq=False)
class _Cell:
    """Elements that have the same terms, by number."""

    points: isl.Set
    terms: tuple[int, ...]


def sum_by_parts(domain: isl.Set, terms: Sequence[PartialTerm], dims: Sequence[str], dtype: DType) -> Expr:
    """The sum of terms at each point of a domain over `dims`, 0 where there is none."""
    terms = _joined(domain, terms)
    cells, border = _cells(domain, terms)
    found = None if border.is_empty() and cells else _guarded(border, domain, terms, dims, dtype)
    left = border
    for cell in reversed(cells):  # the last one first: each condition is about what is left
        inside = _total([terms[k].value for k in cell.terms], dtype)
        left = left.union(cell.points)
        condition = None if found is None else condition_of(cell.points, left, dims)
        found = inside if condition is None or found is None else select(condition, inside, found)
    assert found is not None
    return found


def _joined(domain: isl.Set, terms: Sequence[PartialTerm]) -> list[PartialTerm]:
    """The terms within a domain, those that exist at the same elements as one."""
    found: list[PartialTerm] = []
    for term in terms:
        points = term.points.intersect(domain).coalesce()
        if points.is_empty():
            continue
        same = next((k for k, each in enumerate(found) if each.points.is_equal(points)), None)
        if same is None:
            found.append(PartialTerm(points, term.value))
        else:
            found[same] = PartialTerm(points, binary("+", found[same].value, term.value))
    return found


def _cells(domain: isl.Set, terms: Sequence[PartialTerm]) -> tuple[list[_Cell], isl.Set]:
    """The large parts of a domain by the terms that exist there, and what is left."""
    cells, border = [_Cell(domain, ())], sets.empty(domain.get_space())
    for number, term in enumerate(terms):
        parts: list[_Cell] = []
        for cell in cells:
            sides = (
                (cell.points.intersect(term.points), (*cell.terms, number)),
                (cell.points.subtract(term.points), cell.terms),
            )
            for points, own in sides:
                large, thin = _by_size(points, domain)
                border = border.union(thin)
                if not large.is_empty():
                    parts.append(_Cell(large.coalesce(), own))
        cells = parts
    for cell in cells[MOST_PARTS:]:
        border = border.union(cell.points)
    return cells[:MOST_PARTS], border.coalesce()


def is_thin_beside(points: isl.Set, domain: isl.Set) -> bool:
    """Whether all convex pieces of a set are thin where a domain is not."""
    return all(_is_thin(piece, domain) for piece in sets.basic_sets(points.coalesce()))


def _by_size(points: isl.Set, domain: isl.Set) -> tuple[isl.Set, isl.Set]:
    """The convex pieces of a set that are as large as the domain, and those that are thin where it is not."""
    large, thin = sets.empty(points.get_space()), sets.empty(points.get_space())
    for piece in sets.basic_sets(points.coalesce()):
        if _is_thin(piece, domain):
            thin = thin.union(piece)
        else:
            large = large.union(piece)
    return large, thin


def _is_thin(piece: isl.Set, domain: isl.Set) -> bool:
    """Whether a piece of a domain is short, or has an equation, in more dimensions than the domain; or much shorter."""
    own, whole = (each.remove_divs() for each in (piece, domain))
    both = list(zip(sets.lengths(own), sets.lengths(whole), strict=True))
    if any(short is not None and long is not None and short * MUCH <= long for short, long in both):
        return True
    thin, least = (sum(each[side] is not None for each in both) for side in (0, 1))
    return thin + sets.equalities(own) > least + sets.equalities(whole)


def _guarded(points: isl.Set, domain: isl.Set, terms: Sequence[PartialTerm], dims: Sequence[str], dtype: DType) -> Expr:
    """The sum of the terms that may exist at some elements of a domain, each under its own condition.

    A term that exists nowhere together with others is a branch of its own.
    """
    inside = [term for term in terms if not term.points.is_disjoint(points)]
    alone = next((k for k, each in enumerate(inside) if len(inside) > 1 and _is_alone(each, inside, points)), None)
    if alone is not None:
        own, rest = inside[alone], [*inside[:alone], *inside[alone + 1 :]]
        others = _guarded(points.subtract(own.points), domain, rest, dims, dtype)
        condition = condition_of(own.points, domain, dims)
        assert condition is not None
        return select(condition, own.value, others)
    listed: list[Expr] = []
    for term in inside:
        condition = None if points.is_subset(term.points) else condition_of(term.points, domain, dims)
        listed.append(term.value if condition is None else select(condition, term.value, zero(dtype)))
    return _total(listed, dtype)


def _is_alone(term: PartialTerm, terms: Sequence[PartialTerm], points: isl.Set) -> bool:
    own = term.points.intersect(points)
    return all(each is term or own.is_disjoint(each.points) for each in terms)


def _total(terms: Sequence[Expr], dtype: DType) -> Expr:
    """The sum of some expressions, in order."""
    return reduce(lambda a, b: binary("+", a, b), terms) if terms else zero(dtype)
