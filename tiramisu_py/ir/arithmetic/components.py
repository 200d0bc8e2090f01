"""Values with several components, one by one: each as an expression of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiramisu_py.algorithm.expressions import Component, Expr, Select, TupleValue, as_typed
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Components:
    """Expressions in which every value is a single one; `held` is the component of a value that is loaded."""

    held: Callable[[Expr, int], Expr]

    def single(self, e: Expr) -> Expr:
        """An expression of one value, without values of several inside."""
        return rewrite(e, self._changed)

    def _changed(self, e: Expr) -> Expr | None:
        return self.component(e.whole, e.position) if isinstance(e, Component) else None

    def component(self, whole: Expr, position: int) -> Expr:
        """One of several values."""
        match whole:
            case TupleValue():
                return self.single(whole.values[position])
            case Select():
                yes, no = (self.component(branch, position) for branch in (whole.yes, whole.no))
                return Select(self.single(whole.condition), yes, no, yes.dtype)
        return self.held(whole, position)


def combined(operator: Operator, left: Sequence[Expr], right: Sequence[Expr], dtype: DType) -> tuple[Expr, ...]:
    """The components of ``left op right``, two values of `dtype` given by theirs; of a scalar type, it alone."""
    if not isinstance(dtype, TupleType):
        (one,), (other,) = left, right
        return (as_typed(operator(one, other), dtype),)
    whole = as_typed(operator(TupleValue(tuple(left), dtype), TupleValue(tuple(right), dtype)), dtype)
    parts = Components(_unknown)
    return tuple(parts.component(whole, position) for position in range(len(dtype.fields)))


def neutral(operator: Operator, dtype: DType) -> tuple[Expr, ...]:
    """The components of the neutral element; of a scalar type, it alone."""
    found = operator.neutral(dtype)
    return found.values if isinstance(found, TupleValue) else (found,)


def _unknown(whole: Expr, position: int) -> Expr:
    raise CompilerDefect(f"{whole} has several values, and is no element of an array")
