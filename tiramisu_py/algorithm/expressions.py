"""Expressions of Layer I: the definition of a value, as an immutable tree.

The whole language is in this module: literals, iterators, parameters, accesses, operators, `Select`, `Cast`
and `Call`. A node knows its scalar type; it holds no isl object, has no value equality (``==`` builds an
expression; use `same_as`), and refuses `bool()` and iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar, NoReturn, Union

import numpy as np

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expression_text import BINDING, NEGATION, TIGHTEST, Pieces, listed, text_of
from tiramisu_py.algorithm.misuse import PARENTHESES, Symbolic, check_unpacked, without_indices
from tiramisu_py.algorithm.operands import children_of, facets_of, key_of, rebuilt_of
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import DeclarationError, DTypeError
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass

#: What a user may write where an expression is expected.
Operand = Union["Expr", bool, int, float, np.generic]

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "min", "max")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
BITWISE = ("&", "|", "^", "<<", ">>")


class Expr(Symbolic):
    """Base of all expressions; the operators of Python build new nodes.

    A node never changes. What follows from it alone and is asked for again and again (its key, its accesses, its linear
    form) is kept in its `__dict__` beside the fields: so it lives exactly as long as the node.
    """

    dtype: DType

    def __init_subclass__(cls, kind: str | None = None, own: str = "", operands: str = "") -> None:
        """The roles of a class's fields, of which its `facets`, `children` and `rebuilt` are made.

        Nodes of one `kind` with the same `own` fields and the same operands have one key. The `operands` stand next to
        each other among the fields; ``*name`` is a tuple of operands. A class without a kind is as its base.
        """
        super().__init_subclass__()
        made: dict[str, Callable[..., Any]] = {}
        if kind is not None:
            made["facets"] = facets_of(kind, own.split(), cls.__annotations__)
        if operands:
            made["children"] = children_of(operands)
            made["rebuilt"] = rebuilt_of(cls, list(cls.__annotations__), operands)
        for name, method in made.items():
            setattr(cls, name, method)

    def __bool__(self) -> NoReturn:
        raise DeclarationError(
            f"{self} is an expression, not a truth value; combine conditions with & | ~, each in parentheses, "
            "(x > 0) & (y > 0), and choose with tm.select (or tm.minimum, tm.maximum for min and max)"
        )

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Expr]:  # type: ignore[override]
        if isinstance(self.dtype, TupleType):
            return iter([component(self, k) for k in range(len(self.dtype.fields))])
        return super().__iter__()

    def __getitem__(self, indices: object) -> Expr:
        if isinstance(self.dtype, TupleType):
            return component(self, self.dtype.position(indices))  # type: ignore[arg-type]
        if self.dtype is ty.unknown and isinstance(indices, int | str) and not isinstance(indices, bool):
            return Component(self, indices if isinstance(indices, int) else 0, ty.unknown)  # found in another round
        more = ", ".join(map(str, indices)) if isinstance(indices, tuple) else str(indices)
        whole = f"{str(self).removesuffix(']')}, {more}]" if str(self).endswith("]") else f"A[.., {more}]"
        raise DTypeError(f"{self} is one value, and has no indices; the indices of an array go together: {whole}")

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

    key = key_of

    def facets(self) -> tuple[Any, ...]:
        """The part of a node's key that is not its operands: kind, operator, type, name."""
        raise DeclarationError(f"{type(self).__name__} has no key")

    def children(self) -> tuple[Expr, ...]:
        """The operands, in order."""
        return ()

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        """This node over other operands (the type is kept where it does not follow from them)."""
        return self

    def pieces(self) -> Pieces:
        """The words and the operands of which the text of this node consists."""
        return [f"{type(self).__name__}(", *listed(self.children()), ")"]

    def binding(self) -> int:
        """How tightly the text of this node binds, as an operand of others."""
        return TIGHTEST

    def __str__(self) -> str:
        return text_of(self)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A literal; its type is weak if it comes from Python."""

    value: bool | int | float
    dtype: DType

    def facets(self) -> tuple[Any, ...]:
        return ("const", repr(self.value), self.dtype.name)

    def pieces(self) -> Pieces:
        return [str(self.value)]


@dataclass(frozen=True, eq=False, repr=False)
class Iter(Expr, kind="iter", own="name"):
    """An iterator, identified by its name; a weakly typed integer. `hint`: what to say where it cannot be used."""

    hint: ClassVar[str] = ""

    name: str
    dtype: DType = field(default=ty.weak_int)

    def pieces(self) -> Pieces:
        return [self.name]


@dataclass(frozen=True, eq=False, repr=False)
class Param(Expr, kind="param", own="name"):
    """A parameter: a symbolic size, at least 0; a weakly typed integer."""

    name: str
    dtype: DType = field(default=ty.weak_int)

    def pieces(self) -> Pieces:
        return [self.name]


@dataclass(frozen=True, eq=False, repr=False)
class Access(Expr, kind="access", own="source", operands="*indices"):
    """A value of an input or a computation: ``image[r, c + 1]``. A scalar input has no indices."""

    source: str
    indices: tuple[Expr, ...]
    dtype: DType
    owner: object = field(default=None)

    def pieces(self) -> Pieces:
        return [f"{self.source}[", *listed(self.indices), "]"] if self.indices else [self.source]


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr, kind="unary", own="op dtype", operands="operand"):
    """Negation ``-`` or complement ``~`` (logical for bool)."""

    op: str
    operand: Expr
    dtype: DType

    def pieces(self) -> Pieces:
        return [self.op, (self.operand, NEGATION)]

    def binding(self) -> int:
        return NEGATION


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expr, kind="binary", own="op dtype", operands="left right"):
    """An arithmetic, bitwise or comparison operator of two operands; see `ARITHMETIC`, `BITWISE`, `COMPARISONS`.

    ``//`` and ``%`` round towards minus infinity, as in Python. `dtype` is the type of the result.
    """

    op: str
    left: Expr
    right: Expr
    dtype: DType

    def pieces(self) -> Pieces:
        if self.op in ("min", "max"):
            return [f"{self.op}(", *listed((self.left, self.right)), ")"]
        own = BINDING[self.op]
        chained = own + 1 if own == 1 or self.op == "**" else own
        return [(self.left, chained), f" {self.op} ", (self.right, own + 1)]

    def binding(self) -> int:
        return BINDING.get(self.op, TIGHTEST)


@dataclass(frozen=True, eq=False, repr=False)
class Select(Expr, kind="select", own="dtype", operands="condition yes no"):
    """``condition ? yes : no``, lazily: under an affine condition a branch is read only where it is taken."""

    condition: Expr
    yes: Expr
    no: Expr
    dtype: DType

    def pieces(self) -> Pieces:
        return ["select(", *listed(self.children()), ")"]


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr, kind="cast", own="dtype", operands="operand"):
    """A conversion to `dtype`, as ``numpy.ndarray.astype`` does it."""

    operand: Expr
    dtype: DType

    def pieces(self) -> Pieces:
        return [f"{self.dtype}(", (self.operand, 0), ")"]


@dataclass(frozen=True, eq=False, repr=False)
class Stopped(Cast, kind="stopped", own="dtype", operands="operand"):
    """The operand itself, which counts as a constant for derivatives; nothing else knows of it."""

    operand: Expr
    dtype: DType

    def pieces(self) -> Pieces:
        return ["stop_gradient(", (self.operand, 0), ")"]


@dataclass(frozen=True, eq=False, repr=False)
class TupleValue(Expr, kind="tuple", own="dtype", operands="*values"):
    """Several values at once: what a computation or a reduction with components is for one point."""

    values: tuple[Expr, ...]
    dtype: DType

    def pieces(self) -> Pieces:
        return ["(", *listed(self.values), ")"]


@dataclass(frozen=True, eq=False, repr=False)
class Component(Expr, kind="component", own="position dtype", operands="whole"):
    """One of several values, by its number: ``best[i][0]``."""

    whole: Expr
    position: int
    dtype: DType

    def pieces(self) -> Pieces:
        return [(self.whole, TIGHTEST), f"[{self.position}]"]


@dataclass(frozen=True)
class ExternFunction:
    """A C function that the user supplies, with its Python equivalent for `evaluate()`.

    `python` takes NumPy scalars (or arrays, if it is a ufunc) and must return what the C function returns;
    `header` is included by the generated source; `source` is C text that is compiled with it. The function must
    be pure: its result depends on its arguments alone. `derivative` makes the expression of its derivative, of the
    arguments; of several arguments a tuple, with None for those that are no floats.
    """

    name: str
    arguments: tuple[DType, ...]
    result: DType
    python: Callable[..., Any]
    header: str = ""
    source: str = ""
    derivative: Callable[..., Any] | None = field(default=None, compare=False)

    def __call__(self, *arguments: Operand) -> Expr:
        if len(arguments) != len(self.arguments):
            raise DeclarationError(f"{self.name} takes {len(self.arguments)} arguments, {len(arguments)} were given")
        pairs = zip(arguments, self.arguments, strict=True)
        operands = tuple(as_typed(as_expr(given), dtype) for given, dtype in pairs)
        return Call(self.name, operands, self.result, self)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr, kind="call", own="function dtype", operands="*arguments"):
    """A mathematical function (by its NumPy name) or an `ExternFunction`."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType
    extern: ExternFunction | None = None

    def pieces(self) -> Pieces:
        return [f"{self.function}(", *listed(self.arguments), ")"]


