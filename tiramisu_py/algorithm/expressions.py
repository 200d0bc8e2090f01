"""Expressions of Layer I: what a value is, as an immutable tree.

The whole language is on this screen: literals, iterators, parameters, accesses, operators, `Select`, `Cast`
and `Call`. A node knows its scalar type; it holds no isl object, has no value equality (``==`` builds an
expression; use `same_as`), and refuses `bool()` and iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Union

import numpy as np

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DeclarationError, DTypeError

#: What a user may write where an expression is expected.
Operand = Union["Expr", bool, int, float, np.generic]

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "min", "max")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
BITWISE = ("&", "|", "^", "<<", ">>")


class Expr:
    """Base of all expressions; the operators of Python build new nodes."""

    dtype: DType
    __array_ufunc__ = None
    __iter__ = None

    def __bool__(self) -> NoReturn:
        raise DeclarationError(
            f"{self} is an expression, not a truth value; combine conditions with & | ~ and choose with tm.select"
        )

    __hash__ = object.__hash__

    def __add__(self, other: Operand) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return binary("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return binary("//", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return binary("%", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return binary("%", other, self)

    def __pow__(self, other: Operand) -> Expr:
        return binary("**", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return binary("**", other, self)

    def __lt__(self, other: Operand) -> Expr:
        return binary("<", self, other)

    def __le__(self, other: Operand) -> Expr:
        return binary("<=", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return binary(">", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return binary(">=", self, other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return binary("==", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return binary("!=", self, other)  # type: ignore[arg-type]

    def __and__(self, other: Operand) -> Expr:
        return binary("&", self, other)

    def __rand__(self, other: Operand) -> Expr:
        return binary("&", other, self)

    def __or__(self, other: Operand) -> Expr:
        return binary("|", self, other)

    def __ror__(self, other: Operand) -> Expr:
        return binary("|", other, self)

    def __xor__(self, other: Operand) -> Expr:
        return binary("^", self, other)

    def __rxor__(self, other: Operand) -> Expr:
        return binary("^", other, self)

    def __lshift__(self, other: Operand) -> Expr:
        return binary("<<", self, other)

    def __rlshift__(self, other: Operand) -> Expr:
        return binary("<<", other, self)

    def __rshift__(self, other: Operand) -> Expr:
        return binary(">>", self, other)

    def __rrshift__(self, other: Operand) -> Expr:
        return binary(">>", other, self)

    def __neg__(self) -> Expr:
        return unary("-", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return unary("~", self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    def same_as(self, other: Expr) -> bool:
        """Whether two expressions are the same tree, names, types and literals included."""
        return self.key() == other.key()

    def key(self) -> tuple[Any, ...]:
        """A hashable value that is equal exactly for expressions that are the same tree."""
        raise DeclarationError(f"{type(self).__name__} has no key")

    def children(self) -> tuple[Expr, ...]:
        """The operands, in order."""
        return ()

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        """The same node over other operands (the type is kept where it does not follow from them)."""
        return self

    def __str__(self) -> str:
        printer = _PRINTERS.get(type(self).__name__)
        return printer(self) if printer else f"{type(self).__name__}({', '.join(map(str, self.children()))})"

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A literal; its type is weak when it came from Python."""

    value: bool | int | float
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("const", repr(self.value), self.dtype.name)


@dataclass(frozen=True, eq=False, repr=False)
class Iter(Expr):
    """An iterator, identified by its name; a weakly typed integer. `hint`: what to say where it cannot be used."""

    hint: ClassVar[str] = ""

    name: str
    dtype: DType = field(default=ty.weak_int)

    def key(self) -> tuple[Any, ...]:
        return ("iter", self.name)


@dataclass(frozen=True, eq=False, repr=False)
class Param(Expr):
    """A parameter: a symbolic size, at least 0; a weakly typed integer."""

    name: str
    dtype: DType = field(default=ty.weak_int)

    def key(self) -> tuple[Any, ...]:
        return ("param", self.name)


