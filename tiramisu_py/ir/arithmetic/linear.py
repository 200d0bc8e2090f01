"""Linear forms of int64 expressions: ``sum of factor * atom + constant``, atoms in their order of appearance.

Forms are equal modulo 2**64, since the arithmetic that they stand for wraps. Laws of whole numbers (the sign of a
difference, a quotient) hold only for an `exact` form.

An atom is any expression that is not itself a sum or multiple: a variable, a parameter, a quotient, a minimum, a
product of two variables, a load. In forms with lanes, the atom `LANE` stands for the lane of a `Ramp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import iterators, kept_on_node, kinds
from tiramisu_py.algorithm.types import DType, int64, weak_int
from tiramisu_py.ir import GpuIndex, Ramp, Variable
from tiramisu_py.records import dataclass

Key = tuple[Any, ...]

#: No size is larger: index arithmetic leaves room for its factors. `TM_LARGEST` of the runtime header.
LARGEST_SIZE = 2**42
#: A form does not wrap if its factors sum to at most this, and its constant is at most that.
MOST_FACTORS = 3 * 2**61 // LARGEST_SIZE
MOST_CONSTANT = 2**60

#: Where an expression keeps its values along lanes.

#: The lane of a vector, as a variable; no user's name looks like this.
LANE = Iter("<lane>", int64)


def is_index(dtype: DType) -> bool:
    """Whether arithmetic of this type is index arithmetic, for which linear forms are exact."""
    return dtype is weak_int or dtype == int64


def number(value: int) -> Const:
    """An int64 literal."""
    return Const(value, int64)


@dataclass(frozen=True, eq=False)
class Linear:
    """``sum of factor * atom + constant``; `terms` maps an atom's key to the atom and its factor, never 0."""

    terms: Mapping[Key, tuple[Expr, int]] = field(default_factory=dict)
    constant: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """``self + factor * other``."""
        constant = _wrapped(self.constant + factor * other.constant)
        if not other.terms:
            return Linear(self.terms, constant)
        terms = dict(self.terms)
        for key, (atom, count) in other.terms.items():
            before = terms.get(key)
            total = _wrapped(factor * count if before is None else before[1] + factor * count)
            if total != 0:
                terms[key] = (atom, total)
            elif before is not None:
                del terms[key]
        return Linear(terms, constant)

    def times(self, factor: int) -> Linear:
        """``factor * self``."""
        return Linear().plus(self, factor)

    def without(self, key: Key) -> Linear:
        """The form without one atom's term."""
        return Linear({k: term for k, term in self.terms.items() if k != key}, self.constant)

    def factor(self, atom: Expr) -> int:
        """The factor of an atom; 0 if it does not occur."""
        return self.terms.get(atom.key(), (atom, 0))[1]

    @cached_property
    def iterators(self) -> frozenset[str]:
        """The names of the variables in the atoms."""
        return frozenset().union(*(iterators(atom) for atom, _ in self.terms.values()))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @cached_property
    def exact(self) -> bool:
        """Whether the arithmetic cannot wrap: over indices and sizes with moderate factors, not over values."""
        total = sum(abs(factor) for _, factor in self.terms.values())
        small = total <= MOST_FACTORS and abs(self.constant) <= MOST_CONSTANT
        return small and all(_is_moderate(atom) for atom, _ in self.terms.values())

    def expression(self) -> Expr:
        """The form as an expression: positive terms first, the constant last."""
        ordered = sorted(self.terms.values(), key=lambda term: term[1] < 0)
        return _sum([*ordered], self.constant)


def _wrapped(value: int) -> int:
    """A whole number as int64 arithmetic leaves it."""
    return value if -(2**63) <= value < 2**63 else (value + 2**63) % 2**64 - 2**63


def _is_moderate(atom: Expr) -> bool:
    """Whether an atom is made of indices and sizes; values have no known bounds."""
    match atom:
        case Variable():
            return False
        case Iter() | Param() | GpuIndex():
            return True
        case Ramp():
            return linear(atom.base).exact
        case Cast():
            return atom.operand.dtype.is_integer and atom.operand.dtype.bits <= 32
        case Binary(op="//" | "%" | "min" | "max"):
            return linear(atom.left).exact and linear(atom.right).exact
    return False


