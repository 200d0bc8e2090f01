"""Two forms compared: which products of elements each value has, and how often.

The products of one kind, ``A[..] * B[..]``, are relations from values to indices. Coefficients are added where two of
them meet, and two forms are equal if all coefficients agree everywhere: then each value is the same sum of the same
products, in some order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.equivalence.arranging import arranged, kinds_of
from tiramisu_py.equivalence.terms import Form, Term, Unknown
from tiramisu_py.records import dataclass

#: Operators whose terms may be repeated: only which terms there are counts.
IDEMPOTENT = frozenset({"min", "max", "logical_and", "logical_or"})


@dataclass(frozen=True, eq=False)
class Differing:
    """Values and the indices of a product of elements that two forms do not have equally often."""

    elements: isl.Set
    kind: Hashable


def differences(a: Form, b: Form) -> list[Differing]:
    """Where two forms of one rank differ; none if they are equal. Raises `Unknown`."""
    if a.by != b.by:
        raise Unknown(f"one is combined by {a.by}, the other by {b.by}")
    counts = _images(a, b) if a.by in IDEMPOTENT else _counts(a, b)
    return [Differing(elements, kind) for kind, parts in counts.items() for elements, times in parts if times != 0]


_Counts = dict[Hashable, list[tuple[isl.Set, Fraction]]]


def _counts(a: Form, b: Form) -> _Counts:
    """For each kind of product the coefficients of the first form minus those of the second, on disjoint sets."""
    found: _Counts = {}
    for form, sign in ((a, 1), (b, -1)):
        for term in _arranged(form):
            elements = _elements(term, form.rank, each_once=True)
            parts = found.setdefault(kinds_of(term.factors), [])
            parts[:] = _added(parts, elements, sign * term.coefficient)
    return found


def _images(a: Form, b: Form) -> _Counts:
    """For each kind of product the elements that only one of two forms has."""
    found: dict[Hashable, list[list[isl.Set]]] = {}
    for own, form in enumerate((a, b)):
        for term in _arranged(form):
            elements = _elements(term, form.rank, each_once=False)
            found.setdefault((*kinds_of(term.factors), term.coefficient), [[], []])[own].append(elements)  # type: ignore[misc]
    result: _Counts = {}
    for kind, both in found.items():
        space = next(each for one in both for each in one).get_space()
        left, right = (sets.union_of(one) if one else sets.empty(space) for one in both)
        apart = left.subtract(right).union(right.subtract(left))
        result[kind] = [] if apart.is_empty() else [(apart, Fraction(1))]
    return result


def _arranged(form: Form) -> Iterable[Term]:
    for term in form.terms:
        yield from arranged(term)


def _elements(term: Term, rank: int, each_once: bool) -> isl.Set:
    """The values of a term, each with the indices of its factors."""
    space = term.points.get_space()
    forms = [*sets.variables(space)[:rank], *(index for each in term.factors for index in each.indices)]
    found = sets.graph(sets.function(space, None, forms), term.points)
    if each_once and not found.is_injective():
        words = " * ".join(f"{each.source}[..]" if each.indices else each.source for each in term.factors) or "a number"
        raise Unknown(f"one value has {words} several times with the same indices, and how often is not counted")
    return found.range().coalesce()


def _added(parts: list[tuple[isl.Set, Fraction]], elements: isl.Set, times: Fraction) -> list[tuple[isl.Set, Fraction]]:
    """Disjoint sets with numbers, of which the numbers of some elements grow."""
    found: list[tuple[isl.Set, Fraction]] = []
    rest = elements
    for part, before in parts:
        both = part.intersect(rest)
        if both.is_empty():
            found.append((part, before))
            continue
        if not (alone := part.subtract(both)).is_empty():
            found.append((alone, before))
        found.append((both, before + times))
        rest = rest.subtract(both)
    return found if rest.is_empty() else [*found, (rest.coalesce(), times)]
