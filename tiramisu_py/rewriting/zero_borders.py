"""Adjoints with zeros around them, so that the gradient of a stencil of many reads needs no conditions.

    y[i] = a[i - 1] + a[i] + a[i + 1]   on 0 <= i < N
    -->  d_y[i] = select(0 <= i < N, ..., 0)   on -1 <= i < N + 1;   d_a[j] = d_y[j + 1] + d_y[j] + d_y[j - 1]

A stencil of n reads in two dimensions has a border in which n terms exist under n conditions: as code, copies of n
terms for each side and corner. Zeros are one line a side, and are stored once for all reads. So are the terms of a sum,
which are products in that of a convolution: as in PyTorch and JAX, these then have a factor 0 around a picture.

    y[i] = sum of a[i + k] * w[k] over 0 <= k < 3   on 0 <= i < N
    -->  d_a[j] = sum of d_y_with_zeros[j - k] * w[k] over 0 <= k < 3, in the place of those with 0 <= j - k < N
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Unary
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.sums_by_parts import PartialSum, PartialTerm, is_thin_beside

#: A sum of fewer terms that exist at some elements only keeps their conditions; of arrays that are copied for it.
LEAST_TERMS = 3
LEAST_OF_COPIES = 5


@dataclass(frozen=True, eq=False)
class TermsOfAdjoint:
    """The terms and sums of an adjoint over `dims`, at the elements `domain`; it depends on the adjoints `needs`."""

    domain: isl.Set
    dims: tuple[str, ...]
    terms: Sequence[PartialTerm]
    sums: Sequence[PartialSum]
    needs: Collection[str]


def widened(
    adjoints: Mapping[str, TermsOfAdjoint], domain_of: Callable[[str], isl.Set | None], copied: Collection[str]
) -> tuple[dict[str, isl.Set], dict[str, TermsOfAdjoint]]:
    """The adjoints that get zeros around them, each with all its elements; and those whose terms then exist anywhere.

    `domain_of` are the elements of an adjoint by name, None of what can have no zeros around it; those `copied` are
    arrays of the caller's.
    """
    wide: dict[str, isl.Set] = {}
    found: dict[str, TermsOfAdjoint] = {}
    for name, own in adjoints.items():
        terms, sums = [*own.terms], [*own.sums]
        reads: list[dict[str, isl.Set]] = []
        of_terms = _terms_read(own, domain_of, copied)
        for k, term in enumerate(terms):
            around = of_terms.get(id(term))
            if around and _are_apart(around, name, adjoints):
                reads.append(around)
                terms[k] = replace(term, points=own.domain)
        for k, each in enumerate(sums):
            full = _all_points(own, each)
            around = _read_by_sum(each, full, domain_of)
            if around and _are_apart(around, name, adjoints):
                reads.append(around)
                sums[k] = replace(each, points=full)
        for source, elements in (pair for around in reads for pair in around.items()):
            wide[source] = wide[source].union(elements) if source in wide else elements
        if reads:
            found[name] = replace(own, terms=terms, sums=sums)
    return {name: _rounded(elements, domain_of(name)) for name, elements in wide.items()}, found


def _terms_read(
    own: TermsOfAdjoint, domain_of: Callable[[str], isl.Set | None], copied: Collection[str]
) -> dict[int, dict[str, isl.Set]]:
    """The elements that terms, by id, would read at all elements of their adjoint; none of a few terms."""
    partial = [each for each in own.terms if not own.domain.is_subset(each.points)]
    read = {id(each): _elements_read(own, each, domain_of) for each in partial}
    apart: list[isl.Set] = []
    for each in partial:
        if read[id(each)] and not any(each.points.is_equal(points) for points in apart):
            apart.append(each.points)
    copies = any(source in copied for each in read.values() for source in each or ())
    if len(apart) < (LEAST_OF_COPIES if copies else LEAST_TERMS):
        return {}
    return {number: each for number, each in read.items() if each}


def _all_points(own: TermsOfAdjoint, each: PartialSum) -> isl.Set:
    """All elements of an adjoint, each with all values of the iterators of a sum."""
    count = len(own.dims)
    axes = range(count + len(each.over))
    over = sets.project_prefix(sets.rearranged(each.points, [*axes[count:], *axes[:count]]), len(each.over))
    domain = sets.named(own.domain, None).intersect_params(each.points.params())
    full = sets.flat_product(domain, sets.named(over, None), sets.tuple_name(each.points))
    return sets.with_dims(full, (*own.dims, *each.over)).coalesce()


def _read_by_sum(
    each: PartialSum, full: isl.Set, domain_of: Callable[[str], isl.Set | None]
) -> dict[str, isl.Set] | None:
    """The elements that the terms of a sum would read at all its points, by their source; None if it is to stay.

    One factor of its terms is linear in adjoints that have zeros around them, the others are read at these points
    anyway, so that a term beyond is 0 times a number.
    """
    if each.guards or each.points.is_equal(full):
        return None
    for linear, others in _factors(each.value):
        found = _read_around(linear, full, each.points, domain_of)
        if found and all(_is_read_anyway(other, full, each.points) for other in others):
            return found
    return None


def _factors(value: Expr) -> Iterator[tuple[Sequence[Access], Sequence[Access]]]:
    """For each side of a product that is linear in its reads: these, and the reads of the other side."""
    if isinstance(value, Binary) and value.op == "*" and value.dtype.is_float:
        for side, other in ((value.left, value.right), (value.right, value.left)):
            linear, rest = reads_of_linear(side), reads_of_linear(other)
            if linear and rest:
                yield linear, rest
    elif (linear := reads_of_linear(value)) is not None:
        yield linear, ()


def _is_read_anyway(read: Access, full: isl.Set, points: isl.Set) -> bool:
    """Whether what is read at all points is what is read at some of them."""
    relation = _relation(read, full)
    return relation is not None and full.apply(relation).is_subset(points.apply(relation))


def _relation(read: Access, at: isl.Set) -> isl.Map | None:
    """The element that is read at each point; None where a value says which."""
    reader = Affine(at.get_space())
    try:
        return sets.map_of_forms([reader.value(index) for index in read.indices], reader.space, None)
    except NotAffine:
        return None


def _read_around(
    reads: Sequence[Access], full: isl.Set, points: isl.Set, domain_of: Callable[[str], isl.Set | None]
) -> dict[str, isl.Set] | None:
    """The elements read at the points `full`, by their source, of reads of what exists at `points` only.

    None if that is not so, or a source would get many elements more.
    """
    found: dict[str, isl.Set] = {}
    for read in reads:
        inner, relation = domain_of(read.source), _relation(read, full)
        if inner is None or relation is None:
            return None
        inner = sets.named(inner, None)
        if not relation.intersect_range(inner).domain().intersect(full).is_equal(points):
            return None
        elements = full.apply(relation)
        if not is_thin_beside(elements.subtract(inner), inner):
            return None
        found[read.source] = found[read.source].union(elements) if read.source in found else elements
    return found or None


def _elements_read(
    own: TermsOfAdjoint, term: PartialTerm, domain_of: Callable[[str], isl.Set | None]
) -> dict[str, isl.Set] | None:
    """The elements that a term would read at all elements of its adjoint, by their source.

    None unless the term would be 0 where it does not exist, and a source gets few elements more.
    """
    full = sets.with_dims(sets.named(own.domain, None), own.dims)
    points = sets.with_dims(sets.named(term.points, None), own.dims)
    return _read_around(reads_of_linear(term.value) or (), full, points, domain_of)


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


def _are_apart(around: Collection[str], name: str, adjoints: Mapping[str, TermsOfAdjoint]) -> bool:
    """Whether none of the adjoints that a term reads depends on the one that it belongs to."""
    return not any(_depends(source, name, adjoints) for source in around)


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
