"""The values of an expression for many executions of a statement at once, with the bits that each has by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import Binary, Call, Select
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.memory import has_lanes
from tiramisu_py.ir import Load, Ramp
from tiramisu_py.records import dataclass

#: Positions of elements among others.
Positions = np.ndarray[Any, Any]
#: The variable that is the lane of an element of a vector.
LANE = "<lane>"
#: Functions of which an array has the bits that its elements have: the others may be computed in vectors otherwise.
EXACT = frozenset((
    "abs", "absolute", "fabs", "sqrt", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "signbit",
    "copysign", "maximum", "minimum", "fmax", "fmin", "popcount", "reinterpret",
))  # fmt: skip


class Taken(dict[str, Value]):
    """Variables of some elements: those of all of them, each at the positions `at` when it is first asked for."""

    def __init__(self, variables: Mapping[str, Value], at: Positions) -> None:
        super().__init__()
        self.variables, self.at = variables, at

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __missing__(self, name: str) -> Value:
        found = self.variables[name]
        self[name] = found = found[self.at] if has_lanes(found) else found
        return found


@dataclass(eq=False)
class ElementRows:
    """Executions of statements: `varying` variables have a value for each of `count`, others are those of `frame`."""

    frame: Frame
    count: int
    varying: dict[str, Value] = field(default_factory=dict)

    def at(self, positions: Positions) -> ElementRows:
        """Some of them, or some more than once."""
        return replace(
            self, count=len(positions), varying={name: values[positions] for name, values in self.varying.items()}
        )

    def evaluator(self, positions: Positions | None = None) -> ElementEvaluator:
        """An evaluator for all of them, or for those at some positions."""
        whole = ElementEvaluator(
            replace(self.frame, variables={**self.frame.variables, **self.varying}), count=self.count
        )
        return whole if positions is None else whole.only(positions)


@dataclass
class ElementEvaluator(Evaluator):
    """The values of expressions, one for each of `count` elements, or a scalar where they are equal."""

    count: int = 0

    def visit_ramp(self, e: Ramp) -> Value:
        return self(e.base) + self._variable(LANE).astype(e.dtype.numpy)

    def visit_load(self, e: Load) -> Value:
        indices = tuple(self(index) for index in e.indices)
        array = self.frame.array(e.buffer)
        if len(indices) < array.data.ndim:
            indices = (*indices, self._variable(LANE))
        return array.read(indices, self.frame.where)

    def visit_select(self, e: Select) -> Value:
        """Each branch for the elements that take it alone."""
        condition = self(e.condition)
        if not has_lanes(condition):
            return arithmetic.convert(self(e.yes if condition else e.no), e.dtype)
        found = np.empty(self.count, e.dtype.numpy)
        for branch, takes in ((e.yes, condition), (e.no, ~condition)):
            at = np.flatnonzero(takes)
            if at.size:
                found[at] = arithmetic.convert(self.only(at)(branch), e.dtype)
        return found

    def only(self, at: Positions) -> ElementEvaluator:
        """An evaluator for the elements at some positions."""
        return ElementEvaluator(replace(self.frame, variables=Taken(self.frame.variables, at)), self.depth, len(at))

    def visit_binary(self, e: Binary) -> Value:
        if e.op != "**":
            return super().visit_binary(e)
        left, right = self(e.left), self(e.right)
        return self._each(lambda a, b: arithmetic.binary(e.op, a, b, e.dtype), [left, right], e.dtype.numpy)

    def visit_call(self, e: Call) -> Value:
        if e.extern is not None or e.function in EXACT:
            return super().visit_call(e)
        arguments = [self(argument) for argument in e.arguments]
        return self._each(lambda *own: arithmetic.call(e.function, list(own), e.dtype, None), arguments, e.dtype.numpy)

    def _each(self, function: Any, operands: list[Value], dtype: np.dtype[Any]) -> Value:
        """A function of scalars for each element: NumPy's vectors of it may have other last bits."""
        if not any(map(has_lanes, operands)):
            return function(*operands)
        columns = [operand if has_lanes(operand) else [operand] * self.count for operand in operands]
        return np.array([function(*own) for own in zip(*columns, strict=True)], dtype)
