"""Reductions with a step before or after them: any, all, mean, variance, norm, logsumexp, sums in a wider type.

Each is declared as reductions and computations of its own, which commands address by their names: the mean `m` is
``m[i] = m_sum[i] / K``, and ``f["m_sum"]`` is its sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn

from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Expr, Operand, as_expr, binary, call, cast, select
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import CallError, DeclarationError
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.function.declaring import Declarations
    from tiramisu_py.function.handles.computations import Computation


#: The options of a reduction that each step has.
_OPTIONS = ("where", "ordered", "determinism")


@dataclass(frozen=True)
class Finished:
    """A reduction of several steps, given as `op` of `Function.reduction`."""

    name: str
    declared: Callable[[Steps], Computation] = field(compare=False)

    def __repr__(self) -> str:
        return f"tm.{self.name}"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise CallError(f"{self} is no function of values: write f.reduction(name, domain, {{k: K}}, {self}, a[i, k])")


@dataclass(frozen=True, eq=False)
class Steps:
    """The declaration of one such reduction: its arguments, and what each step declares."""

    function: Declarations
    op: str
    name: str
    domain: Mapping[Any, Any]
    over: Mapping[Any, Any]
    term: Expr
    options: Mapping[str, Any]

    def reduction(self, suffix: str, op: Operator, term: Expr) -> Expr:
        """The values of a reduction over all terms, called ``name_suffix``."""
        made: Computation = self.function.reduction(
            f"{self.name}_{suffix}", self.domain, self.over, op, term, **self.options
        )
        return made[tuple(self.domain)]

    def value(self, suffix: str, expr: Expr) -> Expr:
        """The values of a computation called ``name_suffix``."""
        made = self.function.computation(f"{self.name}_{suffix}", self.domain, expr)
        return made[tuple(self.domain)]

    def result(self, expr: Expr) -> Computation:
        """The computation called `name`."""
        return self.function.computation(self.name, self.domain, expr)

    @property
    def count(self) -> Expr:
        """The number of terms of a value; raises `DeclarationError` where a condition chooses them."""
        if self.options.get("where") is not None:
            raise DeclarationError(
                f"{self.op} of {self.name} divides by the number of terms, and where= chooses them: declare their sum, "
                "their number, a reduction of 1, and the quotient"
            )
        return reduce(lambda a, b: binary("*", a, b), map(_extent, self.over.values()), as_expr(1))

    @property
    def wide(self) -> DType:
        """The type in which terms are combined: float32 of halves, float64 of integers, else their own."""
        own = ty.strong(self.term.dtype)
        return ty.float32 if own.is_half else own if own.is_float else ty.float64

    @property
    def narrow(self) -> DType:
        """The type of the result: float64 of integers, else that of the terms."""
        own = ty.strong(self.term.dtype)
        return own if own.is_float else ty.float64


def finished(
    function: Declarations, op: Finished, name: str, domain: Any, over: Any, expr: Operand, options: Mapping[str, Any]
) -> Computation:
    """Declare a reduction of several steps; raises `DeclarationError`."""
    for what, given in (("domain", domain), ("over", over)):
        if not isinstance(given, Mapping):
            raise DeclarationError(
                f"the {what} of {name} is {given!r}: {op} takes a dict of iterators and extents, {{k: K}}"
            )
    given = [each for each, value in options.items() if value is not None and value is not False]
    unknown = [each for each in given if each not in _OPTIONS]
    if unknown:
        raise DeclarationError(
            f"{name}: {op} takes where=, ordered= and determinism=, and no {unknown[0]}=: its steps are in float32 or "
            "wider; for another type write tm.cast(..., ...) of the terms"
        )
    kept = {each: value for each, value in options.items() if each in _OPTIONS}
    return op.declared(Steps(function, repr(op), name, domain, over, as_expr(expr), kept))


def accumulated(
    function: Declarations,
    op: Operator,
    name: str,
    domain: Any,
    over: Any,
    expr: Operand,
    accumulate: Any,
    options: dict[str, Any],
) -> Computation:
    """Declare a reduction whose terms are combined in another type, and its values in the type of the terms."""
    wide = ty.as_dtype(accumulate)
    if not isinstance(domain, Mapping):
        raise DeclarationError(f"{name}: accumulate= takes a dict of iterators and extents as domain, {{i: N}}")
    term = as_expr(expr)
    if len(op.names) > 0:
        raise DeclarationError(
            f"{name}: accumulate= is for operators of one value, and {op} combines several: write "
            f"tm.cast(tm.{wide}, ...) of the terms"
        )
    asked = options.pop("dtype")
    narrow = _own_type(op, term) if asked is None else ty.as_dtype(asked)
    made: Computation = function.reduction(f"{name}_{wide}", domain, over, op, cast(wide, term), **options)
    return function.computation(name, domain, cast(narrow, made[tuple(domain)]))


def _own_type(op: Operator, term: Expr) -> DType:
    """The type of a reduction of terms if nothing else is said: a sum of truth values counts them."""
    own = ty.strong(term.dtype)
    return ty.int64 if own.is_bool and op.own_name in ("sum", "product") else own


def _extent(bounds: Any) -> Expr:
    """The number of iterations of an extent, or of (low, high)."""
    if isinstance(bounds, tuple):
        low, high = map(as_expr, bounds)
        return binary("max", binary("-", high, low), 0)
    return as_expr(bounds)


def _truth(steps: Steps) -> Expr:
    return steps.term if ty.strong(steps.term.dtype).is_bool else binary("!=", steps.term, 0)


def _of_truths(op: Operator) -> Callable[[Steps], Computation]:
    def declared(steps: Steps) -> Computation:
        made: Computation = steps.function.reduction(
            steps.name, steps.domain, steps.over, op, _truth(steps), **steps.options
        )
        return made

    return declared


def _quotient(steps: Steps, total: Expr) -> Expr:
    return binary("/", total, cast(steps.wide, steps.count))


def _mean(steps: Steps) -> Computation:
    total = steps.reduction("sum", operators.sum_, cast(steps.wide, steps.term))
    return steps.result(cast(steps.narrow, _quotient(steps, total)))


def _var(steps: Steps) -> Computation:
    term = cast(steps.wide, steps.term)
    mean = steps.value("mean", _quotient(steps, steps.reduction("sum", operators.sum_, term)))
    apart = binary("-", term, mean)
    squares = steps.reduction("squares", operators.sum_, binary("*", apart, apart))
    return steps.result(cast(steps.narrow, _quotient(steps, squares)))


def _norm(steps: Steps) -> Computation:
    term = cast(steps.wide, steps.term)
    squares = steps.reduction("squares", operators.sum_, binary("*", term, term))
    root = select(binary("==", squares, 0), cast(steps.wide, 0), call("sqrt", squares))  # its derivative at 0 is 0
    return steps.result(cast(steps.narrow, root))


def _logsumexp(steps: Steps) -> Computation:
    term = cast(steps.wide, steps.term)
    top = steps.reduction("top", operators.max_, term)
    shift = select(call("isfinite", top), top, cast(steps.wide, 0))
    power = steps.reduction("power", operators.sum_, call("exp", binary("-", term, shift)))
    return steps.result(cast(steps.narrow, binary("+", call("log", power), shift)))


any_ = Finished("any", _of_truths(operators.logical_or))
all_ = Finished("all", _of_truths(operators.logical_and))
mean = Finished("mean", _mean)
var = Finished("var", _var)
norm = Finished("norm", _norm)
logsumexp = Finished("logsumexp", _logsumexp)
