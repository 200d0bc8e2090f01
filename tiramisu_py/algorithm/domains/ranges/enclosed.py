"""Facts about integer expressions and computed values: what bounds are asked for, and given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.ranges.float_ranges import FloatRanges
from tiramisu_py.algorithm.domains.ranges.implied import holding
from tiramisu_py.algorithm.domains.ranges.index_parts import IndexParts
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Enclosed:
    """Facts about some integer expressions over a frame.

    `parts` names what has no affine form; `bounds` are the possible values of these parts, in their frame; `possible`
    are the elements of it at the points where the expressions are needed, within the ranges of types too. `unbounded`
    are the parts without known bounds, `facts` the inputs whose declared values the bounds rely on. The bounds hold at
    `points`, those of the computation; None for the whole frame.
    """

    parts: IndexParts
    bounds: isl.Set
    possible: isl.Set
    unbounded: tuple[Expr, ...]
    facts: tuple[str, ...]
    points: isl.Set | None

    def where(self, conditions: Sequence[Expr]) -> Enclosed:
        """These facts where conditions hold, under which alone the expressions are evaluated."""
        holds = holding(self.parts, conditions, self.possible)
        if holds is None:
            return self
        return replace(self, bounds=self.bounds.intersect(holds), possible=self.possible.intersect(holds))

    def relation(self, name: str | None) -> isl.Map:
        """``point -> name[values of the expressions]``."""
        space, reader = self.parts.space, self.parts.reader
        within = sets.map_of_forms(self.parts.forms(), reader.space, name)
        found = self.at(self.bounds, within)
        if self.points is None or not self.parts.parts:
            return found
        own = sets.named(self.points, sets.tuple_name(space) or None)
        anywhere = self.at(sets.universe(reader.space), within).intersect_domain(own.complement())
        return found.intersect_domain(own).union(anywhere)

    def values(self) -> isl.Map:
        """``point -> [values of the expressions]``, where types and points bound them too."""
        return self.at(self.possible, sets.map_of_forms(self.parts.forms(), self.parts.reader.space, None))

    def at(self, where: isl.Set, of: isl.Map) -> isl.Map:
        """A relation from the frame of the parts, at some of its elements, as one from the points."""
        return self._back().apply_range(of.intersect_domain(where))

    def points_of(self, where: isl.Set) -> isl.Set:
        """The points of some elements of the frame of the parts."""
        return where.apply(self._back().reverse())

    def _back(self) -> isl.Map:
        space = self.parts.space
        own = sets.prefix(sets.identity(self.parts.reader.space), sets.size(space))
        return sets.graph(sets.renamed(own, sets.tuple_name(space) or None)).reverse()


@dataclass(frozen=True, eq=False)
class KnownValues:
    """The values that a computation (or a component of it) can have: ``name[point] -> [value]``.

    `facts` are the inputs whose declared values they rely on, `unbounded` what is read without known bounds.
    """

    values: isl.Map
    facts: tuple[str, ...] = ()
    unbounded: tuple[Expr, ...] = ()


class Knowledge(Protocol):
    """Facts about everything that an algorithm computes."""

    algorithm: Algorithm

    def of(self, source: str, component: int | None = None) -> KnownValues | None:
        """The range of a computation, or of one of its components; None if nothing is known."""

    def enclosed(self, given: Sequence[Expr], space: isl.Space, exact: bool = False) -> Enclosed:
        """The facts about integer expressions over a frame."""

    def floats(self, space: isl.Space, facts: list[str]) -> FloatRanges:
        """The ranges of floating-point expressions over a frame; `facts` takes the inputs that they rely on."""
