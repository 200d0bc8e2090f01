"""Values of an algorithm at given inputs: which terms there are, and which elements are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tests.oracle.judges.plain import OPERATORS, NotInteger, Point, integer
from tests.oracle.judges.values import Named, Values
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Expr, Select, Unary

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class GivenValues(Values):
    """The values where inputs are these arrays; what else decides, such as a computed value, is not known."""

    arrays: Mapping[str, Array] = field(default_factory=dict)

    def _value(self, e: Expr, names: Mapping[str, int]) -> int:
        """An integer or a condition; of conditions that are joined, the second is looked at only if it matters."""
        match e:
            case Access() if e.source in self.arrays and e.indices:
                index = tuple(self._value(each, names) for each in e.indices)
                array = self.arrays[e.source]
                if not all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
                    raise NotInteger(f"{e} is outside of its array")
                return int(array[index])
            case Cast() if e.dtype.is_integer and e.operand.dtype.is_integer:
                return self._value(e.operand, names)
            case Unary(op="-"):
                return -self._value(e.operand, names)
            case Unary(op="~") if e.operand.dtype.is_bool:
                return int(not self._value(e.operand, names))
            case Select():
                return self._value(e.yes if self._value(e.condition, names) else e.no, names)
            case Binary(op="&") if e.dtype.is_bool:
                return int(bool(self._value(e.left, names)) and bool(self._value(e.right, names)))
            case Binary(op="|") if e.dtype.is_bool:
                return int(bool(self._value(e.left, names)) or bool(self._value(e.right, names)))
            case Binary() if e.op in OPERATORS:
                return int(OPERATORS[e.op](self._value(e.left, names), self._value(e.right, names)))
        return integer(e, names)

    def holds(self, guards: Sequence[Expr], names: Mapping[str, int]) -> bool:
        """Whether all conditions hold, one after the other."""
        return all(self._value(guard, names) for guard in guards)

    @cached_property
    def terms(self) -> dict[Named, frozenset[Point]]:
        """The points that make each value, as far as their conditions hold."""
        found = dict(super().terms)
        for name, computation in self.algorithm.computations.items():
            if computation.guards:
                assert computation.is_reduction, "only terms depend on values"
                for value, those in found.items():
                    if value[0] == name:
                        kept = (p for p in those if self.holds(computation.guards, self.names(computation, p)))
                        found[value] = frozenset(kept)
        return found

    def choices(self, e: Expr, names: Mapping[str, int]) -> frozenset[int]:
        """The one value that an index has; all that it may have, where a computed value decides."""
        try:
            return frozenset({self._value(e, names)})
        except NotInteger:
            return super().choices(e, names)
