"""Sums of products over sets: the form in which values of two algorithms are compared.

The value ``v[x]`` is the sum, over all y with ``(x, y)`` in the points of a term and over all terms, of

    coefficient * A[a(x, y)] * B[b(x, y)] * ...

A sum that declares ``C[i, j]`` over k has one term, whose points are (i, j, k). A choice by an affine condition is two
terms, one on each side. So masks, edges of tiles and pieces of domains are sets, and two forms are compared by isl.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.records import dataclass


class Unknown(Exception):
    """Nothing is known of two values; the text says why."""


@dataclass(frozen=True, eq=False)
class Factor:
    """An element ``source[indices]``: of an input, of a computed value, or of what is not looked into.

    The latter is named by its text, ``exp(A[·] - B[·])``, and has an index for each hole of it. `as_type` is the wider
    type to which the element is converted, which changes no value; "" for none.
    """

    source: str
    indices: tuple[isl.Aff, ...]
    as_type: str = ""

    @property
    def kind(self) -> tuple[str, str, int]:
        """A key that factors have in common which are alike but for their indices."""
        return self.source, self.as_type, len(self.indices)

    def at(self, function: isl.MultiAff) -> Factor:
        """The factor with its indices as functions of other coordinates."""
        return replace(self, indices=tuple(each.pullback_multi_aff(function) for each in self.indices))


@dataclass(frozen=True, eq=False)
class Term:
    """``coefficient * factor * ...``, summed over `points`: the coordinates of the value, then those of the sum."""

    points: isl.Set
    coefficient: Fraction
    factors: tuple[Factor, ...] = ()

    def at(self, function: isl.MultiAff) -> Term:
        """The term over other coordinates, of which `function` gives the old ones."""
        factors = tuple(each.at(function) for each in self.factors)
        return replace(self, points=sets.preimage(self.points, function), factors=factors)

    def within(self, points: isl.Set) -> Term:
        """The term on a part of its points."""
        return replace(self, points=self.points.intersect(points))

    def times(self, other: Term) -> Term:
        """The product of two terms over the same coordinates."""
        points = self.points.intersect(other.points)
        return Term(points, self.coefficient * other.coefficient, self.factors + other.factors)


@dataclass(frozen=True, eq=False)
class Form:
    """A value as the sum of `terms`, whose first `rank` coordinates are those of the value.

    Of a reduction by another operator it is the combination `by` this one, and each term is one factor.
    """

    rank: int
    terms: tuple[Term, ...]
    by: str = "sum"

    @property
    def is_plain(self) -> bool:
        """Whether nothing is summed up: each term has the coordinates of the value alone."""
        return self.by == "sum" and all(sets.size(each.points) == self.rank for each in self.terms)


def scaled(terms: Sequence[Term], by: Fraction) -> list[Term]:
    """Terms with their coefficients multiplied."""
    return [replace(each, coefficient=each.coefficient * by) for each in terms]


def products(left: Sequence[Term], right: Sequence[Term], most: int) -> list[Term]:
    """The terms of a product of two sums over the same coordinates; raises `Unknown` beyond a number of them."""
    found = [a.times(b) for a in left for b in right]
    return in_bounds([each for each in found if not each.points.is_empty()], most)


def in_bounds(terms: list[Term], most: int) -> list[Term]:
    """The terms themselves; raises `Unknown` if there are too many."""
    if len(terms) > most:
        raise Unknown(f"there are more than {most} products in the sum of one value")
    return terms


def pieces(form: isl.PwAff) -> Iterator[tuple[isl.Set, isl.Aff]]:
    """The pieces of an index: where it is which form."""
    for domain, forms in sets.pieces_of_function(sets.map_of_forms([form], form.get_domain_space(), None)):
        yield domain, forms[0]


def inlined(term: Term, factor: Factor, form: Form) -> list[Term]:
    """A term with one of its factors replaced by what it is; coordinates of inner sums come after those of the term.

    ::

        C[i] = sum of s[i, k] over k,  s[i, k] = sum of A[i, k, l] over l   -->   the points (i, k, l)
    """
    others = tuple(each for each in term.factors if each is not factor)
    outer = sets.size(term.points)
    found = []
    for inner in form.terms:
        extra = sets.size(inner.points) - form.rank
        frame = sets.sized_frame(term.points.get_space(), None, outer + extra)
        dims = sets.variables(frame)
        own = sets.function(frame, None, dims[:outer])
        place = sets.function(frame, None, [*factor.at(own).indices, *dims[outer:]])
        there = inner.at(place)
        points = sets.preimage(term.points, own).intersect(there.points)
        if not points.is_empty():
            kept = tuple(each.at(own) for each in others)
            found.append(Term(points, term.coefficient * inner.coefficient, kept + there.factors))
    return found
