"""The numbers of a picture: the values that `evaluate()` finds at its sizes, and the terms of its reductions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments
from tiramisu_py.algorithm.evaluate.evaluate import all_values
from tiramisu_py.algorithm.evaluate.valuation import Points, Valuation
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.errors import TiramisuError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.view.pictures.scene import Number, PicturedInstance, PicturedRead, PicturedStatement, Point

#: Where the random inputs of all pictures begin.
SEED = 0
#: Larger integers are not exact in a page, whose numbers are all of 64 bits with a binary point.
_EXACT = 1 << 53


def picture_values(program: Program, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None) -> PictureValues:
    """The values of a program at given sizes, for `inputs` and random ones.

    If random inputs are not as the algorithm needs them (an index out of bounds, a fact that does not hold), the
    picture has no values, and says why. Raises `ArgumentError` for given inputs that do not fit.
    """
    algorithm = program.algorithm
    try:
        valuation = all_values(algorithm, arguments(algorithm, inputs or {}, sizes, SEED), sizes)
    except TiramisuError as error:
        if inputs:
            raise
        return PictureValues(program, None, f"no values, since random inputs do not fit: {error}")
    if not algorithm.inputs:
        return PictureValues(program, valuation, "")
    drawn = [name for name in algorithm.inputs if name not in (inputs or {})]
    of = f"random {', '.join(drawn)}" if inputs else "random inputs"
    return PictureValues(program, valuation, f"values of {of if drawn else 'the given inputs'}")


@dataclass(frozen=True)
class PictureValues:
    """The values of a program at one size, if there are any, and in words which inputs they are of."""

    program: Program
    valuation: Valuation | None
    words: str

    def of_instances(self, instances: Sequence[PicturedInstance]) -> tuple[PicturedInstance, ...]:
        """The instances with their terms, and whether those that may run do."""
        if self.valuation is None:
            return tuple(instances)
        found = list(instances)
        for number, statement in enumerate(self.program.statements.values()):
            if statement.role is Role.UPDATE or (statement.role is Role.VALUE and statement.guards):
                for each in self._computed(statement, [each for each in instances if each.statement == number]):
                    found[each.order] = each
        return tuple(found)

    def _computed(self, statement: Statement, own: Sequence[PicturedInstance]) -> Iterable[PicturedInstance]:
        """The instances of a statement: what its guards say at their points, and its term where they hold."""
        assert self.valuation is not None
        self.valuation.reader, self.valuation.iterators = statement.source, self.program.point_names(statement)
        columns = np.array([each.point for each in own], dtype=np.int64).reshape(len(own), -1).T
        at = Points(dict(zip(self.valuation.iterators, columns, strict=True)), len(own), np.arange(len(own)))
        for guard in statement.guards:
            at = at.where(self.valuation.column(typed(guard, bool_), at))
        assert at.rows is not None
        runs = set(at.rows.tolist()) if statement.guards else None
        terms = dict[int, Number]()
        if statement.role is Role.UPDATE:
            dtype = self.program.algorithm.computations[statement.source].dtype
            with np.errstate(all="ignore"):
                column = self.valuation.column(typed(statement.body, dtype), at)
            terms = dict(zip(at.rows.tolist(), map(plain, column), strict=True))
        for row, each in enumerate(own):
            yield replace(each, term=terms.get(row), runs=None if runs is None else row in runs)

    def named(
        self,
        statements: Sequence[PicturedStatement],
        instances: Iterable[PicturedInstance],
        reads: Iterable[PicturedRead],
    ) -> dict[str, dict[Point, Number]]:
        """All values that are stored, moved or read, by their source."""
        if self.valuation is None:
            return {}
        wanted = {(statements[each.statement].source, each.value): None for each in instances}
        wanted |= {(read.source, read.value): None for read in reads}
        found: dict[str, dict[Point, Number]] = {}
        for source, at in wanted:
            value = self._value(source, at)
            if value is not None:
                found.setdefault(source, {})[at] = value
        return found

    def _value(self, source: str, at: Point) -> Number | None:
        """A value; None if there is none with these indices."""
        assert self.valuation is not None
        if source not in self.valuation.values:
            return None
        values = self.valuation.values[source]
        place = tuple(index - low for index, low in zip(at, values.low, strict=True))
        if any(not 0 <= k < extent for k, extent in zip(place, values.array.shape, strict=True)):
            return None
        known = values.done is None or bool(values.done[place])
        return plain(values.array[place]) if known else None


def plain(value: Any) -> Number:
    """A NumPy scalar as a page holds it, with six digits of a number with a binary point."""
    kind = value.dtype
    if kind.names is not None:
        return "(" + ", ".join(str(plain(value[name])) for name in kind.names) + ")"
    if kind == np.bool_:
        return bool(value)
    if np.issubdtype(kind, np.integer):
        return int(value) if abs(int(value)) < _EXACT else str(int(value))
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else str(number)
