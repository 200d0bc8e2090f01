"""Bounds that follow from a run: they hold wherever its own two do, ``start[n] <= p < start[n + 1]``.

As `start` never falls, and `of` has the run of each position where runs have each position once,

    u <= n        start[u] <= p            q <= p        of[q] <= n
    u >= n + 1    p < start[u]             q >= p        n <= of[q]

so that they may be tested in addition, or in place of the run's own, without an execution more or less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.runs import Run, is_exact, runs, start_bounds
from tiramisu_py.algorithm.expressions import Access, Binary, Expr
from tiramisu_py.records import dataclass

#: The comparison with its sides exchanged.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}

#: The sides on which an element bounds a form.
_SIDES = {"<=": "l", ">=": "u", "==": "lu"}


@dataclass(frozen=True, eq=False)
class RunBounds:
    """The runs that some conditions make on `points`, and which other conditions follow from them."""

    algorithm: Algorithm
    reader: Affine
    points: isl.Set
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, algorithm: Algorithm, reader: Affine, points: isl.Set, guards: Sequence[Expr]) -> RunBounds:
        """The runs among some conditions."""
        found = runs(list(start_bounds(algorithm.inputs, reader, guards)))
        return cls(algorithm, reader, points, tuple(found))

    def is_implied(self, guard: Expr) -> bool:
        """Whether a condition follows from the runs, and is none of their own."""
        own = {condition.key() for run in self.runs for condition in map(typed, run.conditions)}
        parts = [*conjuncts(typed(guard))]
        return all(typed(part).key() not in own and self._follows(part) for part in parts)

    def needed(self, guards: Sequence[Expr]) -> tuple[Expr, ...]:
        """The conditions without those of a run whose number the others say, ``of[p] <= n`` and ``n <= of[p]``."""
        parts = [part for guard in guards for part in conjuncts(typed(guard))]
        told = {condition.key() for run in self._told(parts) for condition in map(typed, run.conditions)}
        return tuple(part for part in parts if typed(part).key() not in told) if told else tuple(guards)

    def _told(self, parts: Sequence[Expr]) -> Iterator[Run]:
        for run in self.runs:
            sides = {
                side
                for op, element, other in (found for part in parts for found in _comparisons(part))
                if op in _SIDES and self._is_number_of_position(element, run) and self._is_form(other, run.row)
                for side in _SIDES[op]
            }
            if len(sides) == len(_SIDES["=="]):
                yield run

    def _is_number_of_position(self, element: Access, run: Run) -> bool:
        at = self._form(element.indices[0]) if self._is_number(element, run) else None
        return at is not None and self._never(at.ne_set(run.position.to_pw_aff()))

    def _follows(self, condition: Expr) -> bool:
        return any(
            self._of_numbers(op, element, other, run) or self._of_starts(op, element, other, run)
            for op, element, other in _comparisons(condition)
            for run in self.runs
        )

    def _of_numbers(self, op: str, element: Access, other: Expr, run: Run) -> bool:
        """``of[q] <= n`` with q <= p, ``of[q] >= n`` with q >= p."""
        if op not in ("<=", ">=", "==") or not self._is_number(element, run) or not self._is_form(other, run.row):
            return False
        at, position = self._form(element.indices[0]), run.position.to_pw_aff()
        if at is None:
            return False
        below = op == ">=" or self._never(at.gt_set(position))
        return below and (op == "<=" or self._never(at.lt_set(position)))

    def _of_starts(self, op: str, element: Access, other: Expr, run: Run) -> bool:
        """``start[u] <= p`` with u <= n, ``start[u] > p`` with u > n."""
        if op not in ("<=", ">") or element.source != run.start or not self._is_form(other, run.position):
            return False
        at, row = self._form(element.indices[0]), run.row.to_pw_aff()
        if at is None:
            return False
        return self._never(at.gt_set(row)) if op == "<=" else self._never(at.le_set(row))

    def _is_number(self, element: Access, run: Run) -> bool:
        """Whether an element is a number of a run, of runs that have each position once."""
        return self.algorithm.runs_numbered(element.source) == run.start

    def _is_form(self, e: Expr, form: isl.Aff) -> bool:
        found = self._form(e)
        return found is not None and self._never(found.ne_set(form.to_pw_aff()))

    def _form(self, e: Expr) -> isl.PwAff | None:
        if not is_exact(e):
            return None
        try:
            return self.reader.value(e)
        except NotAffine:
            return None

    def _never(self, where: isl.Set) -> bool:
        return bool(sets.as_set(where).intersect(self.points).is_empty())


def _comparisons(condition: Expr) -> Iterator[tuple[str, Access, Expr]]:
    """The element of an array in a comparison, and what it is compared with: ``element op other``."""
    condition = typed(condition)
    if not isinstance(condition, Binary) or condition.op not in _MIRRORED:
        return
    for op, side, other in (
        (condition.op, condition.left, condition.right),
        (_MIRRORED[condition.op], condition.right, condition.left),
    ):
        element = narrowest(side)
        if isinstance(element, Access) and len(element.indices) == 1:
            yield op, element, other
