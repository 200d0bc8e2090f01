"""Index arithmetic on expressions, with numbers folded, so that indices stay short."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tiramisu_py.algorithm.expressions import (
    COMPARISONS,
    Binary,
    Const,
    Expr,
    Iter,
    Param,
    as_expr,
    as_typed,
    binary,
    constant,
    select,
    unary,
)
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import DType, weak_int

ZERO = Const(0, weak_int)


#: A linear form: expressions by their keys with factors, and a constant.
Linear = tuple[dict[object, tuple[Expr, int]], int]


def combined(op: str, a: Expr, b: Expr) -> Expr:
    """An operator of two operands; index forms are added up, and divided as far as constants do: ``(32*p + 31)//32``
    is p.
    """
    if a.dtype is weak_int and b.dtype is weak_int and op in ("+", "-", "*", "//", "%"):
        found = _of_forms(op, _linear(a), _linear(b))
        if found is not None:
            return found
    x, y = _number(a), _number(b)
    if x is not None and y is not None and op in ("min", "max"):
        return Const(min(x, y) if op == "min" else max(x, y), weak_int)
    return binary(op, a, b)


def linear_terms(e: Expr) -> tuple[list[tuple[Expr, int]], int]:
    """The terms of an index form with their factors, and its constant."""
    terms, constant = _linear(e)
    return list(terms.values()), constant


def is_positive(e: Expr) -> bool:
    """Whether a form is seen to be at least 1: iterators and sizes are at least 0."""
    terms, constant = _linear(e)
    return constant >= 1 and all(isinstance(each, Iter | Param) and factor >= 0 for each, factor in terms.values())


def _number(e: Expr) -> int | None:
    return constant(e) if e.dtype is weak_int else None


def _linear(e: Expr) -> Linear:
    number = _number(e)
    if number is not None:
        return {}, number
    if isinstance(e, Binary) and e.dtype is weak_int and e.op in ("+", "-", "*"):
        left, right = _linear(e.left), _linear(e.right)
        if e.op in ("+", "-"):
            return _sum(left, right, 1 if e.op == "+" else -1)
        for one, other in ((left, right), (right, left)):
            if not other[0]:
                return _times(one, other[1])
    return {e.key(): (e, 1)}, 0


def _times(a: Linear, factor: int) -> Linear:
    return ({k: (e, c * factor) for k, (e, c) in a[0].items()} if factor else {}), a[1] * factor


def _sum(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a[0])
    for key, (e, c) in b[0].items():
        total = terms.get(key, (e, 0))[1] + sign * c
        terms[key] = (e, total)
    return {k: each for k, each in terms.items() if each[1]}, a[1] + sign * b[1]


def _of_forms(op: str, a: Linear, b: Linear) -> Expr | None:
    if op in ("+", "-"):
        return _expr(_sum(a, b, 1 if op == "+" else -1))
    if op == "*":
        if not b[0]:
            return _expr(_times(a, b[1]))
        return _expr(_times(b, a[1])) if not a[0] else None
    n = b[1]
    if b[0] or n < 1:
        return None
    whole = {k: (e, c // n) for k, (e, c) in a[0].items() if c % n == 0}, a[1] // n
    rest = {k: (e, c) for k, (e, c) in a[0].items() if c % n}, a[1] % n
    if not rest[0]:  # (n*q + r) // n = q + r // n
        return _expr(whole) if op == "//" else Const(rest[1], weak_int)
    if op == "%":
        return binary("%", _expr(rest), n)
    divided = binary("//", _expr(rest), n)
    return _expr(_sum(whole, ({divided.key(): (divided, 1)}, 0), 1))


def _expr(form: Linear) -> Expr:
    found: Expr | None = None
    for e, c in sorted(form[0].values(), key=lambda each: each[1] < 0):
        own = e if abs(c) == 1 else binary("*", e, abs(c))
        found = (own if c > 0 else unary("-", own)) if found is None else binary("+" if c > 0 else "-", found, own)
    number = form[1]
    if found is None:
        return Const(number, weak_int)
    return found if number == 0 else binary("+" if number > 0 else "-", found, abs(number))


def typed(given: Expr | bool | int | float, dtype: DType) -> Expr:
    """A number in a type, or a value, which has it already."""
    return given if isinstance(given, Expr) else as_typed(as_expr(given), dtype)


def mentioning(condition: Expr, it: Iter) -> Expr:
    """A condition that says the same and mentions an iterator, which is always 0, wherever it depends on values."""
    if not accesses(condition):
        return condition
    if isinstance(condition, Binary) and condition.op in ("&", "|"):
        return binary(condition.op, mentioning(condition.left, it), mentioning(condition.right, it))
    if isinstance(condition, Binary) and condition.op in COMPARISONS and condition.left.dtype.is_integer:
        return binary(condition.op, binary("+", condition.left, it), condition.right)
    return binary("!=", binary("+", select(condition, as_expr(1), as_expr(0)), it), 0)


def steps(low: Expr, high: Expr, step: Expr) -> Expr:
    """The number of iterations from `low` up to `high`: ``(high - low + step - 1) // step``; below 1 for none."""
    length = combined("-", high, low)
    if isinstance(step, Const) and step.value == 1:
        return length
    return combined("//", combined("-", combined("+", length, step), Const(1, weak_int)), step)


def reshaped(index: Sequence[Expr], given: tuple[int, ...], shape: tuple[int, ...]) -> list[Expr]:
    """The index in a block of another shape of the element at an index: ``[i]`` of 64 is ``[i // 8, i % 8]`` of 8 x 8.

    Dimensions of extent 1 have index 0; where only these differ, the others keep their indices.
    """
    wide = [(i, extent) for i, extent in zip(index, given, strict=True) if extent != 1]
    if [extent for _, extent in wide] == [extent for extent in shape if extent != 1]:
        left = [i for i, _ in wide]
        return [ZERO if extent == 1 else left.pop(0) for extent in shape]
    number: Expr = ZERO
    for i, extent in zip(index, given, strict=True):
        number = combined("+", combined("*", number, Const(extent, weak_int)), i)
    found = []
    for axis, extent in enumerate(shape):
        inner = prod(shape[axis + 1 :])
        part = combined("//", number, Const(inner, weak_int))
        outermost = prod(shape[:axis]) == 1
        found.append(ZERO if extent == 1 else part if outermost else combined("%", part, Const(extent, weak_int)))
    return found
