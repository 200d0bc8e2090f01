"""Sums of 32 bits in indices, computed in 64: ``image[c + dc[p]]`` is a row of neighbours for neighbouring c.

The proof reads such a sum as a form of its values, and takes on trust that it does not overflow its 32 bits
(`algorithm.domains.reads`); so both have the same value. What the proof takes as one value stays as it is: products of
values, quotients, conversions of the user's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Iter, binary
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import int32, int64


def with_wide_indices(expression: Expr) -> Expr:
    """An expression whose accesses have indices in 64 bits."""
    return rewrite(expression, _access)


def _access(e: Expr) -> Expr | None:
    if not isinstance(e, Access) or not any(map(_moves, e.indices)):
        return None
    return e.rebuilt(tuple(with_wide_indices(_wide(index) if _moves(index) else index) for index in e.indices))


def _moves(index: Expr) -> bool:
    """Whether an index is a sum in 32 bits with an iterator among its terms, so that neighbours may have neighbours."""
    return _is_sum(index) and any(isinstance(term, Iter) for term in _terms(index))


def _terms(e: Expr) -> Iterator[Expr]:
    """The terms of a sum in 32 bits."""
    if isinstance(e, Cast):
        yield from _terms(e.operand)
    elif isinstance(e, Binary) and _is_sum(e):
        yield from (*_terms(e.left), *_terms(e.right))
    else:
        yield e


def _is_sum(index: Expr) -> bool:
    """Whether an index is a sum, a difference or a multiple in 32 bits."""
    if isinstance(index, Cast) and index.dtype == int64:
        return _is_sum(index.operand)
    if not isinstance(index, Binary) or index.dtype != int32:
        return False
    return index.op in ("+", "-") or (index.op == "*" and any(isinstance(x, Const) for x in (index.left, index.right)))


def _wide(e: Expr) -> Expr:
    """The value in 64 bits; sizes and iterators already have them."""
    if isinstance(e, Cast) and e.dtype == int64:
        return _wide(e.operand)
    if isinstance(e, Binary) and _is_sum(e):
        return binary(e.op, _wide(e.left), _wide(e.right))
    return Cast(e, int64) if e.dtype == int32 else e
