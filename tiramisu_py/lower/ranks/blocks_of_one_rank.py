"""One rank's part of a program whose blocks have bounds that are known at run time.

The bounds are parameters whose values differ by rank; so is the number of the rank, which determines its peers. The
number of ranks that have a block is computed when the function is called.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Param
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import BlockBounds, ProcessGrid
from tiramisu_py.program.fresh_names import free_parameter
from tiramisu_py.program.loops import RankBlock
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.run_time_blocks import own
from tiramisu_py.program.statement import Statement


def in_own_block(program: Program) -> tuple[Program, ProcessGrid]:
    """The program of one rank, with the rank's number as an additional parameter, and the grid of the ranks."""
    mine = own(program)
    blocks, algorithm = mine.blocks, program.algorithm
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
        narrowed=None,
        is_spread=False,
    )
    return changed, ProcessGrid((Param(count, int64),), (rank,), bounds)


def _on_rank(statement: Statement, space: isl.Space, rank: str) -> Statement:
    """A statement over the additional parameter; the peer of a message becomes the number of a rank."""
    instances = statement.instances.align_params(space)
    message = statement.message
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
        message=message,
    )
