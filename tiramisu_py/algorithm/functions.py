"""Functions of expressions, for users: NumPy's names, NumPy's result types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import (
    Expr,
    ExternFunction,
    Operand,
    Stopped,
    as_expr,
    binary,
    call,
    check_single,
    select,
    tuple_value,
)
from tiramisu_py.algorithm.names import check_callable, check_extern_name, check_name
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DeclarationError, DTypeError
from tiramisu_py.public_calls import own_call

__all__ = [
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "floor", "ceil", "rint",
    "trunc", "erf", "isnan", "isinf", "isfinite", "arctan2", "hypot", "fmod", "copysign", "absolute", "minimum",
    "maximum", "clip", "where", "operator", "extern", "stop_gradient",
]  # fmt: skip


@own_call
def sqrt(x: Operand) -> Expr:
    """The square root."""
    return call("sqrt", x)


@own_call
def cbrt(x: Operand) -> Expr:
    """The cube root."""
    return call("cbrt", x)


@own_call
def exp(x: Operand) -> Expr:
    """``e ** x``. Of float32 it runs in vectors on cores, with the same bits in each schedule."""
    return call("exp", x)


@own_call
def exp2(x: Operand) -> Expr:
    """``2 ** x``."""
    return call("exp2", x)


@own_call
def expm1(x: Operand) -> Expr:
    """``e ** x - 1``, exact near 0."""
    return call("expm1", x)


@own_call
def log(x: Operand) -> Expr:
    """The natural logarithm."""
    return call("log", x)


@own_call
def log2(x: Operand) -> Expr:
    """The logarithm to base 2."""
    return call("log2", x)


@own_call
def log10(x: Operand) -> Expr:
    """The logarithm to base 10."""
    return call("log10", x)


@own_call
def log1p(x: Operand) -> Expr:
    """``log(1 + x)``, exact near 0."""
    return call("log1p", x)


@own_call
def sin(x: Operand) -> Expr:
    """The sine."""
    return call("sin", x)


@own_call
def cos(x: Operand) -> Expr:
    """The cosine."""
    return call("cos", x)


@own_call
def tan(x: Operand) -> Expr:
    """The tangent."""
    return call("tan", x)


@own_call
def arcsin(x: Operand) -> Expr:
    """The inverse sine."""
    return call("arcsin", x)


@own_call
def arccos(x: Operand) -> Expr:
    """The inverse cosine."""
    return call("arccos", x)


@own_call
def arctan(x: Operand) -> Expr:
    """The inverse tangent."""
    return call("arctan", x)


@own_call
def sinh(x: Operand) -> Expr:
    """The hyperbolic sine."""
    return call("sinh", x)


@own_call
def cosh(x: Operand) -> Expr:
    """The hyperbolic cosine."""
    return call("cosh", x)


@own_call
def tanh(x: Operand) -> Expr:
    """The hyperbolic tangent."""
    return call("tanh", x)


@own_call
def arcsinh(x: Operand) -> Expr:
    """The inverse hyperbolic sine."""
    return call("arcsinh", x)


@own_call
def arccosh(x: Operand) -> Expr:
    """The inverse hyperbolic cosine."""
    return call("arccosh", x)


@own_call
def arctanh(x: Operand) -> Expr:
    """The inverse hyperbolic tangent."""
    return call("arctanh", x)


@own_call
def floor(x: Operand) -> Expr:
    """The largest whole number that is not larger, as a float."""
    return call("floor", x)


@own_call
def ceil(x: Operand) -> Expr:
    """The smallest whole number that is not smaller, as a float."""
    return call("ceil", x)


@own_call
def rint(x: Operand) -> Expr:
    """The nearest whole number, ties to even, as a float."""
    return call("rint", x)


@own_call
def trunc(x: Operand) -> Expr:
    """The whole part, as a float."""
    return call("trunc", x)


@own_call
def erf(x: Operand) -> Expr:
    """The error function."""
    return call("erf", x)


@own_call
def isnan(x: Operand) -> Expr:
    """Whether a float is not a number."""
    return call("isnan", x)


@own_call
def isinf(x: Operand) -> Expr:
    """Whether a float is infinite."""
    return call("isinf", x)


@own_call
def isfinite(x: Operand) -> Expr:
    """Whether a float is finite."""
    return call("isfinite", x)


@own_call
def arctan2(a: Operand, b: Operand) -> Expr:
    """The angle of the point ``(b, a)``."""
    return call("arctan2", a, b)


@own_call
def hypot(a: Operand, b: Operand) -> Expr:
    """``sqrt(a * a + b * b)``."""
    return call("hypot", a, b)


@own_call
def fmod(a: Operand, b: Operand) -> Expr:
    """The remainder of a division that truncates, as in C."""
    return call("fmod", a, b)


@own_call
def copysign(a: Operand, b: Operand) -> Expr:
    """The magnitude of ``a`` with the sign of ``b``."""
    return call("copysign", a, b)


@own_call
def absolute(x: Operand) -> Expr:
    """The absolute value, in the type of `x`; the same as Python's ``abs(x)``."""
    return call("abs", x)


