"""Operators of reductions, with their identities, and the grades of how far the bits of a reduction hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import IntEnum
from typing import Any

from tiramisu_py.algorithm.expressions import (
    Const,
    Expr,
    Operand,
    TupleValue,
    as_expr,
    binary,
    select,
    tuple_value,
    typed_const,
    unary,
)
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import DTypeError
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Operator:
    """An associative operator of reductions, with its identity for each type.

    Calling it builds an expression of two operands: ``tm.min(a, b)``. One that combines several values at once has
    their `names`, and as many neutral elements. One that is not `commutative` combines neighbouring terms only.
    `derivative` gives that of the result by one term, of the result and the term.
    """

    name: str
    combine: Callable[[Expr, Expr], Expr] = field(compare=False)
    identity_of: Callable[[DType], Any] = field(compare=False)
    names: tuple[str, ...] = ()
    commutative: bool = True
    derivative: Callable[[Expr, Expr], Operand] | None = field(default=None, compare=False)

    def __call__(self, *operands: Operand) -> Expr:
        if len(operands) != 2:
            raise DTypeError(
                f"tm.{self.name} takes two values, {self.name}(a, b), and {len(operands)} were given; over a range, "
                f"write f.reduction(name, domain, {{k: K}}, tm.{self.name}, A[i, k])"
            )
        return self.combine(as_expr(operands[0]), as_expr(operands[1]))

    def identity(self, dtype: DType) -> Expr:
        """The neutral element, as a literal of `dtype`, or as one for each component; raises `DTypeError`."""
        found = self.identity_of(dtype)
        if not isinstance(dtype, TupleType):
            if isinstance(found, tuple):
                raise DTypeError(f"its identity {found} has {len(found)} components, and what it combines has one")
            return typed_const(found, dtype)
        if not isinstance(found, tuple):
            raise DTypeError("it combines single values, each named by its component")
        if len(found) != len(dtype.fields):
            raise DTypeError(f"its identity {found} has {len(found)} components, not {len(dtype.fields)}")
        values = [typed_const(value, own) for value, (_, own) in zip(found, dtype.fields, strict=True)]
        return TupleValue(tuple(values), dtype)

    def neutral(self, dtype: DType) -> Expr:
        """A value that changes no bit when it is combined: for sums of floats -0.0, as 0.0 changes the sign of -0.0."""
        return Const(-0.0, dtype) if self.own_name == "sum" and dtype.is_float else self.identity(dtype)

    @property
    def own_name(self) -> str:
        """The name of an operator of this library; empty for one of the user's, which may have the same name."""
        return self.name if any(self is own for own in _OWN) else ""

    def __str__(self) -> str:
        """``tm.argmin``, or ``the operator far`` for one of the user's."""
        return f"tm.{self.name}" if self.own_name else f"the operator {self.name}"

    __repr__ = __str__


def _largest(dtype: DType) -> bool | int | float:
    return float("inf") if dtype.is_float else True if dtype.is_bool else dtype.limits[1]


def _smallest(dtype: DType) -> bool | int | float:
    return float("-inf") if dtype.is_float else False if dtype.is_bool else dtype.limits[0]


def _all_ones(dtype: DType) -> bool | int | float:
    return -1 if dtype.kind == "i" else _largest(dtype)


sum_ = Operator("sum", lambda a, b: binary("+", a, b), lambda dtype: 0)
product = Operator("product", lambda a, b: binary("*", a, b), lambda dtype: 1)
min_ = Operator("min", lambda a, b: binary("min", a, b), _largest)
max_ = Operator("max", lambda a, b: binary("max", a, b), _smallest)
logical_and = Operator("logical_and", lambda a, b: binary("&", a, b), _all_ones)
logical_or = Operator("logical_or", lambda a, b: binary("|", a, b), lambda dtype: 0)


def _first_end(sign: str) -> Operator:
    """The operator of the least value (``<``) or the largest (``>``), and of the index of the first one.

    As in NumPy, a value that is not a number is taken before all others. Both conditions are the same order of values
    and indices, from either side, so that terms may be combined in any order.
    """

    def combine(a: Expr, b: Expr) -> Expr:
        (x, i), (y, j) = a, b
        sooner, later = binary(f"{sign}=", y, x), unary("~", binary(f"{sign}=", x, y))
        if x.dtype.is_float:
            sooner, later = binary("|", sooner, binary("!=", y, y)), binary("&", later, binary("==", x, x))
        taken = select(binary("<", j, i), sooner, later)
        return tuple_value((select(taken, y, x), select(taken, j, i)), FIRST_END)

    def ends(dtype: DType) -> Any:
        if not isinstance(dtype, TupleType) or len(dtype.fields) != len(FIRST_END):
            raise DTypeError("it combines (value, index)")
        (_, value), (_, index) = dtype.fields
        if not index.is_integer:
            raise DTypeError(f"the index of (value, index) is {index}, not an integer")
        return (_largest if sign == "<" else _smallest)(value), _largest(index)

    return Operator("argmin" if sign == "<" else "argmax", combine, ends, FIRST_END)


#: The components of `argmin` and `argmax`.
FIRST_END = ("value", "index")
argmin, argmax = _first_end("<"), _first_end(">")
#: The operators of this library.
_OWN = (sum_, product, min_, max_, logical_and, logical_or, argmin, argmax)


class Determinism(IntEnum):
    """How far the bits of a reduction hold, from the least to the most.

    NOT_GUARANTEED: each run may combine terms in another order. RUN_TO_RUN: runs on as many threads and ranks combine
    them in the same order. EVERYWHERE: the order follows from the schedule and the sizes. ORDERED: the bits are those
    of the order of declaration, because terms are combined in this order, or because no order changes a bit. Functions
    of the C library, and relaxations that the user names by ``fast=``, are excepted. A grade equals its name.
    """

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    EVERYWHERE = 2
    ORDERED = 3

    def __str__(self) -> str:
        return self.name.lower()

    def __eq__(self, other: object) -> bool:
        return str(self) == other if isinstance(other, str) else self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))
