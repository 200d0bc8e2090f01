"""The caller's arrays on one rank: the rank's own block, at indices counted from 0.

Where a rank touches more of an array than its block (a halo that is received into it), the array is kept elsewhere
while the function runs: in memory that covers both, filled from the caller's array at first, or copied there at last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.affine import Affine
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter
from tiramisu_py.algorithm.from_isl import of_params
from tiramisu_py.algorithm.types import int64
from tiramisu_py.algorithm.typing_pass import typed
from tiramisu_py.dependence.touches import Touches
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.lower import arithmetic
from tiramisu_py.lower.locality import elements_of, touched_of
from tiramisu_py.lower.names import unique
from tiramisu_py.lower.ranked import Ranked
from tiramisu_py.lower.simplify import simplified
from tiramisu_py.program.distribution import Dealt, Distribution
from tiramisu_py.program.loops import Loop
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Storage


@dataclass(frozen=True, eq=False)
class Holding:
    """What this rank holds of an array of the caller, as its distribution says."""

    ranked: Ranked
    buffer: Buffer
    distribution: Distribution

    @property
    def space(self) -> isl.Space:
        """The frame of the array's elements."""
        return sets.sized_frame(self.ranked.program.algorithm.param_space, self.buffer.name, len(self.buffer.extents))

    def elements(self) -> isl.Set:
        """The elements that this rank holds, by their indices in the whole array."""
        reader = Affine(self.space, {})
        found = sets.universe(self.space).intersect_params(self.ranked.program.context)
        for dim, (index, extent) in enumerate(zip(sets.variables(self.space), self.buffer.extents, strict=True)):
            found = found.intersect(index.to_pw_aff().nonneg_set()).intersect(
                index.to_pw_aff().lt_set(reader.value(extent))
            )
            dealt = self.distribution.dealt(dim)
            if dealt is not None:
                found = sets.where_equal(found, dealt[1].owner(index), self.ranked.coordinates[dealt[0]])
        return found.intersect_params(self._holders()).coalesce()

    def _holders(self) -> isl.Set:
        """The ranks that hold anything."""
        found = self.ranked.program.context
        for axis, spread in enumerate(self.distribution.axes):
            if isinstance(spread, int):
                found = sets.param_between(found, self.ranked.coordinates[axis], spread, spread)
        return found

    def local(self) -> list[isl.Aff]:
        """Where this rank holds the elements that it holds: a function of the element."""
        found = []
        for dim, index in enumerate(sets.variables(self.space)):
            dealt = self.distribution.dealt(dim)
            found.append(index if dealt is None else self._local(index, *dealt))
        return found

    def _local(self, index: isl.Aff, axis: int, dealt: Dealt) -> isl.Aff:
        rank = sets.parameter(self.space, self.ranked.coordinates[axis])
        if dealt.cycle is None:
            return index.sub(sets.scaled(rank, dealt.block))
        if dealt.block == 1:
            return sets.floor_div(index.sub(rank), dealt.cycle)
        return dealt.local(index)

    def extents(self) -> tuple[Expr, ...]:
        """The extents of the array that the caller passes on this rank."""
        whole = [typed(extent, int64) for extent in self.buffer.extents]
        return tuple(self._extent(dim, extent) for dim, extent in enumerate(whole))

    def _extent(self, dim: int, whole: Expr) -> Expr:
        dealt = self.distribution.dealt(dim)
        some = [spread for spread in self.distribution.axes if isinstance(spread, int)]
        if dealt is None and not (dim == 0 and some):
            return whole
        context = self.ranked.program.context
        line = sets.sized_frame(self.ranked.program.algorithm.param_space, None, 1)
        (index,) = sets.variables(line)
        reader = Affine(line, {})
        every = sets.universe(line).intersect_params(context).intersect(index.to_pw_aff().nonneg_set())
        every = every.intersect(index.to_pw_aff().lt_set(reader.value(self.buffer.extents[dim])))
        held, local = every, index
        if dealt is not None:
            held = sets.where_equal(held, dealt[1].owner(index), self.ranked.coordinates[dealt[0]])
            local = dealt[1].local(index)
        holders = self._holders()
        mine = held.intersect_params(holders)
        if dim > 0 and some:
            mine, local = _either(mine, every.intersect_params(context.subtract(holders)), local, index)
        else:
            mine = mine.apply(sets.graph(sets.function(line, None, [local])))
        return self._in_words(dim, dealt, sets.zero_elsewhere(_count(mine).gist(context)), bool(some))

    def _in_words(self, dim: int, dealt: tuple[int, Dealt] | None, count: isl.PwAff, some: bool) -> Expr:
        context = self.ranked.program.context
        found = simplified(of_params(count.gist(context).coalesce(), context))
        if dealt is None or dealt[1].cycle is not None or some or isinstance(found, Const):
            return found
        rank = arithmetic.times(_coordinate(self.ranked, dealt[0]), dealt[1].block)
        rest = simplified(arithmetic.subtracted(typed(self.buffer.extents[dim], int64), rank))
        least = arithmetic.smaller(arithmetic.number(dealt[1].block), rest)
        return simplified(arithmetic.larger(arithmetic.number(0), least))


def _coordinate(ranked: Ranked, axis: int) -> Expr:
    from tiramisu_py.algorithm.expressions import Param

    return Param(ranked.coordinates[axis], int64)
