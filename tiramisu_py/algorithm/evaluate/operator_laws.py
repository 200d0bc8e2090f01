"""The laws of an operator of the user's, tried on some operands: a counterexample is refused.

Partial results begin as the neutral element, and are combined in any order. So what has to hold is tried on partial
results of terms, which the expression of the reduction gives for small and for random values: an operator may have
other values as its neutral element, or no law at all, where no term is. Floating-point numbers may round differently;
infinities and what is no number are left out, since few operators obey laws on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.evaluate.valuation import Points, Valuation
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Param
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.records import dataclass

#: Numbers tried first, so that a counterexample is short; then some at random.
_SMALL = ((1, 2, 3), (0, 1, 2), (3, 1, 1), (2, 2, 5), (-1, 2, -3), (5, 0, -1), (4, 7, 1))
_RANDOM = 48
_COUNT = len(_SMALL) + _RANDOM
#: Rounding errors allowed, in units of the last place of the largest operand or result.
_ULPS = 32
_NAMES = ("a", "b", "c")
#: The binary digits after the point of each type of floats.
_DIGITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


def check_laws(known: Mapping[str, Computation], declared: Computation, scan: str = "") -> None:
    """Refuse a reduction by an operator of the user's with operands for which it obeys no law that is needed.

    All that combines partial results (threads, lanes, blocks, ranks, `rfactor`, chunks of a scan) relies on this
    question, which each reduction is asked when it is declared, or read from a file. `known` are the computations that
    it may read. With the name of a `scan`, it gives the results of chunks, whose prefixes begin with a term.
    """
    op = declared.op
    if op is None or op.own_name or declared.ordered or _combines_results(known, declared, op):
        return
    trial = _Trial(op, declared.dtype, declared.expr, scan)
    found = _counterexample(trial)
    if found is not None:
        uses = f"which scans {scan} in chunks" if scan else f"which reduces {declared.name}"
        raise DeclarationError(f"{op}, {uses}, {found}")


def _combines_results(known: Mapping[str, Computation], declared: Computation, op: Operator) -> bool:
    """Whether the terms are results of the same operator, which were tried for the terms of that reduction."""
    term = declared.expr
    read = known.get(term.source) if isinstance(term, Access) else None
    if read is None or read.op is None or read.ordered or read.dtype != declared.dtype:
        return False
    a, b = Iter("a", declared.dtype), Iter("b", declared.dtype)
    one, other = [
        (each.combine(a, b).key(), each.identity(declared.dtype).key(), each.commutative) for each in (op, read.op)
    ]
    return one == other


def _counterexample(trial: _Trial) -> str | None:
    """A law that does not hold, with operands, and what to do about it."""
    try:
        return _counterexample_of(trial, slice(None))
    except (ArgumentError, ArithmeticError):  # an expression without a value at some operands: the others, one by one
        for row in range(_COUNT):
            with suppress(ArgumentError, ArithmeticError):
                found = _counterexample_of(trial, slice(row, row + 1))
                if found is not None:
                    return found
    return None


@np.errstate(all="ignore")
def _counterexample_of(trial: _Trial, rows: slice) -> str | None:
    op, dtype = trial.operator, trial.dtype
    terms = [trial.terms(k, rows) for k in range(len(_NAMES))]
    neutral = trial.values(op.identity(dtype), {}, len(terms[0]))
    absorbs = len(neutral) > 1 and all((trial.op(neutral, each) == neutral).all() for each in terms)
    if absorbs and len(np.unique(np.concatenate(terms))) > 1:
        absorbing = f"its identity {_shown(neutral[0])}, whatever the term"
        return f"gives {absorbing}: give an identity for which op(identity, a) is a"
    for law in _laws(trial, neutral, terms):
        wrong = _differ(dtype, law.left, law.right, law.operands)
        if wrong.any():
            at = int(np.argmax(wrong))
            operands = ", ".join(f"{x} = {_shown(each[at])}" for x, each in zip(_NAMES, law.operands, strict=False))
            sides = f"{_shown(law.left[at])} and {_shown(law.right[at])}"
            return f"{law.broken}: at {operands} it gives {sides}; {law.advice or trial.advice}"
    return None


@dataclass(frozen=True, eq=False)
class _Law:
    """Two columns that are equal for some operands a, b, ...; else in words what is wrong, and what to do."""

    broken: str
    left: Array
    right: Array
    operands: Sequence[Array]
    advice: str = ""


def _laws(trial: _Trial, neutral: Array, terms: Sequence[Array]) -> Iterator[_Law]:
    """The laws of partial results a, b, c, each of one term, and of the terms themselves."""
    op = trial.op
    a, b, c = given = [op(neutral, each) for each in terms]
    advice = f"give that as identity if there is one, or {trial.advice}"
    yield _Law("has another neutral element, op(a, identity) != a", op(a, neutral), a, [a], advice)
    yield _Law("is not associative, op(op(a, b), c) != op(a, op(b, c))", op(op(a, b), c), op(a, op(b, c)), given)
    if trial.operator.commutative:
        declare = "give tm.operator(..., commutative=False)"
        yield _Law("is not commutative, op(a, b) != op(b, a)", op(a, b), op(b, a), [a, b], declare)
    yield _Law("has another neutral element, op(identity, a) != a", op(neutral, a), a, [a], advice)
    term = terms[1]
    broken = "changes a term b that comes first, op(a, b) != op(a, op(identity, b))"
    yield _Law(broken, op(a, term), op(a, b), [a, term])
    if trial.scan:
        first, broken = terms[0], "changes a term a that comes first, op(a, b) != op(op(identity, a), b)"
        yield _Law(broken, op(first, term), op(a, term), [first, term])


@dataclass(frozen=True, eq=False)
class _Trial:
    """Evaluates an operator, and terms whose values and iterators are numbers to try."""

    operator: Operator
    dtype: DType
    term: Expr
    scan: str = ""

    @property
    def advice(self) -> str:
        """Advice on an operator that obeys too few laws."""
        one_by_one = f"without chunks= of {self.scan}" if self.scan else "with ordered=True of the reduction"
        return f"combine terms one by one, {one_by_one}, or choose another operator"

    def op(self, a: Array, b: Array) -> Array:
        """The operator on columns of operands."""
        combined = typed(self.operator.combine(Iter("a", self.dtype), Iter("b", self.dtype)), self.dtype)
        return self.values(combined, {"a": a, "b": b}, len(a))

    def terms(self, operand: int, rows: slice) -> Array:
        """Some rows of a column of terms."""
        random, columns = np.random.default_rng(operand), dict[str, Array]()

        def leaf(e: Expr) -> Expr | None:
            if not isinstance(e, Access | Iter | Param):
                return None
            name = f"leaf {e}"
            if name not in columns:
                columns[name] = _numbers(e.dtype, operand, random, not isinstance(e, Access))[rows]
            return Iter(name, e.dtype)

        found = typed(rewrite(self.term, leaf), self.dtype)
        return self.values(found, columns, len(range(*rows.indices(_COUNT))))

    def values(self, e: Expr, columns: dict[str, Array], count: int) -> Array:
        """An expression at some points."""
        return np.array(Valuation({}).column(e, Points(columns, count)))


def _numbers(dtype: DType, operand: int, random: np.random.Generator, counts: bool) -> Array:
    """Numbers to try of a type; those of iterators and sizes are at least 0."""
    if isinstance(dtype, TupleType):
        found = np.empty(_COUNT, dtype.numpy)
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


def _differ(dtype: DType, left: Array, right: Array, operands: Sequence[Array]) -> Array:
    """Where two columns differ by more than rounding."""
    if isinstance(dtype, TupleType):
        parts = (_differ(own, left[n], right[n], [x[n] for x in operands]) for n, own in dtype.fields)
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
