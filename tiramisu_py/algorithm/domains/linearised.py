"""Arrays with several dimensions in one: extents that are products of sizes, and indices into these.

An array of ``N * M`` elements has the dimensions ``[N, M]``, and ``x[i * M + j]`` is its element ``[i, j]``: this is
true whatever the values are, and the index is inside the array where each part is inside its dimension. The parts are
affine where the index is not (Polly's delinearisation, Grosser et al., ICS 2015). They are computed in 64 bits, and
their sum nowhere, so that no product overflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from tiramisu_py.algorithm.domains.extents_from_arguments import linear
from tiramisu_py.algorithm.domains.ranges.index_parts import is_converted
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Param, Unary, as_typed, binary, unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import int64, weak_int
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class _Term:
    """``count * factor * factor ...``, a term of an index."""

    count: int
    factors: tuple[Expr, ...] = ()

    def times(self, other: _Term) -> _Term:
        return _Term(self.count * other.count, self.factors + other.factors)

    def expression(self) -> Expr:
        """The product, without the sign of the count."""
        size = abs(self.count)
        if not self.factors:
            return Const(size, weak_int)
        product = reduce(lambda a, b: binary("*", a, b), map(_in_64_bits, self.factors))
        return product if size == 1 else binary("*", size, product)


def _in_64_bits(e: Expr) -> Expr:
    return e if e.dtype is weak_int else as_typed(e, int64)


@deep
def factors_of(extent: Expr) -> tuple[Expr, ...]:
    """The dimensions of an extent, outermost first: the factors of a product of sizes, as far as it is one."""
    if not isinstance(extent, Binary) or extent.op != "*" or linear(extent, {}) is not None:
        return (extent,)
    return (*factors_of(extent.left), *factors_of(extent.right))


def product_of(factors: Iterable[Expr]) -> Expr:
    """The extent with these dimensions."""
    return reduce(lambda a, b: binary("*", a, b), factors)


def parts_of(index: Expr, factors: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices in each dimension whose sum, each times its stride, is an index for every value of its names.

    ``i * M + j`` is ``(i, j)`` in ``[N, M]``, and ``M - 1 - j`` is ``(0, M - 1 - j)``. Of several such indices these
    are those that look as if they were at least 0; whether each is inside is for the proof.
    """
    terms, found = _terms(index), list[Expr]()
    for factor in reversed(factors[1:]):
        terms, rest = _divided(terms, factor)
        found.append(_sum(rest))
    return (_sum(terms), *reversed(found))


@deep
def _terms(e: Expr) -> list[_Term]:
    """The terms of an index, where its arithmetic is exact; anything else is one term."""
    match e:
        case Const() if e.dtype.is_integer:
            return [_Term(int(e.value))]
        case Unary(op="-") if _is_exact(e):
            return _scaled(_terms(e.operand), -1)
        case Cast() if e.dtype == int64 and _is_exact(e.operand):
            return _terms(e.operand)
        case Binary(op="+") if _is_exact(e):
            return _terms(e.left) + _terms(e.right)
        case Binary(op="-") if _is_exact(e):
            return _terms(e.left) + _scaled(_terms(e.right), -1)
        case Binary(op="*") if _is_exact(e):
            return _product(e.left, e.right)
    return [_Term(1, (e,))]


def _product(left: Expr, right: Expr) -> list[_Term]:
    """The terms of a product: a sum is multiplied out with a number, and is one factor beside anything else."""
    a, b = _terms(left), _terms(right)
    for terms, other in ((a, b), (b, a)):
        if not terms or (len(terms) == 1 and not terms[0].factors):
            return _scaled(other, terms[0].count if terms else 0)
    (one,) = a if len(a) == 1 else [_Term(1, (left,))]
    (two,) = b if len(b) == 1 else [_Term(1, (right,))]
    return [one.times(two)]