@own_call
def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller of two values; not a number if one of them is."""
    return binary("min", a, b)


@own_call
def maximum(a: Operand, b: Operand) -> Expr:
    """The larger of two values; not a number if one of them is."""
    return binary("max", a, b)


@own_call
def clip(x: Operand, low: Operand, high: Operand) -> Expr:
    """`x`, but at least `low` and at most `high`."""
    return minimum(maximum(x, low), high)


@own_call
def where(condition: Operand, yes: Operand, no: Operand) -> Expr:
    """`yes` where `condition` holds, else `no`; another name of `select`."""
    return select(condition, yes, no)


@own_call
def operator(
    name: str,
    combine: Callable[[Expr, Expr], Operand | tuple[Operand, ...]],
    identity: bool | int | float | tuple[Any, ...] | Callable[[DType], Any],
    names: Sequence[str] = (),
    *,
    commutative: bool = True,
    derivative: Callable[[Expr, Expr], Operand] | None = None,
) -> Operator:
    """An associative operator for reductions, commutative if nothing else is said.

    `combine` builds the expression of two operands; `identity` is the neutral element, or gives it for a type. A
    reduction by it, in a group or in the chunks of a scan too, tries these laws on some terms, and is refused with
    operands for which they do not hold, such as those of a subtraction; beyond that they are taken on trust. With
    ``commutative=False`` (products of matrices, the last value that is not 0) only neighbouring terms and ranges of
    terms are combined, as the proof shows. With a tuple as `identity` it combines several values at once: each operand
    is unpacked, ``(n, mean), (m, other) = a, b``, and the result is a tuple. `names` are those of its components (by
    default 0, 1, ...). `derivative` is for gradients: a function of the result and one term that gives the derivative
    of the former by the latter, such as ``lambda y, x: tm.exp(x - y)`` for ``log(exp(a) + exp(b))``.
    """
    check_name(name, "an operator")
    if not callable(combine):
        raise DeclarationError(f"the operator {name} needs a function of two operands, not {combine!r}")
    given = identity if isinstance(identity, tuple) else (identity,)
    if not callable(identity) and not all(isinstance(each, bool | int | float | np.generic) for each in given):
        raise DeclarationError(f"the identity of the operator {name} is {identity!r}; give a number")
    own = _component_names(name, names, identity)
    try:
        signature(combine).bind(None, None)
    except ValueError:  # a function written in C, without a signature
        pass
    except TypeError as error:
        raise DeclarationError(f"the operator {name} is called with two operands, lambda a, b: ...; {error}") from None
    neutral = identity if callable(identity) else _constantly(identity)

    def combined(a: Expr, b: Expr) -> Expr:
        found = combine(a, b)
        return tuple_value(found, own) if isinstance(found, tuple) else as_expr(found)

    if not isinstance(commutative, bool):
        raise DeclarationError(f"commutative= of the operator {name} is {commutative!r}: give True or False")
    if derivative is not None:
        check_callable(derivative, 2, f"derivative= of the operator {name} is called with the result and a term")
    return Operator(name, combined, neutral, own, commutative, derivative)


def _component_names(operator: str, names: Sequence[str], identity: object) -> tuple[str, ...]:
    if not isinstance(names, list | tuple):
        raise DeclarationError(f"names= of the operator {operator} is {names!r}; give a list of names")
    for name in names:
        if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
            raise DeclarationError(f"{name!r} cannot be the name of a component of the operator {operator}")
    if len(set(names)) < len(names) or (names and isinstance(identity, tuple) and len(names) != len(identity)):
        raise DeclarationError(f"the components of the operator {operator} are {', '.join(names)}; name each once")
    return tuple(names)


def _constantly(value: Any) -> Callable[[DType], Any]:
    return lambda dtype: value


@own_call
def extern(
    name: str,
    arguments: Sequence[Any],
    result: Any,
    python: Callable[..., Any],
    *,
    header: str = "",
    source: str = "",
    derivative: Callable[..., Any] | None = None,
) -> ExternFunction:
    """A C function ``result name(arguments)`` that the user supplies, and its equivalent in Python for `evaluate()`.

    `header` is included by the generated source; `source` is C text that is compiled with it. `derivative` is for
    gradients: the expression of the derivative, of the arguments, ``lambda x: 3 * x * x``; of several arguments a tuple
    of those by each, with None for arguments that are no floats.
    """
    for what, text in (("header", header), ("source", source)):
        if not isinstance(text, str):
            raise DeclarationError(f"{what}= of the external function {name} is {text!r}, not C text")
    check_extern_name(name, source)
    if not isinstance(arguments, list | tuple):
        raise DeclarationError(f"the external function {name} takes {arguments!r}; give a list of types, [{arguments}]")
    if not callable(python):
        raise DeclarationError(f"the external function {name} needs its equivalent in Python, not {python!r}")
    try:
        types = tuple(ty.as_dtype(argument) for argument in arguments)
        made = ExternFunction(name, types, ty.as_dtype(result), python, header, source, derivative)
    except DTypeError as error:
        raise DTypeError(f"the external function {name}: {error}") from None
    if derivative is not None:
        check_callable(derivative, len(types), f"derivative= of the external function {name} takes its arguments")
    return made


@own_call
def stop_gradient(x: Operand) -> Expr:
    """`x` itself, as a constant for derivatives: nothing of it has a gradient through this expression."""
    given = as_expr(x)
    check_single(given)
    return given if given.dtype.weak or not given.dtype.is_float else Stopped(given, given.dtype)
