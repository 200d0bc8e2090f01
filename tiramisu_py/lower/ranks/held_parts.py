"""The caller's arrays on one rank: the rank's own block, with indices from 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param, Select
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.ranks.one_rank import Ranked
from tiramisu_py.program.machine.distribution import Dealt, Distribution, Pieces
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.run_time_blocks import in_block
from tiramisu_py.program.storage import Buffer, Storage
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class _Piece:
    """A piece of a dimension: its first index, and its number of indices."""

    lower: Expr
    count: Expr


@dataclass(frozen=True, eq=False)
class Holding:
    """The part of a caller's array that this rank holds, by the array's distribution."""

    ranked: Ranked
    buffer: Buffer
    distribution: Distribution

    @property
    def space(self) -> isl.Space:
        """The frame of the array's elements."""
        return sets.sized_frame(self.ranked.program.algorithm.param_space, self.buffer.name, len(self.buffer.extents))

    def elements(self) -> isl.Set:
        """The elements that this rank holds, with their indices in the whole array."""
        reader = Affine(self.space, {})
        found = sets.universe(self.space).intersect_params(self.ranked.program.context)
        for dim, (index, extent) in enumerate(zip(sets.variables(self.space), self.buffer.extents, strict=True)):
            found = found.intersect(index.to_pw_aff().nonneg_set()).intersect(
                index.to_pw_aff().lt_set(reader.value(extent))
            )
            dealt = self.distribution.dealt(dim)
            if dealt is not None:
                found = found.intersect(self._mine(dealt[1].owners(self.space), dealt[0]))
            if dim == self.distribution.in_blocks and self.ranked.program.ranks.blocks is not None:
                found = found.intersect(in_block(self.ranked.program.ranks.blocks, index))
        return found.intersect_params(self._holders()).coalesce()

    def _mine(self, owners: isl.Map, axis: int) -> isl.Set:
        """The elements whose owner along an axis is this rank."""
        line = sets.universe(sets.sized_frame(self.space, None, 1))
        (at,) = sets.variables(line.get_space())
        return owners.intersect_range(sets.where_equal(line, at, self.ranked.coordinates[axis])).domain()

    def _holders(self) -> isl.Set:
        """The ranks that hold a part of the array."""
        found = self.ranked.program.context
        for axis, spread in enumerate(self.distribution.axes):
            if isinstance(spread, int):
                found = sets.param_between(found, self.ranked.coordinates[axis], spread, spread)
        return found

    def local(self) -> list[isl.Aff]:
        """The place of an element in this rank's array, as a function of the element's indices."""
        found = []
        for dim, index in enumerate(sets.variables(self.space)):
            dealt = self.distribution.dealt(dim)
            if dim == self.distribution.in_blocks and self.ranked.grid is not None:
                found.append(index.sub(sets.parameter(self.space, self.ranked.grid.varying[1])))
            else:
                found.append(index if dealt is None else self._local(index, dim, *dealt))
        return found

    def scanned(self) -> list[isl.Aff]:
        """The order in which the held elements are enumerated: by their places, or by their indices in dimensions
        where pieces begin at a parameter of the rank.
        """
        pairs = zip(self.local(), sets.variables(self.space), strict=True)
        return [index if (self.buffer.name, dim) in self.ranked.cuts else at for dim, (at, index) in enumerate(pairs)]

    def definitions(self) -> dict[str, Expr]:
        """The begins of its pieces on this rank: the values of the parameters in `local`."""
        found = dict[str, Expr]()
        for dim in range(len(self.buffer.extents)):
            name, dealt = self.ranked.cuts.get((self.buffer.name, dim)), self.distribution.dealt(dim)
            if name is not None and dealt is not None and isinstance(dealt[1], Pieces):
                first = [piece.lower for piece in self._pieces(dim, dealt[1])]
                found[name] = self._by_rank(dealt[0], dealt[1].ranks, first, first[0])
        return found

    def _local(self, index: isl.Aff, dim: int, axis: int, dealt: Dealt | Pieces) -> isl.Aff:
        if isinstance(dealt, Pieces):
            return index.sub(sets.parameter(self.space, self.ranked.cuts[self.buffer.name, dim]))
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
        if dim == self.distribution.in_blocks and self.ranked.grid is not None:
            lower, upper = (Param(name, int64) for name in self.ranked.grid.varying[1:])
            return arithmetic.subtracted(upper, lower)
        dealt = self.distribution.dealt(dim)
        extent = whole if dealt is None else self._count(dim, whole, *dealt)
        for axis, spread in enumerate(self.distribution.axes):
            if isinstance(spread, int) and (dim == 0 or dealt is not None):
                here = Binary("==", self._coordinate(axis), arithmetic.number(spread), bool_)
                extent = Select(here, extent, arithmetic.number(0) if dim == 0 else whole, int64)
        return extent

    def _line(self, dim: int) -> isl.Set:
        """The indices of a dimension of the whole array."""
        context = self.ranked.program.context
        line = sets.sized_frame(context.get_space(), None, 1)
        (index,) = sets.variables(line)
        inside = sets.universe(line).intersect_params(context).intersect(index.to_pw_aff().nonneg_set())
        return inside.intersect(index.to_pw_aff().lt_set(Affine(line, {}).value(self.buffer.extents[dim])))

    def _pieces(self, dim: int, pieces: Pieces) -> list[_Piece]:
        """The pieces of a dimension: the begin and the number of indices of each."""
        context, inside = self.ranked.program.context, self._line(dim)
        found = []
        for part in replace(pieces, dim=0).parts(inside.get_space()):
            own = part.intersect(inside).coalesce()
            low, high = sets.smallest_coordinate(own, 0), sets.largest(own, 0)
            count = sets.zero_elsewhere(sets.extent_between(low, high)).gist(context).coalesce()
            begin = low.gist(own.params()).coalesce()
            lower = arithmetic.number(0) if own.is_empty() else simplified(of_params(begin, context))
            found.append(_Piece(lower, simplified(of_params(count, context))))
        return found

    def _by_rank(self, axis: int, ranks: Sequence[int], values: Sequence[Expr], other: Expr) -> Expr:
        """A value that depends on the rank; `other` on ranks that are not listed."""
        context, found = self.ranked.program.context, other
        named = sets.empty(context.get_space())
        for rank in ranks:
            named = named.union(sets.param_between(context, self.ranked.coordinates[axis], rank, rank))
        pairs = list(zip(ranks, values, strict=True))
        if context.is_subset(named):
            found = pairs.pop()[1]
        for rank, value in reversed(pairs):
            here = Binary("==", self._coordinate(axis), arithmetic.number(rank), bool_)
            found = value if value.key() == found.key() else Select(here, value, found, int64)
        return found

    def _count(self, dim: int, whole: Expr, axis: int, dealt: Dealt | Pieces) -> Expr:
        """The number of indices of a dimension that are dealt to this rank."""
        if isinstance(dealt, Pieces):
            counts = [piece.count for piece in self._pieces(dim, dealt)]
            return self._by_rank(axis, dealt.ranks, counts, arithmetic.number(0))
        context, inside = self.ranked.program.context, self._line(dim)
        (index,) = sets.variables(inside.get_space())
        line = inside.get_space()
        mine = sets.where_equal(inside, dealt.owner(index), self.ranked.coordinates[axis])
        most = sets.largest(mine.apply(sets.graph(sets.function(line, None, [dealt.local(index)]))), 0)
        count = sets.zero_elsewhere(sets.extent_between(sets.zero_like(most), most)).intersect_params(context)
        found = simplified(of_params(count.gist(context).coalesce(), context))
        name = self.ranked.coordinates[axis]
        if isinstance(found, Const):
            return found
        if dealt.cycle is not None:
            everyone = context.is_subset(sets.param_between(context, name, 0, dealt.cycle - 1))
            return self._in_turn(whole, axis, dealt.block, dealt.cycle) if everyone else found
        rest = arithmetic.smaller(arithmetic.number(dealt.block), self._after(whole, axis, dealt.block))
        return simplified(rest if mine.params().is_equal(context) else arithmetic.larger(arithmetic.number(0), rest))

    def _in_turn(self, whole: Expr, axis: int, block: int, cycle: int) -> Expr:
        """The number of indices that are dealt to this rank in a block-cyclic way."""
        if block == 1:
            left = self._after(arithmetic.plus(whole, cycle - 1), axis, 1)
            return simplified(arithmetic.floor_divided(left, cycle))
        rounds = arithmetic.times(arithmetic.floor_divided(whole, block * cycle), block)
        last = self._after(Binary("%", whole, arithmetic.number(block * cycle), int64), axis, block)
        some = arithmetic.larger(arithmetic.number(0), arithmetic.smaller(arithmetic.number(block), last))
        return simplified(arithmetic.added(rounds, some))

    def _after(self, extent: Expr, axis: int, block: int) -> Expr:
        """The rest of an extent after the blocks of the ranks before this one."""
        return arithmetic.subtracted(extent, arithmetic.times(self._coordinate(axis), block))

    def _coordinate(self, axis: int) -> Expr:
        return Param(self.ranked.coordinates[axis], int64)


def holding_of(ranked: Ranked, buffer: Buffer) -> Holding | None:
    """The part of a caller's array that this rank holds; None if it holds the whole array.

    The proof has shown that all values in one array are distributed alike.
    """
    program = ranked.program
    callers = [s for s in program.storages_in(buffer.name) if is_callers(program, s)]
    found = [program.ranks.distributions.get(storage.source) for storage in callers]
    if not any(found):
        return None
    for storage, distribution in zip(callers, found, strict=True):
        if distribution != found[0]:
            raise CompilerDefect(
                f"{callers[0].source} and {storage.source} are in one array, {buffer.name}: "
                "distribute both in the same way"
            )
        if not sets.is_identity(storage.index):
            raise CompilerDefect(
                f"{storage.source} is distributed, but its layout in {buffer.name} permutes its dimensions: "
                "keep them in order"
            )
    assert found[0] is not None
    return Holding(ranked, buffer, found[0])


def is_callers(program: Program, storage: Storage) -> bool:
    """Whether a storage is in an array of the caller: that of an input or an output."""
    algorithm = program.algorithm
    return storage.name == storage.source and (
        storage.source in algorithm.inputs or storage.source in algorithm.outputs
    )