#: Mathematical functions of one argument that return floats, by their NumPy names.
FLOAT_FUNCTIONS = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos",
    "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "floor", "ceil", "rint", "trunc", "erf",
)  # fmt: skip
#: Of two arguments.
FLOAT_FUNCTIONS_2 = ("arctan2", "hypot", "fmod", "copysign")
#: Functions that keep the type of their argument.
KEEPING_FUNCTIONS = ("abs", "popcount")
#: Functions of a float that return bool.
PREDICATES = ("isnan", "isinf", "isfinite")


def as_expr(given: Any) -> Expr:
    """`given` as an expression: itself, or the literal of a Python number (weak) or a NumPy scalar (strong).

    Raises `DeclarationError` for anything else, naming what to do for the common mistakes.
    """
    if isinstance(given, Expr):
        return given
    expression = getattr(given, "__tiramisu_expr__", None)
    if expression is not None:
        return as_expr(expression())
    if isinstance(given, bool | np.bool_):
        return Const(bool(given), ty.bool_)
    if isinstance(given, np.generic):  # before float, of which np.float64 is one: in NumPy its type is strong
        return Const(given.item(), ty.as_dtype(given.dtype))
    if isinstance(given, int):
        return Const(given, ty.weak_int)
    if isinstance(given, float):
        return Const(given, ty.weak_float)
    if isinstance(given, np.ndarray):
        raise DeclarationError("a NumPy array cannot stand in an expression: declare it with Function.input(...)")
    if hasattr(given, "__getitem__") and hasattr(given, "dtype"):
        raise without_indices(given)
    check_unpacked(given)
    raise DeclarationError(f"{given!r} ({type(given).__name__}) cannot stand in an expression")


