"""Weighted sums of vectors with one multiplication for each different weight.

Before: ``2*a + 3*b + 2*c``. After: ``2*(a + c) + 3*b``. Integers wrap around, so that the bits are the same in any
order and grouping. Values that are widened stay as they are: processors multiply and add those in pairs.
"""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, constant
from tiramisu_py.algorithm.traversal import kinds, rewrite
from tiramisu_py.ir import Load, Ramp

#: An expression without any of these has no weighted sums of vectors.
_NEEDED = frozenset(("+", "*", Ramp))


def grouped(e: Expr) -> Expr:
    """The expression with the terms of integer sums grouped by weight, where that saves multiplications."""
    return rewrite(e, _changed) if kinds(e) >= _NEEDED else e


def _changed(e: Expr) -> Expr | None:
    if isinstance(e, Load) or not kinds(e) >= _NEEDED:
        return e
    if not (isinstance(e, Binary) and e.op == "+" and e.dtype.is_integer):
        return None
    terms = _terms(e)
    weighted = [_weighted(term) for term in terms]
    groups: dict[int, list[Expr]] = {}
    for weight, value in weighted:
        groups.setdefault(weight, []).append(value)
    products = sum(weight != 1 for weight, _ in weighted)
    if products == sum(weight != 1 for weight in groups) or any(isinstance(value, Cast) for _, value in weighted):
        return None
    return _sum([_product(weight, _sum([grouped(value) for value in values])) for weight, values in groups.items()])


def _terms(e: Expr) -> list[Expr]:
    """The terms of a sum of one type, from left to right."""
    terms, waiting = [], [e]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Binary) and part.op == "+" and part.left.dtype == part.right.dtype == e.dtype:
            waiting += [part.right, part.left]
        else:
            terms.append(part)
    return terms


def _weighted(term: Expr) -> tuple[int, Expr]:
    """The constant factor of a term, and the other one; 1 and the term if there is none."""
    if isinstance(term, Binary) and term.op == "*" and term.left.dtype == term.right.dtype == term.dtype:
        for weight, value in ((term.right, term.left), (term.left, term.right)):
            known = constant(weight)
            if known is not None:
                return known, value
    return 1, term


def _sum(terms: list[Expr]) -> Expr:
    total = terms[0]
    for term in terms[1:]:
        total = Binary("+", total, term, total.dtype)
    return total


def _product(weight: int, value: Expr) -> Expr:
    return value if weight == 1 else Binary("*", value, Const(weight, value.dtype), value.dtype)