@dataclass(frozen=True, eq=False, repr=False)
class Access(Expr):
    """A value of an input or a computation: ``image[r, c + 1]``. A scalar input has no indices."""

    source: str
    indices: tuple[Expr, ...]
    dtype: DType
    owner: object = field(default=None)

    def key(self) -> tuple[Any, ...]:
        return ("access", self.source, *(i.key() for i in self.indices))

    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Access(self.source, children, self.dtype, self.owner)


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    """Negation ``-`` or complement ``~`` (logical for bool)."""

    op: str
    operand: Expr
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("unary", self.op, self.dtype.name, self.operand.key())

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Unary(self.op, children[0], self.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expr):
    """An arithmetic, bitwise or comparison operator of two operands; see `ARITHMETIC`, `BITWISE`, `COMPARISONS`.

    ``//`` and ``%`` round towards minus infinity, as in Python. `dtype` is the type of the result.
    """

    op: str
    left: Expr
    right: Expr
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("binary", self.op, self.dtype.name, self.left.key(), self.right.key())

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Binary(self.op, children[0], children[1], self.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Select(Expr):
    """``condition ? yes : no``, lazily: under an affine condition a branch is read only where it is taken."""

    condition: Expr
    yes: Expr
    no: Expr
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("select", self.dtype.name, self.condition.key(), self.yes.key(), self.no.key())

    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.yes, self.no)

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Select(children[0], children[1], children[2], self.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr):
    """A conversion to `dtype`, as ``numpy.ndarray.astype`` does it."""

    operand: Expr
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("cast", self.dtype.name, self.operand.key())

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Cast(children[0], self.dtype)


@dataclass(frozen=True)
class ExternFunction:
    """A C function that the user supplies, with its Python equivalent for `evaluate()`.

    `python` takes NumPy scalars (or arrays, if it is a ufunc) and must return what the C function returns;
    `header` is included by the generated source; `source` is C text that is compiled with it. The function must
    be pure: its result depends on its arguments alone.
    """

    name: str
    arguments: tuple[DType, ...]
    result: DType
    python: Callable[..., Any]
    header: str = ""
    source: str = ""

    def __call__(self, *arguments: Operand) -> Expr:
        if len(arguments) != len(self.arguments):
            raise DeclarationError(f"{self.name} takes {len(self.arguments)} arguments, {len(arguments)} were given")
        pairs = zip(arguments, self.arguments, strict=True)
        operands = tuple(as_typed(as_expr(given), dtype) for given, dtype in pairs)
        return Call(self.name, operands, self.result, self)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr):
    """A mathematical function (by its NumPy name) or an `ExternFunction`."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType
    extern: ExternFunction | None = None

    def key(self) -> tuple[Any, ...]:
        return ("call", self.function, self.dtype.name, *(a.key() for a in self.arguments))

    def children(self) -> tuple[Expr, ...]:
        return self.arguments

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Call(self.function, children, self.dtype, self.extern)


#: Mathematical functions of one argument that return floats, by their NumPy names.
FLOAT_FUNCTIONS = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos",
    "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "floor", "ceil", "rint", "trunc", "erf",
)  # fmt: skip
#: Of two arguments.
FLOAT_FUNCTIONS_2 = ("arctan2", "hypot", "fmod", "copysign")
#: Functions that keep the type of their argument.
KEEPING_FUNCTIONS = ("abs",)
#: Functions of a float that return bool.
PREDICATES = ("isnan", "isinf", "isfinite")


def as_expr(given: Any) -> Expr:
    """The expression that `given` stands for: itself, a Python literal (weak), or a NumPy scalar (strong).

    Raises `DeclarationError` for anything else, naming what to do for the common mistakes.
    """
    if isinstance(given, Expr):
        return given
    expression = getattr(given, "__tiramisu_expr__", None)
    if expression is not None:
        return as_expr(expression())
    if isinstance(given, bool | np.bool_):
        return Const(bool(given), ty.bool_)
    if isinstance(given, int):
        return Const(given, ty.weak_int)
    if isinstance(given, float):
        return Const(given, ty.weak_float)
    if isinstance(given, np.generic):
        return Const(given.item(), ty.as_dtype(given.dtype))
    if isinstance(given, np.ndarray):
        raise DeclarationError("a NumPy array cannot stand in an expression: declare it with Function.input(...)")
    if hasattr(given, "__getitem__") and hasattr(given, "dtype"):
        raise DeclarationError(f"{given!r} stands for many values: name one by its indices, {given!r}[...]")
    raise DeclarationError(f"{given!r} ({type(given).__name__}) cannot stand in an expression")


def typed_const(value: bool | int | float, dtype: DType) -> Const:
    """The literal `value` in type `dtype`; raises `DTypeError` where an integer does not fit, as NumPy 2 does."""
    if dtype.is_bool:
        return Const(bool(value), dtype)
    if dtype.is_float:
        return Const(float(value), dtype)
    if isinstance(value, float) and not value.is_integer():
        raise DTypeError(f"the literal {value} does not fit {dtype}")
    info = np.iinfo(dtype.numpy)
    if not info.min <= int(value) <= info.max:
        raise DTypeError(f"the literal {value} does not fit {dtype} ({info.min} to {info.max})")
    return Const(int(value), dtype)


def as_typed(expression: Expr, dtype: DType) -> Expr:
    """`expression` converted to `dtype`; literals are converted at once, and must fit."""
    if expression.dtype == dtype:
        return expression
    if isinstance(expression, Const) and expression.dtype.weak:
        return typed_const(expression.value, dtype)
    return Cast(expression, dtype)


def binary(op: str, left: Operand, right: Operand) -> Expr:
    """A binary operator over two operands, with NumPy's result type; raises `DTypeError` where it has none."""
    a, b = as_expr(left), as_expr(right)
    common = ty.promote(a.dtype, b.dtype)
    for side in (a, b):
        if isinstance(side, Const) and side.dtype is ty.weak_int and common.is_integer and not common.weak:
            typed_const(side.value, common)
    return Binary(op, a, b, _result(op, a, b, common))