def _scaled(terms: list[_Term], by: int) -> list[_Term]:
    return [_Term(by * term.count, term.factors) for term in terms if by]


def _is_exact(e: Expr) -> bool:
    """Whether arithmetic is that of iterators and sizes, or of 64 bits; or of 32 bits with iterators or sizes in it."""
    if e.dtype is weak_int or e.dtype == int64:
        return isinstance(e, Binary | Unary | Cast) or not e.children()
    if e.dtype.name != "int32" or not isinstance(e, Binary | Unary):
        return False
    return any(is_converted(child) or _is_exact(child) for child in e.children())


def _divided(terms: list[_Term], factor: Expr) -> tuple[list[_Term], list[_Term]]:
    """The terms that are multiples of a size, divided by it, and the others."""
    quotient, rest = list[_Term](), list[_Term]()
    for term in terms:
        divided = _without(term, factor)
        if divided is None:
            rest.append(term)
        else:
            quotient += divided
    is_shifted = any(not term.factors and term.count > 0 for term in quotient)
    if _is_negative(rest, is_shifted):
        quotient, rest = [*quotient, _Term(-1)], [*_terms(factor), *rest]
    return quotient, rest


def _without(term: _Term, factor: Expr) -> list[_Term] | None:
    """A term divided by a size; None where the size is no factor of it."""
    sizes = _terms(factor)
    by = sizes[0] if len(sizes) == 1 else _Term(1, (factor,))
    if by.count == 0 or term.count % by.count:
        return None
    left = list(term.factors)
    for size in by.factors:
        found = next((at for at, each in enumerate(left) if _same(each, size)), None)
        if found is None:
            return None
        del left[found]
    return _opened(_Term(term.count // by.count, tuple(left)))


def _opened(term: _Term) -> list[_Term]:
    """A term, or the terms of the sum that it is a multiple of."""
    if len(term.factors) != 1:
        return [term]
    return _scaled(_terms(term.factors[0]), term.count)


def _same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are the same size."""
    if a.same_as(b):
        return True
    if any(not isinstance(node, Param | Const | Binary | Unary | Cast) for node in (*walk(a), *walk(b))):
        return False
    one, two = linear(a, {}), linear(b, {})
    return one is not None and two is not None and _normal(one) == _normal(two)


def _normal(form: tuple[dict[str, int], int]) -> tuple[dict[str, int], int]:
    return {name: factor for name, factor in form[0].items() if factor}, form[1]


def _is_negative(rest: list[_Term], is_shifted: bool) -> bool:
    """Whether a rest looks as if it were below 0, and is to be counted from the end of its dimension.

    So is ``-1 - j``; and ``-1 - j + k`` if the end of the dimension was among the terms, as in ``M - 1 - j + k``.
    """
    of_names = [term.count for term in rest if term.factors and term.count]
    if not of_names:
        return sum(term.count for term in rest) < 0
    return min(of_names) < 0 and (is_shifted or max(of_names) < 0)


def _sum(terms: list[_Term]) -> Expr:
    """The terms as an expression: those above 0 first, numbers last."""
    constant = sum(term.count for term in terms if not term.factors)
    named = sorted((term for term in terms if term.factors and term.count), key=lambda term: term.count < 0)
    if not named:
        return Const(constant, weak_int)
    found = named[0].expression() if named[0].count > 0 else unary("-", named[0].expression())
    for term in named[1:]:
        found = binary("+" if term.count > 0 else "-", found, term.expression())
    return found if not constant else binary("+" if constant > 0 else "-", found, abs(constant))


def indices_in(indices: Sequence[Expr], passed: Sequence[Expr], shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices of an element in each dimension, from those in the array that is passed, some of them in products."""
    parts, first = list[Expr](), 0
    for index, extent in zip(indices, passed, strict=True):
        count = len(factors_of(extent))
        parts += [index] if count == 1 else parts_of(index, shape[first : first + count])
        first += count
    return tuple(parts)
