"""One rank's part of a distributed program: its coordinates are parameters, and loops over ranks have one iteration.

::

    for q in 0 .. 4: S[q]   -->   S[rank0]      (on each rank, rank0 from 0 to 3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Expr, Param
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import BlockBounds, ProcessGrid
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.program.fresh_names import free_parameter
from tiramisu_py.program.loops import LoopId, Rank, RankBlock
from tiramisu_py.program.machine.distribution import Pieces
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.run_time_blocks import own
from tiramisu_py.program.ranks.spread import axes, depth_of, ranks
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Ranked:
    """The program of one rank in `grid` (None if there is only one process).

    Arrays may begin at indices that are no affine function of the rank: these are additional parameters with the values
    `definitions`. `cuts` names the parameters of the caller's arrays that are held in pieces, by array and dimension.
    """

    program: Program
    grid: ProcessGrid | None = None
    cuts: Mapping[tuple[str, int], str] = field(default_factory=dict)
    definitions: Mapping[str, Expr] = field(default_factory=dict)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The parameters that are the coordinates of this rank."""
        return () if self.grid is None else self.grid.coordinates

    @property
    def varying(self) -> tuple[str, ...]:
        """The parameters that differ from rank to rank."""
        return () if self.grid is None else self.grid.varying

    def named(self, variables: dict[LoopId, str]) -> dict[LoopId, str]:
        """The variables of loops; for loops over ranks, the coordinates of this rank."""
        found = dict(variables)
        for number, loop in self.program.loops.items():
            if isinstance(loop.tag, Rank) and number in found:
                found[number] = self.coordinates[loop.tag.axis]
        return found


def on_one_rank(program: Program) -> Ranked:
    """The program of one rank; values keep their indices, and arrays their extents."""
    count = axes(program)
    if program.ranks.blocks is not None:
        return Ranked(*in_own_block(program))
    if count == 0:
        return Ranked(program)
    everyone = ranks(program)
    grid = ProcessGrid(_extents(program, everyone), _names(program, count))
    names = grid.coordinates
    known = sets.with_more_params(program.context, names).intersect(sets.dims_as_params(everyone, names))
    mine = widened(program.with_(algorithm=replace(program.algorithm, context=known)), names)
    statements = {s.name: _restricted(program, s, names) for s in mine.statements.values()}
    ranked = Ranked(mine.with_(statements=statements), grid)
    cuts = dict[tuple[str, int], str]()
    for buffer, dim in _cut(program):
        cuts[buffer, dim] = free_parameter(ranked.program, f"{buffer}_from", cuts.values())
    return replace(ranked, program=widened(ranked.program, list(cuts.values())), cuts=cuts)


def widened(program: Program, names: Sequence[str]) -> Program:
    """The program with additional parameters, whose values differ by rank."""
    if not names:
        return program
    algorithm = program.algorithm
    new = [name for name in names if name not in sets.params(algorithm.context)]
    known = sets.with_more_params(algorithm.context, new)
    mine = replace(algorithm, params=(*algorithm.params, *names), context=known)
    space = mine.param_space
    return program.with_(
        algorithm=mine,
        statements={s.name: _aligned(s, space) for s in program.statements.values()},
        storages={
            name: replace(storage, index=sets.with_params_of(storage.index, space))
            for name, storage in program.storages.items()
        },
    )


def _cut(program: Program) -> list[tuple[str, int]]:
    """The dimensions of the caller's arrays that are held in pieces."""
    found = {
        (program.storages[source].buffer, spread.dim): None
        for source, distribution in program.ranks.distributions.items()
        for spread in distribution.axes
        if isinstance(spread, Pieces)
    }
    return list(found)


def _names(program: Program, count: int) -> tuple[str, ...]:
    return tuple(free_parameter(program, f"rank{axis}") for axis in range(count))


def _extents(program: Program, everyone: isl.Set) -> tuple[Expr, ...]:
    if program.ranks.grid:
        return tuple(typed(extent, int64) for extent in program.ranks.grid)
    found = []
    for axis in range(sets.size(everyone)):
        most = sets.largest(everyone, axis).coalesce()
        extent = simplified(of_params(sets.extent_between(sets.zero_like(most), most), program.context))
        found.append(arithmetic.rounded(extent))
    return tuple(found)


def _aligned(statement: Statement, space: isl.Space) -> Statement:
    message = statement.link.message
    if message is not None:
        slots = None if message.slots is None else sets.with_params_of(message.slots, space)
        message = replace(message, peer=sets.with_params_of(message.peer, space), slots=slots)
    return replace(
        statement,
        instances=statement.instances.align_params(space),
        point=sets.with_params_of(statement.point, space),
        coords=sets.with_params_of(statement.coords, space),
        link=replace(statement.link, message=message),
    )


def _restricted(program: Program, statement: Statement, names: Sequence[str]) -> Statement:
    """A statement with only the instances of this rank."""
    instances = statement.instances
    for axis, name in enumerate(names):
        depth = depth_of(program, statement, axis)
        if depth is not None:
            instances = sets.where_equal(instances, sets.outputs(statement.coords)[depth], name)
    return replace(statement, instances=instances)


# -- one rank's part of a program whose blocks have bounds that are known at run time
#
# The bounds are parameters whose values differ by rank; so is the number of the rank, which determines its peers. The
# number of ranks that have a block is computed when the function is called.


def in_own_block(program: Program) -> tuple[Program, ProcessGrid]:
    """The program of one rank, with the rank's number as an additional parameter, and the grid of the ranks."""
    mine = own(program)
    blocks, algorithm = mine.ranks.blocks, program.algorithm
    assert blocks is not None
    rank, count = free_parameter(program, "rank0"), free_parameter(program, "ranks_used")
    context = sets.with_more_params(mine.context, (rank,))
    context = context.intersect(sets.at_least_zero(context.get_space(), rank))
    wider = replace(algorithm, params=(*algorithm.params, rank), context=context)
    space = wider.param_space
    bounds = BlockBounds(*blocks.bounds, typed(blocks.extent, int64), blocks.least, count)
    changed = mine.with_(
        algorithm=wider,
        statements={s.name: _on_rank(s, space, rank) for s in mine.statements.values()},
        storages={
            name: replace(storage, index=sets.with_params_of(storage.index, space))
            for name, storage in mine.storages.items()
        },
        loops={
            number: replace(loop, tag=None) if isinstance(loop.tag, RankBlock) else loop
            for number, loop in mine.loops.items()
        },
        calls=replace(mine.calls, narrowed=None),
        ranks=replace(mine.ranks, is_spread=False),
    )
    return changed, ProcessGrid((Param(count, int64),), (rank,), bounds)


def _on_rank(statement: Statement, space: isl.Space, rank: str) -> Statement:
    """A statement over the additional parameter; the peer of a message becomes the number of a rank."""
    instances = statement.instances.align_params(space)
    message = statement.link.message
    if message is not None:
        here = sets.parameter(instances.get_space(), rank)
        peers = [form.add(here) for form in sets.outputs(sets.with_params_of(message.peer, space))]
        slots = None if message.slots is None else sets.with_params_of(message.slots, space)
        peer = sets.function(instances.get_space(), None, peers)
        message = replace(message, peer=peer, slots=slots, is_relative=False)
    return replace(
        statement,
        instances=instances,
        point=sets.with_params_of(statement.point, space),
        coords=sets.with_params_of(statement.coords, space),
        link=replace(statement.link, message=message),
    )
