"""Polynomials of int64 expressions: sums of products of variables, parameters and other atoms, to compare them.

``(h*M + x)*K + y`` and ``y + K*x + h*K*M`` are one polynomial; `linear` has products as atoms, in the order in which
they are written. As there, equal polynomials are equal modulo 2**64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tiramisu_py.algorithm.expressions import Binary, Expr, Unary, constant

#: Coefficients by monomials, each the sorted keys of its atoms; none is 0.
Polynomial = Mapping[tuple[Any, ...], int]


def polynomial(e: Expr) -> Polynomial:
    """The polynomial of an expression."""
    value = constant(e)
    if value is not None:
        return {(): value} if value else {}
    match e:
        case Binary(op="+" | "-"):
            sign = 1 if e.op == "+" else -1
            return _sum(polynomial(e.left), polynomial(e.right), sign)
        case Binary(op="*"):
            return _product(polynomial(e.left), polynomial(e.right))
        case Unary(op="-"):
            return _sum({}, polynomial(e.operand), -1)
    return {(repr(e.key()),): 1}


def same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are one polynomial."""
    return polynomial(a) == polynomial(b)


def _sum(a: Polynomial, b: Polynomial, sign: int) -> Polynomial:
    total = Counter(dict(a))
    for monomial, count in b.items():
        total[monomial] += sign * count
    return {monomial: count for monomial, count in total.items() if count}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Counter[tuple[Any, ...]] = Counter()
    for left, one in a.items():
        for right, other in b.items():
            total[tuple(sorted((*left, *right)))] += one * other
    return {monomial: count for monomial, count in total.items() if count}
