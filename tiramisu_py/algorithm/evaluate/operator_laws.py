"""The laws of an operator of the user's, tried on some operands: a counterexample is refused.

Partial results begin as the neutral element, and are combined in any order. So what has to hold is tried on partial
results of terms, which the expression of the reduction gives for small and for random values: an operator may have
other values as its neutral element, or no law at all, where no term is. Floating-point numbers may round differently;
infinities and what is no number are left out, since few operators obey laws on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation, Operator
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.evaluate.valuation import Points, Valuation
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Param
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.records import dataclass

#: Numbers tried first, so that a counterexample is short; then some at random.
_SMALL = ((1, 2, 3), (0, 1, 2), (3, 1, 1), (2, 2, 5), (-1, 2, -3), (5, 0, -1), (4, 7, 1))
_RANDOM = 48
#: Rounding errors allowed, in units of the last place of the largest operand or result.
_ULPS = 32
_NAMES = ("a", "b", "c")
#: The binary digits after the point of each type of floats.
_DIGITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


def check_laws(declared: Computation) -> None:
    """Refuse an operator of the user's with three operands for which it obeys no law that the reduction needs."""
    op = declared.op
    if op is None or op.own_name or declared.ordered:
        return
    try:
        with np.errstate(all="ignore"):
            found = _counterexample(declared, op)
    except (ArgumentError, ArithmeticError):
        return  # an expression without a value at such operands
    if found is not None:
        raise DeclarationError(f"{op}, which reduces {declared.name}, {found}")


def _counterexample(declared: Computation, op: Operator) -> str | None:
    dtype, trial = declared.dtype, _Trial(op, declared.dtype)
    count = len(_SMALL) + _RANDOM
    neutral = trial.values(op.identity(dtype), {}, count)
    terms = [trial.terms(declared.expr, k) for k in range(len(_NAMES))]
    if all((trial.op(neutral, each) == neutral).all() for each in terms) and len(np.unique(np.concatenate(terms))) > 1:
        absorbing = f"its identity {_shown(neutral[0])}, whatever the term"
        return f"gives {absorbing}: give an identity for which op(identity, a) is a"
    a, b, c = (trial.op(neutral, each) for each in terms)
    for name, sides, advice in _laws(op, trial, neutral, (a, b, c)):
        left, right = sides
        wrong = _differ(dtype, left, right, (a, b, c))
        if wrong.any():
            at = int(np.argmax(wrong))
            operands = ", ".join(f"{x} = {_shown(each[at])}" for x, each in zip(_NAMES, (a, b, c), strict=True))
            return f"{name}: at {operands} it gives {_shown(left[at])} and {_shown(right[at])}; {advice}"
    return None


def _laws(
    op: Operator, trial: _Trial, neutral: Array, given: tuple[Array, Array, Array]
) -> Iterator[tuple[str, tuple[Array, Array], str]]:
    a, b, c = given
    sequential = "combine terms one by one, with ordered=True of the reduction, or choose another operator"
    both = trial.op(a, neutral), a
    yield "has another neutral element, op(a, identity) != a", both, f"give that as identity, or {sequential}"
    both = trial.op(trial.op(a, b), c), trial.op(a, trial.op(b, c))
    yield "is not associative, op(op(a, b), c) != op(a, op(b, c))", both, sequential
    if op.commutative:
        both = trial.op(a, b), trial.op(b, a)
        yield "is not commutative, op(a, b) != op(b, a)", both, "give tm.operator(..., commutative=False)"


@dataclass(frozen=True, eq=False)
class _Trial:
    """Evaluates an operator, and terms whose values and iterators are numbers to try."""

    operator: Operator
    dtype: DType

    def op(self, a: Array, b: Array) -> Array:
        """The operator on columns of operands."""
        combined = typed(self.operator.combine(Iter("a", self.dtype), Iter("b", self.dtype)), self.dtype)
        return self.values(combined, {"a": a, "b": b}, len(a))

    def terms(self, expr: Expr, operand: int) -> Array:
        """A column of terms."""
        random, columns = np.random.default_rng(operand), dict[str, Array]()
        count = len(_SMALL) + _RANDOM

        def leaf(e: Expr) -> Expr | None:
            if not isinstance(e, Access | Iter | Param):
                return None
            name = f"leaf {e}"
            if name not in columns:
                columns[name] = _numbers(e.dtype, operand, random, not isinstance(e, Access))
            return Iter(name, e.dtype)

        found = typed(rewrite(expr, leaf), self.dtype)
        return self.values(found, columns, count)

    def values(self, e: Expr, columns: dict[str, Array], count: int) -> Array:
        """An expression at some points."""
        return np.array(Valuation({}).column(e, Points(columns, count)))


def _numbers(dtype: DType, operand: int, random: np.random.Generator, counts: bool) -> Array:
    """Numbers to try of a type; those of iterators and sizes are at least 0."""
    if isinstance(dtype, TupleType):
        found = np.empty(len(_SMALL) + _RANDOM, dtype.numpy)
        for name, own in dtype.fields:
            found[name] = _numbers(own, operand, random, counts)
        return found
    small = np.array([row[operand] for row in _SMALL], np.float64)
    if dtype.is_bool:
        drawn: Any = random.integers(0, 2, _RANDOM)
    elif dtype.is_float:
        drawn = np.round(random.uniform(-8, 8, _RANDOM), 3)
    else:
        low, high = (0, 100) if counts else (max(dtype.limits[0], -(2**40)), min(dtype.limits[1], 2**40))
        few, many = random.integers(0, 20, _RANDOM), random.integers(low, high, _RANDOM)
        drawn = np.where(random.random(_RANDOM) < 0.5, few, many)
    whole = np.concatenate([small, drawn])
    if dtype.kind in "ub" or counts:
        whole = np.abs(whole)
    return (whole > 0).astype(np.bool_) if dtype.is_bool else whole.astype(dtype.numpy)


def _differ(dtype: DType, left: Array, right: Array, operands: tuple[Array, ...]) -> Array:
    """Where two columns differ by more than rounding."""
    if isinstance(dtype, TupleType):
        parts = (_differ(own, left[n], right[n], tuple(x[n] for x in operands)) for n, own in dtype.fields)
        return reduce(np.logical_or, parts)
    if not dtype.is_float:
        return np.asarray(left != right)
    columns = [np.asarray(each, np.float64) for each in (left, right, *operands)]
    scale = np.maximum.reduce([np.abs(each) for each in columns])
    unit = 2.0 ** -_DIGITS[dtype.name]
    apart: Array = np.isfinite(scale) & (np.abs(columns[0] - columns[1]) > _ULPS * unit * np.maximum(scale, 1.0))
    return apart


def _shown(value: Any) -> str:
    return str(value.item() if isinstance(value, np.generic) else value)
