"""The range of floating-point expressions: from a least to a largest number, and whether NaN is possible.

Each end is the exact result for ends of operands, rounded away from the others to a number of the type. So it bounds
what is computed with any rounding to the nearest, and also where a C compiler contracts a product and a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tiramisu_py.algorithm.expressions import Access, Binary, Call, Cast, Const, Expr, Select, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import DType, promote, strong
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class FloatRange:
    """The numbers from `low` to `high`, which may be infinite; and NaN, if `has_nan`."""

    low: float
    high: float
    has_nan: bool = False

    @property
    def has_ends(self) -> bool:
        """Whether all numbers are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def around(self, other: FloatRange) -> FloatRange:
        """The smallest range with all numbers of both."""
        return FloatRange(min(self.low, other.low), max(self.high, other.high), self.has_nan or other.has_nan)


ANY = FloatRange(-math.inf, math.inf, True)

_ORDERS = ("<", "<=", ">", ">=")
_WHOLE: dict[str, Callable[[float], int]] = {
    "floor": math.floor, "ceil": math.ceil, "rint": round, "trunc": math.trunc,
}  # fmt: skip

#: What is known of an operand that is no arithmetic: an access or, as a float, an integer expression.
Leaf = Callable[[Expr], FloatRange]


class FloatRanges:
    """The ranges of floating-point expressions, from those of their leaves.

    `known` are ranges of expressions in a branch that is taken only where a condition holds. Unless arithmetic rounds
    as it is written (`is_strict`), nothing is known of its results, nor that they are the same in two places.
    """

    def __init__(self, leaf: Leaf, known: dict[object, FloatRange] | None = None, *, is_strict: bool = True) -> None:
        self.leaf = leaf
        self.known = known or {}
        self.is_strict = is_strict

    @deep
    def of(self, e: Expr) -> FloatRange:
        """The range of an expression."""
        found = self._computed(e)
        before = self.known.get(e.key())
        if before is None or (not self.is_strict and isinstance(e, Binary)):
            return found
        return FloatRange(max(found.low, before.low), min(found.high, before.high), found.has_nan and before.has_nan)

    def _computed(self, e: Expr) -> FloatRange:
        match e:
            case Const():
                value = float(strong(e.dtype).numpy.type(e.value))
                return ANY if math.isnan(value) else FloatRange(value, value)
            case Access():
                return self.leaf(e)
            case Cast() if e.operand.dtype.is_float:
                return _rounded(self.of(e.operand), e.dtype)
            case Cast():
                return _rounded(self.leaf(e.operand), e.dtype)
            case Unary(op="-"):
                inner = self.of(e.operand)
                return FloatRange(-inner.high, -inner.low, inner.has_nan)
            case Select():
                return self._chosen(e)
            case Call(extern=None):
                return self._called(e)
            case Binary():
                return self._combined(e)
        return ANY

    def _chosen(self, e: Select) -> FloatRange:
        sides = [(e.yes, True), (e.no, False)]
        taken = [
            self.under(e.condition, truth).of(side) for side, truth in sides if not self.excludes(e.condition, truth)
        ]
        return taken[0].around(taken[-1]) if taken else ANY

    def _operand(self, e: Expr, dtype: DType) -> FloatRange:
        """An operand converted to the type of the result."""
        return _rounded(self.of(e) if e.dtype.is_float else self.leaf(e), dtype)

    def _called(self, e: Call) -> FloatRange:
        if len(e.arguments) != 1:
            return ANY
        inner = self._operand(e.arguments[0], e.dtype)
        match e.function:
            case "abs":
                least = 0.0 if inner.low <= 0 <= inner.high else min(abs(inner.low), abs(inner.high))
                return FloatRange(least, max(abs(inner.low), abs(inner.high)), inner.has_nan)
            case "floor" | "ceil" | "rint" | "trunc" if inner.has_ends:
                whole: Callable[[float], int] = _WHOLE[e.function]
                return FloatRange(float(whole(inner.low)), float(whole(inner.high)), inner.has_nan)
        return ANY

    def _combined(self, e: Binary) -> FloatRange:
        a, b = (self._operand(side, e.dtype) for side in (e.left, e.right))
        has_nan = a.has_nan or b.has_nan
        match e.op:
            case "min":
                return FloatRange(min(a.low, b.low), min(a.high, b.high), has_nan)
            case "max":
                return FloatRange(max(a.low, b.low), max(a.high, b.high), has_nan)
            case "+" | "-" | "*" | "/" if a.has_ends and b.has_ends and self.is_strict:
                if e.op == "/" and b.low <= 0 <= b.high:
                    return ANY
                ends = [_exact(e.op, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
                return FloatRange(_below(min(ends), e.dtype), -_below(-max(ends), e.dtype), has_nan)
        return ANY

    def excludes(self, condition: Expr, truth: bool) -> bool:
        """Whether a condition never is `truth`: a comparison of ranges that do not overlap, or always do."""
        if not isinstance(condition, Binary) or condition.op not in _ORDERS or not _are_floats(condition):
            return False
        common = promote(condition.left.dtype, condition.right.dtype)
        a, b = (self._operand(side, common) for side in (condition.left, condition.right))
        if condition.op in (">", ">="):
            a, b = b, a
        is_strict = condition.op in ("<", ">")
        if truth:  # a < b never holds; NaN does not matter
            return b.high < a.low or (is_strict and b.high == a.low)
        return not (a.has_nan or b.has_nan) and (a.high < b.low or (not is_strict and a.high == b.low))

    def under(self, condition: Expr, truth: bool) -> FloatRanges:
        """The ranges where a condition is true, or is not."""
        known = dict(self.known)
        for e, found in self._implied(condition, truth):
            before = known.get(e.key(), ANY)
            known[e.key()] = FloatRange(
                max(found.low, before.low), min(found.high, before.high), found.has_nan and before.has_nan
            )
        return FloatRanges(self.leaf, known, is_strict=self.is_strict)

    def _implied(self, condition: Expr, truth: bool) -> list[tuple[Expr, FloatRange]]:
        """The fact that a true condition states of floats: a comparison that holds has no NaN on either side."""
        match condition:
            case Unary(op="~"):
                return self._implied(condition.operand, not truth)
            case Binary(op="&" | "|") if (condition.op == "&") == truth:
                return self._implied(condition.left, truth) + self._implied(condition.right, truth)
            case Call(function="isnan") if not truth:
                return [(condition.arguments[0], replace(ANY, has_nan=False))]
            case Call(function="isfinite") if truth:
                return [(condition.arguments[0], replace(ANY, has_nan=False))]
            case Binary(op="==" | "<" | "<=" | ">" | ">=") if truth and _are_floats(condition):
                common = promote(condition.left.dtype, condition.right.dtype)
                a, b = (self._operand(side, common) for side in (condition.left, condition.right))
                return _compared(condition, a, b)
            case Binary(op="!=") if not truth and _are_floats(condition):
                return [(side, replace(ANY, has_nan=False)) for side in (condition.left, condition.right)]
        return []


def _are_floats(e: Binary) -> bool:
    """Whether numbers are compared as floats, in a type that holds all floats among them."""
    return promote(e.left.dtype, e.right.dtype).is_float and (e.left.dtype.is_float or e.right.dtype.is_float)


def _compared(e: Binary, a: FloatRange, b: FloatRange) -> list[tuple[Expr, FloatRange]]:
    """The ranges of both sides of a comparison that holds."""
    below, above = FloatRange(-math.inf, math.inf), FloatRange(-math.inf, math.inf)
    if e.op in ("<", "<=", "=="):
        below, above = replace(below, high=b.high), replace(above, low=a.low)
    if e.op in (">", ">=", "=="):
        below, above = replace(below, low=b.low), replace(above, high=a.high)
    return [(e.left, below), (e.right, above)]


def _exact(op: str, x: float, y: float) -> Fraction:
    a, b = Fraction(x), Fraction(y)
    return a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else a / b


def _rounded(of: FloatRange, dtype: DType) -> FloatRange:
    """A range after a conversion to a type, rounded outwards."""
    low = _below(Fraction(of.low), dtype) if math.isfinite(of.low) else of.low
    high = -_below(Fraction(-of.high), dtype) if math.isfinite(of.high) else of.high
    return FloatRange(low, high, of.has_nan)


def _below(value: Fraction, dtype: DType) -> float:
    """The largest number of a float type that is not above a rational number; the least number beyond its range."""
    kind = strong(dtype).numpy.type
    try:
        near = kind(float(value))
    except OverflowError:
        return -math.inf if value < 0 else float(np.finfo(np.float64).max)
    number = float(near)
    if math.isinf(number):
        return number if number < 0 else math.inf
    while Fraction(number) > value:
        near = np.nextafter(near, kind(-math.inf))
        number = float(near)
        if math.isinf(number):
            return number
    return number