def tuple_value(values: Sequence[Operand], names: Sequence[str] = ()) -> TupleValue:
    """Several values as one; their names are their numbers, unless others are given. Raises `DTypeError`."""
    found = tuple(map(as_expr, values))
    for each in found:
        check_single(each)
    if len(found) < 2 or (names and len(names) != len(found)):
        wanted = f"{len(names)} values, {', '.join(names)}" if names else "two values at least"
        raise DTypeError(f"({', '.join(map(str, found))}) has {len(found)} components; give {wanted}")
    own = names or tuple(map(str, range(len(found))))
    fields = tuple((name, ty.strong(each.dtype)) for name, each in zip(own, found, strict=True))
    return TupleValue(found, ty.tuple_type(fields))


def component(whole: Expr, position: int) -> Expr:
    """One of several values."""
    assert isinstance(whole.dtype, TupleType)
    _, dtype = whole.dtype.fields[position]
    if isinstance(whole, TupleValue):
        return as_typed(whole.values[position], dtype)
    return Component(whole, position, dtype)


def check_single(*operands: Expr) -> None:
    """Refuse several values at once as an operand; raises `DTypeError`."""
    for e in operands:
        if isinstance(e.dtype, TupleType):
            name = e.dtype.fields[0][0]
            whole = f"{e}[()]" if isinstance(e, Access) and not e.indices else str(e)
            own = f", or {whole}[{name!r}]" if name != "0" else ""
            raise DTypeError(f"{e} has several values, {e.dtype}: name one of them, {whole}[0]{own}")


def typed_const(value: bool | int | float, dtype: DType) -> Const:
    """The literal `value` in type `dtype`; raises `DTypeError` if an integer does not fit (as NumPy 2 does)."""
    if dtype.is_bool:
        return Const(bool(value), dtype)
    if dtype.is_float:
        return Const(float(value), dtype)
    if isinstance(value, float) and not value.is_integer():
        raise DTypeError(f"the literal {value} does not fit {dtype}")
    least, largest = dtype.limits
    if not least <= int(value) <= largest:
        raise DTypeError(f"the literal {value} does not fit {dtype} ({least} to {largest})")
    return Const(int(value), dtype)


def constant(e: Expr) -> int | None:
    """The value of an integer literal."""
    return int(e.value) if isinstance(e, Const) and not e.dtype.is_float else None


