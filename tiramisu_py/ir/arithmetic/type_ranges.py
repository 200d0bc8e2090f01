"""The range of values of an integer expression, from the types of its operands."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Select, Unary
from tiramisu_py.algorithm.types import DType, strong
from tiramisu_py.ir import Idiom, Load
from tiramisu_py.ir.rewriting import constant

Interval = tuple[int, int]


def limits(dtype: DType) -> Interval:
    """The least and the largest value of an integer type, or of a condition."""
    dtype = strong(dtype)
    if dtype.is_bool:
        return 0, 1
    return (0, 2**dtype.bits - 1) if dtype.kind == "u" else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)


def wrapped(value: int, dtype: DType) -> int:
    """The value of this type with the same low bits."""
    low = value & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.kind == "i" and low >> (dtype.bits - 1) else low


def fits(e: Expr, dtype: DType) -> bool:
    """Whether an integer type holds every value of an integer expression."""
    low, high = bounds(e)
    first, last = limits(dtype)
    return first <= low and high <= last


def bounds(e: Expr) -> Interval:
    """The least and the largest value that an integer expression can have, as far as its form shows."""
    whole = limits(e.dtype)
    found = _bounds(e) or whole
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole  # a value outside the range wraps


def _bounds(e: Expr) -> Interval | None:
    match e:
        case Const():
            return int(e.value), int(e.value)
        case Cast() if not e.operand.dtype.is_float:
            return bounds(e.operand)
        case Select():
            return _around(bounds(e.yes), bounds(e.no))
        case Unary(op="-"):
            low, high = bounds(e.operand)
            return -high, -low
        case Idiom() | Load():
            return None
        case Binary() if e.left.dtype == e.right.dtype == e.dtype:
            return _of_binary(e)
    return None


def _around(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _of_binary(e: Binary) -> Interval | None:
    (a, b), (c, d) = bounds(e.left), bounds(e.right)
    by = constant(e.right)
    match e.op:
        case "+":
            return a + c, b + d
        case "-":
            return a - d, b - c
        case "*":
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "&" if c >= 0:
            return 0, d
        case "&" if a >= 0:
            return 0, b
        case ">>" if by is not None and 0 <= by < e.dtype.bits:
            return a >> by, b >> by
        case "<<" if by is not None and 0 <= by < e.dtype.bits:
            return a << by, b << by
        case "//" | "%" if by is not None and by > 0:
            return divided(e.op, (a, b), by)
    return None


def divided(op: str, values: Interval, divisor: int) -> Interval:
    """The range of the quotients (``//``) or remainders (``%``) of an interval's numbers by a positive constant."""
    return (values[0] // divisor, values[1] // divisor) if op == "//" else (0, divisor - 1)
