"""Partial derivatives of an expression, one operation deep: its operands, each with the partial derivative as a factor.

A partial derivative is a function of a multiplier: ``by -> by * d(node)/d(operand)``. Backwards the multiplier is the
adjoint of the node, forwards it is the tangent of the operand. Ties and kinks are as in PyTorch: a maximum of two equal
values gives each a half, ``clip`` 1 at its ends, ``maximum(x, 0)`` and ``abs`` 0 at 0. Source: Griewank and Walther,
*Evaluating Derivatives*, 2008, chapter 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tiramisu_py.algorithm.expressions import (
    Binary,
    Call,
    Cast,
    Component,
    Const,
    Expr,
    Select,
    Stopped,
    TupleValue,
    Unary,
    as_expr,
    as_typed,
    binary,
    call,
    select,
    unary,
)
from tiramisu_py.algorithm.traversal import accesses, iterators
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass

#: A multiplier as that of the operand.
Factor = Callable[[Expr], Expr]


@dataclass(frozen=True, eq=False)
class ValueDependence:
    """An operand of a node, or of several values its component `part`, and the partial derivative by it.

    Under a select, the operand counts where the `condition` is `truth`.
    """

    operand: Expr
    factor: Factor
    part: int | None = None
    condition: Expr | None = None
    truth: bool = True


def _same(by: Expr) -> Expr:
    return by


def dependences(node: Expr, part: int | None = None) -> Iterator[ValueDependence]:
    """The operands on which a node, or one component of it, depends smoothly; raises `DeclarationError` by name."""
    match node:
        case Unary(op="-"):
            yield ValueDependence(node.operand, lambda by: unary("-", by))
        case Binary():
            yield from _of_binary(node)
        case Select():
            yield ValueDependence(node.yes, _same, part, node.condition, True)
            yield ValueDependence(node.no, _same, part, node.condition, False)
        case Stopped():
            return
        case Cast(operand=operand) if _is_real(node.dtype) and _is_real(operand.dtype):
            yield ValueDependence(operand, _same)
        case TupleValue() if part is not None:
            yield ValueDependence(node.values[part], _same)
        case Component():
            yield ValueDependence(node.whole, _same, node.position)
        case Call():
            yield from _of_call(node)
        case StageCall():  # its own adjoint= has the factors; numbers are refused by name
            for _, _, array in node.arrays:
                yield ValueDependence(array, _same)
            for number, dtype in node.scalars:
                if dtype.is_float:
                    yield ValueDependence(number, _same)


def zero(dtype: DType) -> Const:
    """The literal 0 of a type."""
    return Const(0.0, dtype)


def where(condition: Expr, value: Expr) -> Expr:
    """`value` where a condition holds, else 0."""
    return select(condition, value, as_typed(as_expr(0.0), value.dtype))


def times(by: Expr, factor: Expr | float) -> Expr:
    """A product, without factors of 1."""
    if isinstance(by, Const) and by.value == 1 and isinstance(factor, Expr):
        return factor
    return binary("*", by, factor)


def divided(by: Expr, divisor: Expr) -> Expr:
    """A quotient; if the divisor is a value of fewer iterators, the product with its reciprocal, which a row has once.

    ``d_out[i, k] / sqrt(var[i])`` is ``d_out[i, k] * (1 / sqrt(var[i]))``: the last bit may differ, and the reciprocal
    of a divisor below the least normal number is infinite. Halves, which have few exponents, are divided.
    """
    return times(by, binary("/", 1.0, divisor)) if _is_of_a_row(divisor, by) else binary("/", by, divisor)


def _is_of_a_row(divisor: Expr, by: Expr) -> bool:
    return bool(accesses(divisor)) and not divisor.dtype.is_half and iterators(divisor) < iterators(by)


def _is_real(dtype: DType) -> bool:
    return dtype.is_float and not isinstance(dtype, TupleType)


# -- operators


def _of_binary(node: Binary) -> Iterator[ValueDependence]:
    left, right = node.left, node.right
    match node.op:
        case "+":
            yield ValueDependence(left, _same)
            yield ValueDependence(right, _same)
        case "-":
            yield ValueDependence(left, _same)
            yield ValueDependence(right, lambda by: unary("-", by))
        case "*":
            yield ValueDependence(left, lambda by: times(by, right))
            yield ValueDependence(right, lambda by: times(by, left))
        case "/":
            yield ValueDependence(left, lambda by: divided(by, right))
            yield ValueDependence(right, lambda by: unary("-", times(divided(by, right), _quotient(node, by))))
        case "%":  # left - right * floor(left / right)
            yield ValueDependence(left, _same)
            yield ValueDependence(right, lambda by: unary("-", times(by, binary("//", left, right))))
        case "**":
            yield from _of_power(node)
        case "min" | "max":
            yield from _of_ends(node)


def _quotient(node: Binary, by: Expr) -> Expr:
    """A quotient as a factor beside others by the same divisor: itself, which may be the value of a computation."""
    return divided(node.left, node.right) if _is_of_a_row(node.right, by) else node


def _of_power(node: Binary) -> Iterator[ValueDependence]:
    base, exponent = node.left, node.right
    if isinstance(exponent, Const):
        if exponent.value == 0:
            return
        if exponent.value == 1:
            yield ValueDependence(base, _same)
        elif exponent.value == 2:
            yield ValueDependence(base, lambda by: times(by, binary("*", 2.0, base)))
        else:
            power = binary("*", float(exponent.value), binary("**", base, Const(exponent.value - 1, exponent.dtype)))
            yield ValueDependence(base, lambda by: times(by, power))
        return
    lower = select(binary("==", exponent, 0), 0.0, binary("*", exponent, binary("**", base, binary("-", exponent, 1))))
    yield ValueDependence(base, lambda by: times(by, lower))
    grown = select(
        binary("&", binary("==", base, 0), binary(">=", exponent, 0)), 0.0, binary("*", node, call("log", base))
    )
    yield ValueDependence(exponent, lambda by: times(by, grown))


def _of_ends(node: Binary) -> Iterator[ValueDependence]:
    """A maximum or a minimum: of two values, of a value and 0, or between two ends."""
    inner, high = node.left, node.right
    if node.op == "min" and isinstance(inner, Binary) and inner.op == "max":
        x, low = inner.left, inner.right
        inside = binary("&", binary(">=", x, low), binary("<=", x, high))
        yield ValueDependence(x, lambda by: where(inside, by))
        below = binary("&", binary("<", x, low), binary("<=", low, high))
        yield ValueDependence(low, lambda by: where(below, by))
        above = binary("|", binary(">", x, high), binary("<", high, low))
        yield ValueDependence(high, lambda by: where(above, by))
        return
    better = ">" if node.op == "max" else "<"
    for one, other in ((node.left, node.right), (node.right, node.left)):
        yield ValueDependence(one, _share_of(better, one, other))


def _share_of(better: str, one: Expr, other: Expr) -> Factor:
    """The part of a multiplier that goes to one of two values: all, a half, or nothing; at 0 nothing."""
    wins = binary(better, one, other)
    if better == ">" and isinstance(other, Const) and other.value == 0:
        return lambda by: where(wins, by)
    return lambda by: select(wins, by, where(binary("==", one, other), times(by, 0.5)))


# -- functions


def _of_call(node: Call) -> Iterator[ValueDependence]:
    if node.extern is not None:
        yield from _of_extern(node)
    elif node.function in _OF_ONE:
        (x,) = node.arguments
        yield ValueDependence(x, _times_derivative(node, x))
    elif node.function in _OF_TWO:
        a, b = node.arguments
        for operand, derivative in zip((a, b), _OF_TWO[node.function], strict=True):
            if derivative is not None:
                yield ValueDependence(operand, _of_two(derivative, a, b, node))
    elif node.function not in _CONSTANT and node.dtype.is_float:
        for argument in node.arguments:
            if argument.dtype.is_float:
                yield ValueDependence(argument, _unknown(node))


def _unknown(node: Call) -> Factor:
    def factor(by: Expr) -> Expr:
        raise DeclarationError(
            f"{node.function} in {node} has no derivative: leave out of wrt= what it depends on, or write "
            f"tm.stop_gradient({node.arguments[0]}) as its argument"
        )

    return factor


def _times_derivative(node: Call, x: Expr) -> Factor:
    return lambda by: _OF_ONE[node.function](by, x, node)


def _of_two(derivative: Callable[..., Expr], a: Expr, b: Expr, y: Expr) -> Factor:
    return lambda by: derivative(by, a, b, y)


def _of_extern(node: Call) -> Iterator[ValueDependence]:
    for position, argument in enumerate(node.arguments):
        if node.dtype.is_float and argument.dtype.is_float:
            yield ValueDependence(argument, _of_argument(node, position))


def _of_argument(node: Call, position: int) -> Factor:
    extern, many = node.extern, len(node.arguments)
    assert extern is not None

    def factor(by: Expr) -> Expr:
        if extern.derivative is None:
            raise DeclarationError(
                f"the external function {node.function} in {node} has no derivative that is known: give it one, "
                f"tm.extern({node.function!r}, ..., derivative=lambda ...), or leave out of wrt= what it depends on"
            )
        found = extern.derivative(*node.arguments)
        each = found if isinstance(found, tuple) else (found,)
        if len(each) != many or each[position] is None:
            raise DeclarationError(
                f"derivative= of the external function {node.function} gives {found}: give one expression for each of "
                f"its {many} arguments, and None for those alone that are no floats"
            )
        return times(by, as_expr(each[position]))

    return factor


def _abs(by: Expr, x: Expr, y: Expr) -> Expr:
    return select(binary(">", x, 0), by, where(binary("<", x, 0), unary("-", by)))


#: Functions that are constant almost everywhere.
_CONSTANT = ("floor", "ceil", "rint", "trunc", "popcount", "isnan", "isinf", "isfinite")

#: For each function of one argument x, the product of a multiplier and the derivative; y is the value of the function.
_OF_ONE: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "sqrt": lambda by, x, y: divided(by, 2.0 * y),
    "cbrt": lambda by, x, y: divided(by, 3.0 * (y * y)),
    "exp": lambda by, x, y: times(by, y),
    "exp2": lambda by, x, y: times(by, y * math.log(2)),
    "expm1": lambda by, x, y: times(by, y + 1.0),
    "log": lambda by, x, y: divided(by, x),
    "log2": lambda by, x, y: by / (x * math.log(2)),
    "log10": lambda by, x, y: by / (x * math.log(10)),
    "log1p": lambda by, x, y: by / (x + 1.0),
    "sin": lambda by, x, y: times(by, call("cos", x)),
    "cos": lambda by, x, y: -times(by, call("sin", x)),
    "tan": lambda by, x, y: times(by, 1.0 + y * y),
    "arcsin": lambda by, x, y: by / call("sqrt", 1.0 - x * x),
    "arccos": lambda by, x, y: -(by / call("sqrt", 1.0 - x * x)),
    "arctan": lambda by, x, y: by / (1.0 + x * x),
    "sinh": lambda by, x, y: times(by, call("cosh", x)),
    "cosh": lambda by, x, y: times(by, call("sinh", x)),
    "tanh": lambda by, x, y: times(by, 1.0 - y * y),
    "arcsinh": lambda by, x, y: by / call("sqrt", x * x + 1.0),
    "arccosh": lambda by, x, y: by / call("sqrt", x * x - 1.0),
    "arctanh": lambda by, x, y: by / (1.0 - x * x),
    "erf": lambda by, x, y: times(by, 2.0 / math.sqrt(math.pi) * call("exp", -(x * x))),
    "abs": _abs,
}

#: For each function of two arguments a and b, the same by a, and by b.
_OF_TWO: dict[str, tuple[Callable[..., Expr] | None, Callable[..., Expr] | None]] = {
    "arctan2": (
        lambda by, a, b, y: times(by, b / (a * a + b * b)),
        lambda by, a, b, y: -times(by, a / (a * a + b * b)),
    ),
    "hypot": (lambda by, a, b, y: times(by, a / y), lambda by, a, b, y: times(by, b / y)),
    "fmod": (lambda by, a, b, y: by, lambda by, a, b, y: -times(by, call("trunc", a / b))),
    "copysign": (lambda by, a, b, y: select(binary("==", a, 0), 0.0, times(by, y / a)), None),
}