def _sum(terms: Iterable[tuple[Expr, int]], constant: int) -> Expr:
    result: Expr | None = None
    for atom, factor in terms:
        down = -(2**63) < factor < 0
        size = _scaled(atom, -factor if down else factor)
        if result is None:
            result = _first_negative(atom, factor) if down else size
        else:
            result = Binary("-" if down else "+", result, size, int64)
    if result is None:
        return number(constant)
    if constant == 0:
        return result
    down = -(2**63) < constant < 0  # there is no literal 2**63
    return Binary("-" if down else "+", result, number(-constant if down else constant), int64)


def _scaled(atom: Expr, factor: int) -> Expr:
    if factor == 1:
        return atom
    if isinstance(atom, Binary) and atom.op == "//":
        return Binary("*", atom, number(factor), int64)
    return Binary("*", number(factor), atom, int64)


def _first_negative(atom: Expr, factor: int) -> Expr:
    return Unary("-", atom, int64) if factor == -1 else Binary("*", number(factor), atom, int64)


def linear(e: Expr, lanes: bool = False) -> Linear:
    """The linear form of an int64 expression; with `lanes`, a `Ramp` is its base plus `LANE`.

    An expression keeps its forms, since passes ask again and again for the same ones.
    """
    return _with_lanes(e) if lanes else _plain(e)


@kept_on_node
def _plain(e: Expr) -> Linear:
    return _form(e, False) if e.children() else _leaf(e)


@kept_on_node
def _with_lanes(e: Expr) -> Linear:
    return _form(e, True) if e.children() else _leaf(e)


def _leaf(e: Expr) -> Linear:
    return Linear({}, int(e.value)) if isinstance(e, Const) and not e.dtype.is_float else _atom(e)


@deep
def _form(e: Expr, lanes: bool) -> Linear:
    match e:
        case Unary(op="-") if is_index(e.dtype):
            return linear(e.operand, lanes).times(-1)
        case Cast() if is_index(e.dtype) and is_index(e.operand.dtype):
            return linear(e.operand, lanes)
        case Ramp() if lanes:
            return linear(e.base, lanes).plus(_atom(LANE))
        case Binary() if is_index(e.dtype) and e.op in ("+", "-"):
            return linear(e.left, lanes).plus(linear(e.right, lanes), 1 if e.op == "+" else -1)
        case Binary() if is_index(e.dtype) and e.op == "*":
            return _product(e, linear(e.left, lanes), linear(e.right, lanes))
    return _atom(e)


def _product(e: Expr, left: Linear, right: Linear) -> Linear:
    if right.is_constant:
        return left.times(right.constant)
    return right.times(left.constant) if left.is_constant else _atom(e)


def _atom(e: Expr) -> Linear:
    return Linear({e.key(): (e, 1)})


def difference(a: Expr, b: Expr) -> int | None:
    """``a - b`` if that is constant, else None."""
    form = linear(a).plus(linear(b), -1)
    return form.constant if form.is_constant else None


@kept_on_node
def along_lanes(e: Expr) -> tuple[Expr, int] | None:
    """(value in lane 0, step from lane to lane) of an index, or None where lanes are not evenly spaced."""
    form = linear(e, lanes=True)
    step = form.factor(LANE)
    base = form.without(LANE.key()).expression()
    return None if Ramp in kinds(base) else (base, step)


def operands(op: str, e: Expr) -> list[Expr]:
    """The operands of nested minima (or maxima); a constant added to a minimum is distributed over its operands."""
    form = linear(e)
    if len(form.terms) == 1:
        ((atom, factor),) = form.terms.values()
        if factor == 1 and isinstance(atom, Binary) and atom.op == op:
            parts = operands(op, atom.left) + operands(op, atom.right)
            return [linear(part).plus(Linear({}, form.constant)).expression() for part in parts]
    return [e]


def gap(condition: Expr) -> Linear | None:
    """A form that is at least 0 exactly where a comparison of indices holds; None otherwise, or if it may wrap."""
    if not isinstance(condition, Binary) or not is_index(condition.left.dtype) or not is_index(condition.right.dtype):
        return None
    less, more, strict = as_less(condition)
    if less is None or more is None:
        return None
    small, large = linear(less), linear(more)
    return large.plus(small, -1).plus(Linear({}, -strict)) if small.exact and large.exact else None


def as_less(e: Binary) -> tuple[Expr | None, Expr | None, int]:
    """A comparison as ``a <= b`` (0) or ``a < b`` (1); None and None for any other operator."""
    match e.op:
        case "<" | "<=":
            return e.left, e.right, int(e.op == "<")
        case ">" | ">=":
            return e.right, e.left, int(e.op == ">")
    return None, None, 0
