"""int64 arithmetic of the loop IR with simple folding: bounds and indices read as a person would write them."""

from __future__ import annotations

from collections.abc import Iterable

from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import bool_, int64


def number(value: int) -> Const:
    """An integer literal."""
    return Const(value, int64)


def plus(e: Expr, value: int) -> Expr:
    """``e + value``."""
    if value == 0:
        return e
    match e:
        case Const():
            return number(int(e.value) + value)
        case Binary(op="+" | "-", right=Const(value=own)):
            return _offset(e.left, value + (int(own) if e.op == "+" else -int(own)))
        case Binary(op="min" | "max"):
            return Binary(e.op, plus(e.left, value), plus(e.right, value), int64)
        case Binary(op="//", right=Const(value=divisor)):
            return Binary("//", plus(e.left, value * int(divisor)), e.right, int64)
    return _offset(e, value)


def _offset(e: Expr, value: int) -> Expr:
    if value == 0:
        return e
    return Binary("+" if value > 0 else "-", e, number(abs(value)), int64)


def times(e: Expr, factor: int) -> Expr:
    """``factor * e``."""
    if isinstance(e, Const):
        return number(int(e.value) * factor)
    return e if factor == 1 else Binary("*", number(factor), e, int64)


def added(a: Expr, b: Expr) -> Expr:
    """``a + b``."""
    if isinstance(b, Const):
        return plus(a, int(b.value))
    return plus(b, int(a.value)) if isinstance(a, Const) else Binary("+", a, b, int64)


def subtracted(a: Expr, b: Expr) -> Expr:
    """``a - b``."""
    return plus(a, -int(b.value)) if isinstance(b, Const) else Binary("-", a, b, int64)


def total(constant: int, terms: Iterable[tuple[int, Expr]]) -> Expr:
    """``constant + sum of factor * term``, positive terms first."""
    ordered = sorted(terms, key=lambda term: term[0] < 0)
    result: Expr | None = None
    for factor, term in ordered:
        if result is None:
            result = times(term, factor)
        elif factor < 0:
            result = subtracted(result, times(term, -factor))
        else:
            result = added(result, times(term, factor))
    return number(constant) if result is None else plus(result, constant)


def floor_divided(e: Expr, divisor: int) -> Expr:
    """``floor(e / divisor)``, divisor > 0."""
    if isinstance(e, Const):
        return number(int(e.value) // divisor)
    return e if divisor == 1 else Binary("//", e, number(divisor), int64)


def rounded(e: Expr) -> Expr:
    """The expression with a constant that is added to a quotient moved into the dividend: ``(C + 63) // 64``."""
    match e:
        case Binary(op="+" | "-", left=Binary(op="//") as quotient, right=Const(value=own)):
            return plus(quotient, int(own) if e.op == "+" else -int(own))
    return e


def smaller(a: Expr, b: Expr) -> Expr:
    """``min(a, b)``."""
    return Binary("min", a, b, int64)


def larger(a: Expr, b: Expr) -> Expr:
    """``max(a, b)``."""
    return Binary("max", a, b, int64)


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """The conditions joined by ``&``; None if there are none."""
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else Binary("&", result, condition, bool_)
    return result


@deep
def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that a conjunction joins."""
    if isinstance(condition, Binary) and condition.op == "&" and condition.dtype.is_bool:
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]
