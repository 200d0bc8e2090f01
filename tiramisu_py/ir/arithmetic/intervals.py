"""The range of an integer expression: intervals, and the visitor that takes them from operands to results.

`Ranges` has the arithmetic, and a subclass the range of what is no arithmetic: `bounds` gives it the range of its type,
and `kernel_ranges.Limits` that of loops and thread numbers.
"""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Call, Cast, Const, Expr, Select, Unary, constant
from tiramisu_py.algorithm.types import DType, strong
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Interval:
    """The integers from `low` to `high`; operators give the interval around all results."""

    low: int
    high: int

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        products = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(products), max(products))

    def __floordiv__(self, divisor: int) -> Interval:
        return Interval(self.low // divisor, self.high // divisor)

    def __mod__(self, divisor: int) -> Interval:
        if self.low // divisor == self.high // divisor:
            return Interval(self.low % divisor, self.high % divisor)
        return Interval(0, divisor - 1)

    def around(self, other: Interval) -> Interval:
        """The smallest interval with all numbers of both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Interval) -> bool:
        """Whether another interval has all its numbers."""
        return other.low <= self.low and self.high <= other.high


class Ranges:
    """The ranges of integer expressions."""

    def of(self, e: Expr) -> Interval | None:
        """The range of an expression; None if none is known."""
        return self.computed(e)

    def computed(self, e: Expr) -> Interval | None:
        """The range of a result, from those of its operands, as if its type had all integers; None if it is a leaf."""
        match e:
            case Const():
                return Interval(int(e.value), int(e.value))
            case Cast() if not e.operand.dtype.is_float:
                return self.of(e.operand)
            case Select():
                yes, no = self.of(e.yes), self.of(e.no)
                return None if yes is None or no is None else yes.around(no)
            case Call(function="popcount", extern=None):
                return Interval(0, e.dtype.bits)
            case Unary(op="-"):
                inner = self.of(e.operand)
                return None if inner is None else -inner
            case Binary() if strong(e.left.dtype) == strong(e.right.dtype) == strong(e.dtype):
                left, right = self.of(e.left), self.of(e.right)
                return None if left is None or right is None else _combined(e.op, left, right, e.dtype.bits)
        return None


def _combined(op: str, left: Interval, right: Interval, bits: int) -> Interval | None:
    """The range of an operation with numbers of `bits` bits; None if none is known."""
    by = right.low if right.low == right.high else None
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "min":
            return Interval(min(left.low, right.low), min(left.high, right.high))
        case "max":
            return Interval(max(left.low, right.low), max(left.high, right.high))
        case "&" if right.low >= 0:
            return Interval(0, right.high)
        case "&" if left.low >= 0:
            return Interval(0, left.high)
        case ">>" if by is not None and 0 <= by < bits:
            return left // (1 << by)
        case "<<" if by is not None and 0 <= by < bits:
            return left * Interval(1 << by, 1 << by)
        case "//" if by is not None and by > 0:
            return left // by
        case "%" if by is not None and by > 0:
            return left % by
    return None


class _OfTypes(Ranges):
    """The ranges of expressions of which no more is known than the types of their leaves."""

    def of(self, e: Expr) -> Interval:
        whole, found = limits(e.dtype), self.computed(e)
        return whole if found is None or not found.within(whole) else found  # a value outside the range wraps


_OF_TYPES = _OfTypes()


def limits(dtype: DType) -> Interval:
    """The values of an integer type, or of a condition."""
    return Interval(*dtype.limits)


def wrapped(value: int, dtype: DType) -> int:
    """The value of this type with the same low bits."""
    low = value & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.kind == "i" and low >> (dtype.bits - 1) else low


def bounds(e: Expr) -> Interval:
    """The values that an integer expression can have, as far as its form and the types in it show."""
    return _OF_TYPES.of(e)


def clamped(e: Expr) -> tuple[Expr, int | None, int | None]:
    """The expression inside a clamp by constants, and the lower and upper constant (None if there is none)."""
    ends: dict[str, int | None] = {"min": None, "max": None}
    while isinstance(e, Binary) and e.op in ends and ends[e.op] is None:
        left, right = constant(e.left), constant(e.right)
        if (left is None) == (right is None):
            break
        ends[e.op] = left if right is None else right
        e = e.left if left is None else e.right
    return e, ends["max"], ends["min"]


def saturated(e: Expr, dtype: DType) -> Expr | None:
    """The integer that is clamped to the range of a narrower type and nothing less; None where `e` is no such clamp."""
    inner, low, high = clamped(e)
    if inner is e or not e.dtype.is_integer or inner.dtype != e.dtype or e.dtype.bits <= dtype.bits:
        return None
    whole, given = limits(dtype), limits(inner.dtype)
    below = low == whole.low or (low is None and given.low >= whole.low)
    above = high == whole.high or (high is None and given.high <= whole.high)
    return inner if below and above else None


def fits(e: Expr, dtype: DType) -> bool:
    """Whether an integer type holds every value of an integer expression."""
    return bounds(e).within(limits(dtype))


def may_wrap(e: Binary) -> bool:
    """Whether an integer result may leave the range of its type."""
    found = _OF_TYPES.computed(e)
    return found is None or not found.within(limits(e.dtype))
