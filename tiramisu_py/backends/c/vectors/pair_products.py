"""Sums of products of int16 in int32, ``int32(a)*v + int32(b)*w``, in even or odd lanes of narrow results.

Processors multiply the pairs of int16 that fill lanes of int32, and add the two products of each, in one instruction
(vpmaddwd); a product of int32 is two of theirs, or takes several times as long. Only the sum of two products may leave
int32, by -2**15 four times, and wraps as it does in C: any order of the terms gives the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, constant
from tiramisu_py.algorithm.types import int16, int32, strong, uint32
from tiramisu_py.backends.c.expressions.parentheses import Code, call, cast, infix
from tiramisu_py.backends.c.vectors.dots import terms_of
from tiramisu_py.ir.arithmetic.intervals import fits

if TYPE_CHECKING:
    from tiramisu_py.backends.c.vectors.vectors import OfPairs

_ONE, _ZERO = Const(1, int32), Const(0, int32)
#: A product: one factor is a widened operand, the other one that or the same in all lanes.
Product = tuple[Expr, Expr]


def summed(vectors: OfPairs, e: Binary) -> Code | None:
    """The half of the lanes of a sum that has a product of int16; None if `e` is no such sum."""
    if e.op != "+" or strong(e.dtype) != int32:
        return None
    terms = terms_of(e)
    products = [(k, found) for k, term in enumerate(terms) if (found := _product(vectors, term)) is not None]
    if not products:
        return None
    taken, chosen = {k for k, _ in products}, [product for _, product in products]
    if len(chosen) % 2:
        others = [(k, term) for k, term in enumerate(terms) if k not in taken]
        partner = next(((k, found) for k, term in others if (found := _alone(vectors, term)) is not None), None)
        chosen.append((_ZERO, _ZERO) if partner is None else partner[1])
        taken |= set() if partner is None else {partner[0]}
    total = None
    for first, second in zip(chosen[::2], chosen[1::2], strict=True):
        both = _of_two(vectors, first, second)
        total = both if total is None else infix("+", total, both)
    assert total is not None
    for k, term in enumerate(terms):
        if k not in taken:
            total = infix("+", total, vectors.side(term))
    return total


def _product(vectors: OfPairs, term: Expr) -> Product | None:
    """The factors of a product, the first of which is a widened operand."""
    if not (isinstance(term, Binary) and term.op == "*" and term.left.dtype == term.right.dtype == int32):
        return None
    for one, other in ((term.left, term.right), (term.right, term.left)):
        if _is_widened(vectors, one) and (_is_widened(vectors, other) or _is_shared(vectors, other)):
            return one, other
    return None


def _alone(vectors: OfPairs, term: Expr) -> Product | None:
    """A term that fits int16 as a product with 1."""
    if _is_widened(vectors, term):
        return term, _ONE
    return (_ONE, term) if _is_shared(vectors, term) else None


def _is_widened(vectors: OfPairs, e: Expr) -> bool:
    return isinstance(e, Cast) and strong(e.operand.dtype) == int16 and vectors.half(e.operand, e.dtype) is not None


def _is_shared(vectors: OfPairs, e: Expr) -> bool:
    return vectors.scope.lanes.of(e) == 1 and strong(e.dtype) == int32 and fits(e, int16)


def _of_two(vectors: OfPairs, one: Product, other: Product) -> Code:
    """The sum of two products, by pairs of their first factors and of their second ones."""
    factors = [_pair(vectors, first, second) for first, second in zip(one, other, strict=True)]
    function = vectors.types.idioms.operation("products_of_pairs", int32, vectors.lanes)
    return call(function, *(cast(vectors.type(int32), pair) for pair in factors))


def _pair(vectors: OfPairs, low: Expr, high: Expr) -> Code:
    """In each lane, one int16 in the lower half and another one in the upper half."""
    parts = [_placed(vectors, low, is_upper=False), _placed(vectors, high, is_upper=True)]
    shared = [_is_shared(vectors, each) for each in (low, high)]
    kind = vectors.type(uint32)
    if all(shared):
        return call("TM_ALL", kind, infix("|", parts[0], parts[1]))
    spread = [call("TM_ALL", kind, part) if alike else part for part, alike in zip(parts, shared, strict=True)]
    return call(vectors.types.idioms.operation("halves", uint32, vectors.lanes), *spread)


def _placed(vectors: OfPairs, e: Expr, *, is_upper: bool) -> Code:
    """An int16 in one half of each lane, or of a number that all share; what else a widened operand has is kept."""
    known = constant(e)
    if known is not None:
        return Code(hex((known & 0xFFFF) << (16 if is_upper else 0)) + "u")
    if _is_shared(vectors, e):
        number = vectors.scalars(e)
        return infix("<<", cast("uint32_t", number), Code("16")) if is_upper else cast("uint16_t", number)
    assert isinstance(e, Cast)
    half = vectors.half(e.operand, e.dtype)
    assert half is not None
    name, is_odd = half
    both = cast(vectors.type(uint32), Code(name))
    return both if is_odd == is_upper else infix("<<" if is_upper else ">>", both, Code("16"))