def as_typed(expression: Expr, dtype: DType) -> Expr:
    """`expression` converted to `dtype`; literals are converted at once, and must fit."""
    if expression.dtype == dtype:
        return expression
    if isinstance(dtype, TupleType) or isinstance(expression.dtype, TupleType):
        return _tuple_as(expression, dtype)
    if isinstance(expression, Const) and expression.dtype.weak:
        return typed_const(expression.value, dtype)
    return Cast(expression, dtype)


def _tuple_as(expression: Expr, dtype: DType) -> Expr:
    """Several values, each converted to the type of a component; raises `DTypeError` where their numbers differ."""
    check_single(*(() if isinstance(dtype, TupleType) else (expression,)))
    given = expression.dtype
    assert isinstance(dtype, TupleType)
    if not isinstance(given, TupleType) or len(given.fields) != len(dtype.fields):
        raise DTypeError(f"{expression} ({given}) is no {dtype}, which has {len(dtype.fields)} components")
    parts = [component(expression, k) for k in range(len(given.fields))]
    return TupleValue(tuple(as_typed(e, t) for e, (_, t) in zip(parts, dtype.fields, strict=True)), dtype)


def binary(op: str, left: Operand, right: Operand) -> Expr:
    """A binary operator over two operands, with NumPy's result type; raises `DTypeError` if NumPy has none."""
    a, b = as_expr(left), as_expr(right)
    check_single(a, b)
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
            beside = f"; {PARENTHESES}" if op in ("&", "|") else ""
            raise DTypeError(f"{op} needs integers or conditions, not {a.dtype} and {b.dtype}: {a} {op} {b}{beside}")
        if op in ("&", "|") and _is_number_beside_condition(a, b):
            raise DTypeError(f"{a} {op} {b} is of a number and a condition; {PARENTHESES}")
        if common.is_bool and op in ("<<", ">>"):
            raise DTypeError(f"{op} needs integers, not conditions: {a} {op} {b}")
        return common
    if common.is_bool and op not in ("*", "min", "max"):
        if op == "-":
            raise DTypeError(f"bool has no subtraction: {a} - {b}; use ^ or cast to a number")
        return ty.bool_ if op == "+" else ty.int8
    return common


def _is_number_beside_condition(a: Expr, b: Expr) -> bool:
    """Whether one is a literal number and the other a comparison, as where ``x > 0 & (y > 0)`` lacks parentheses."""
    return any(
        isinstance(number, Const) and number.dtype is ty.weak_int and isinstance(other, Binary) and other.dtype.is_bool
        for number, other in ((a, b), (b, a))
    )


def unary(op: str, operand: Operand) -> Expr:
    """Negation or complement."""
    a = as_expr(operand)
    check_single(a)
    if isinstance(a, Const) and op == "-" and not a.dtype.is_bool:
        return Const(-a.value, a.dtype)
    if op == "-" and a.dtype.is_bool:
        raise DTypeError(f"bool has no negation: -({a}); use ~ for 'not'")
    if op == "~" and a.dtype.is_float:
        raise DTypeError(f"~ needs an integer or a condition, not {a.dtype}: ~({a})")
    return Unary(op, a, a.dtype)


@own_call
def select(condition: Operand, yes: Operand, no: Operand) -> Expr:
    """``yes`` where ``condition`` holds, else ``no``. Under an affine condition only the branch taken is read."""
    test, a, b = as_expr(condition), as_expr(yes), as_expr(no)
    if a.dtype != b.dtype:
        check_single(a, b)
    if not test.dtype.is_bool:
        raise DTypeError(f"the condition of select is {test.dtype}, not bool: {test}; compare it with something")
    return Select(test, a, b, ty.promote(a.dtype, b.dtype))


@own_call
def cast(dtype: Any, operand: Operand) -> Expr:
    """`operand` converted to `dtype`."""
    if isinstance(dtype, Expr) or isinstance(operand, DType):
        written = f"tm.{operand}" if isinstance(operand, DType) else "tm.float32"
        raise DTypeError(f"tm.cast takes the type first: write tm.cast({written}, {dtype})")
    return as_typed(as_expr(operand), ty.as_dtype(dtype))


def call(function: str, *arguments: Operand) -> Expr:
    """A mathematical function of one or two arguments, by its NumPy name; integers become float64 first."""
    operands = [as_expr(a) for a in arguments]
    check_single(*operands)
    common = operands[0].dtype
    for operand in operands[1:]:
        common = ty.promote(common, operand.dtype)
    if function in KEEPING_FUNCTIONS:
        return Call(function, tuple(operands), common)
    if not common.is_float and common is not ty.unknown:
        common = ty.weak_float if common.weak else ty.float64
    return Call(function, tuple(operands), ty.bool_ if function in PREDICATES else common)