def _result(op: str, a: Expr, b: Expr, common: DType) -> DType:
    if op in COMPARISONS:
        return ty.bool_
    if op == "/":
        return ty.divided(common)
    if op in BITWISE:
        if common.is_float or common is ty.weak_float:
            raise DTypeError(f"{op} needs integers or conditions, not {a.dtype} and {b.dtype}: {a} {op} {b}")
        if common.is_bool and op in ("<<", ">>"):
            raise DTypeError(f"{op} needs integers, not conditions: {a} {op} {b}")
        return common
    if common.is_bool and op not in ("*", "min", "max"):
        if op == "-":
            raise DTypeError(f"bool has no subtraction: {a} - {b}; use ^ or cast to a number")
        return ty.bool_ if op == "+" else ty.int8
    return common


def unary(op: str, operand: Operand) -> Expr:
    """Negation or complement."""
    a = as_expr(operand)
    if isinstance(a, Const) and op == "-" and not a.dtype.is_bool:
        return Const(-a.value, a.dtype)
    if op == "-" and a.dtype.is_bool:
        raise DTypeError(f"bool has no negation: -({a}); use ~ for 'not'")
    if op == "~" and a.dtype.is_float:
        raise DTypeError(f"~ needs an integer or a condition, not {a.dtype}: ~({a})")
    return Unary(op, a, a.dtype)


def select(condition: Operand, yes: Operand, no: Operand) -> Expr:
    """``yes`` where ``condition`` holds, else ``no``. Under an affine condition only the branch taken is read."""
    test, a, b = as_expr(condition), as_expr(yes), as_expr(no)
    if not test.dtype.is_bool:
        raise DTypeError(f"the condition of select is {test.dtype}, not bool: {test}; compare it with something")
    return Select(test, a, b, ty.promote(a.dtype, b.dtype))


def cast(dtype: Any, operand: Operand) -> Expr:
    """`operand` converted to `dtype`."""
    return as_typed(as_expr(operand), ty.as_dtype(dtype))


def call(function: str, *arguments: Operand) -> Expr:
    """A mathematical function of one or two arguments, by its NumPy name; integers become float64 first."""
    operands = [as_expr(a) for a in arguments]
    common = operands[0].dtype
    for operand in operands[1:]:
        common = ty.promote(common, operand.dtype)
    if function in KEEPING_FUNCTIONS:
        return Call(function, tuple(operands), common)
    if not common.is_float and common is not ty.unknown:
        common = ty.weak_float if common.weak else ty.float64
    return Call(function, tuple(operands), ty.bool_ if function in PREDICATES else common)


#: How tightly operators bind when an expression is printed, as in Python.
_BINDING = {
    "<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1, "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5,
    "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7, "**": 9,
}  # fmt: skip
_NEGATION = 8
_TIGHTEST = 10


def _binding(e: Expr) -> int:
    if isinstance(e, Binary) and e.op in _BINDING:
        return _BINDING[e.op]
    return _NEGATION if isinstance(e, Unary) else _TIGHTEST


def _infix(e: Any) -> str:
    if e.op in ("min", "max"):
        return f"{e.op}({e.left}, {e.right})"
    own = _BINDING[e.op]
    chained = own + 1 if own == 1 or e.op == "**" else own
    return f"{_wrapped(e.left, chained)} {e.op} {_wrapped(e.right, own + 1)}"


def _wrapped(e: Expr, least: int) -> str:
    """The operand in parentheses where it binds less tightly than `least`."""
    return f"({e})" if _binding(e) < least else str(e)


_PRINTERS: dict[str, Callable[[Any], str]] = {
    "Expr": lambda e: "expression",
    "Const": lambda e: str(e.value),
    "Iter": lambda e: e.name,
    "Param": lambda e: e.name,
    "Access": lambda e: f"{e.source}[{', '.join(map(str, e.indices))}]" if e.indices else e.source,
    "Unary": lambda e: f"{e.op}{_wrapped(e.operand, _NEGATION)}",
    "Binary": _infix,
    "Select": lambda e: f"select({e.condition}, {e.yes}, {e.no})",
    "Cast": lambda e: f"{e.dtype}({e.operand})",
    "Call": lambda e: f"{e.function}({', '.join(map(str, e.arguments))})",
}
