"""Adjoints with zeros around them, so that the gradient of a stencil of many reads needs no conditions.

    y[i] = a[i - 1] + a[i] + a[i + 1]   on 0 <= i < N
    -->  d_y[i] = select(0 <= i < N, ..., 0)   on -1 <= i < N + 1;   d_a[j] = d_y[j + 1] + d_y[j] + d_y[j - 1]

A stencil of n reads in two dimensions has a border in which n terms exist under n conditions: as code, copies of n
terms for each side and corner. Zeros are one line a side, and are stored once for all reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Unary
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.sums_by_parts import PartialTerm, is_thin_beside

#: A sum of fewer terms that exist at some elements only keeps their conditions; of arrays that are copied for it.
LEAST_TERMS = 3
LEAST_OF_COPIES = 5


@dataclass(frozen=True, eq=False)
class TermsOfAdjoint:
    """The terms of an adjoint over `dims`, at the elements `domain`; `needs` are the adjoints that it depends on."""

    domain: isl.Set
    dims: tuple[str, ...]
    terms: Sequence[PartialTerm]
    needs: Collection[str]


def widened(
    adjoints: Mapping[str, TermsOfAdjoint], domain_of: Callable[[str], isl.Set | None], copied: Collection[str]
) -> tuple[dict[str, isl.Set], dict[str, list[PartialTerm]]]:
    """The adjoints that get zeros around them, each with all its elements; and the terms, which then exist anywhere.

    `domain_of` are the elements of an adjoint by name, None of what can have no zeros around it; those `copied` are
    arrays of the caller's.
    """
    wide: dict[str, isl.Set] = {}
    found: dict[str, list[PartialTerm]] = {}
    for name, own in adjoints.items():
        partial = [each for each in own.terms if not own.domain.is_subset(each.points)]
        read = {id(each): _elements_read(own, each, domain_of) for each in partial}
        apart: list[isl.Set] = []
        for each in partial:
            if read[id(each)] and not any(each.points.is_equal(points) for points in apart):
                apart.append(each.points)
        copies = any(source in copied for each in read.values() for source in each or ())
        if len(apart) < (LEAST_OF_COPIES if copies else LEAST_TERMS):
            continue
        terms: list[PartialTerm] = []
        for each in own.terms:
            around = read.get(id(each))
            if not around or any(_depends(source, name, adjoints) for source in around):
                terms.append(each)
                continue
            for source, elements in around.items():
                wide[source] = wide[source].union(elements) if source in wide else elements
            terms.append(replace(each, points=own.domain))
        found[name] = terms
    return {name: _rounded(elements, domain_of(name)) for name, elements in wide.items()}, found


def _elements_read(
    own: TermsOfAdjoint, term: PartialTerm, domain_of: Callable[[str], isl.Set | None]
) -> dict[str, isl.Set] | None:
    """The elements that a term would read at all elements of its adjoint, by their source.

    None unless the term would be 0 where it does not exist, and a source gets few elements more.
    """
    reads = reads_of_linear(term.value)
    found: dict[str, isl.Set] = {}
    for read in reads or ():
        inner = domain_of(read.source)
        if inner is None:
            return None
        reader = Affine(sets.with_dims(sets.named(own.domain, None), own.dims).get_space())
        try:
            forms = [reader.value(index) for index in read.indices]
        except NotAffine:
            return None
        relation = sets.map_of_forms(forms, reader.space, None)
        domain, points = (sets.named(each, None) for each in (own.domain, term.points))
        inner = sets.named(inner, None)
        if not relation.intersect_range(inner).domain().intersect(domain).is_equal(points):
            return None
        elements = domain.apply(relation)
        if not is_thin_beside(elements.subtract(inner), inner):
            return None
        found[read.source] = found[read.source].union(elements) if read.source in found else elements
    return found or None


def reads_of_linear(value: Expr) -> list[Access] | None:
    """The reads of a sum of reads, each with a constant factor; None of anything that may be other than 0 for zeros."""
    match value:
        case Access():
            return [value]
        case Unary(op="-") | Cast():
            return reads_of_linear(value.operand) if value.dtype.is_float else None
        case Binary(op="+" | "-"):
            sides = [reads_of_linear(side) for side in (value.left, value.right)]
            return None if None in sides else [each for side in sides for each in side or ()]
        case (
            Binary(op="*", left=Const(value=factor), right=inner)
            | Binary(op="*" | "/", left=inner, right=Const(value=factor))
        ):
            return reads_of_linear(inner) if factor and math.isfinite(factor) else None
    return None


def _depends(source: str, on: str, adjoints: Mapping[str, TermsOfAdjoint]) -> bool:
    """Whether an adjoint depends on another one, as those of a recurrence do on themselves."""
    seen: set[str] = set()
    waiting = [source]
    while waiting:
        name = waiting.pop()
        if name == on:
            return True
        if name in seen or name not in adjoints:
            continue
        seen.add(name)
        waiting += adjoints[name].needs
    return False


def _rounded(elements: isl.Set, inner: isl.Set | None) -> isl.Set:
    """The elements read and those with values, without corners or gaps."""
    assert inner is not None
    whole = sets.named(elements, None).union(sets.named(inner, None))
    return sets.hull(whole.coalesce()).intersect_params(whole.params())
