"""Messages between neighbours whose blocks have bounds that are known at run time only.

Missing values below or above a rank's block come from the neighbour there. The values that the neighbour reads from
this rank are given by the same formula with the neighbour's bounds, one of which is this rank's own.

    receive = {values read with an index < lower}           send = {values : in receive where lower is this upper}

Messages are derived between nests at the outermost level; values that are read in the loops that compute them are left
out, and the proof reports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.dimension_names import dimension_names
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.derive.ranks.message_waits import waiting_for
from tiramisu_py.program.fresh_names import free_exchange
from tiramisu_py.program.loops import Bulk
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.run_time_blocks import block_dim, own
from tiramisu_py.program.statement import Role
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.ranks.exchange import half_of
from tiramisu_py.schedule.ranks.exchange_half import ExchangeHalf
from tiramisu_py.schedule.ranks.rank_numbers import RANK


@dataclass(frozen=True, eq=False)
class BlockHalo:
    """The halo of a source on one side of a rank's block; the neighbour that has the values is `away` ranks up."""

    source: str
    values: isl.Set
    away: int
    readers: tuple[str, ...]


def with_block_exchanges(program: Program, command: str) -> Program:
    """The program with the missing messages between neighbours added."""
    for halo in list(_halos(program, own(program))):
        program = _exchanged(program, halo, command)
    return program


def _halos(program: Program, mine: Program) -> Iterator[BlockHalo]:
    accesses = MemoryAccesses(mine)
    for source in (*program.algorithm.inputs, *program.algorithm.computations):
        dim = block_dim(program, source)
        if dim is None or source not in program.storages:
            continue
        lacking, readers = _lacking(mine, accesses, source)
        if lacking is None:
            continue
        assert mine.ranks.blocks is not None
        index = sets.variables(lacking.get_space())[dim]
        lower, upper = (sets.parameter(lacking.get_space(), name) for name in mine.ranks.blocks.bounds)
        below = lacking.intersect(sets.as_set(index.lt_set(lower)))
        above = lacking.intersect(sets.as_set(index.ge_set(upper)))
        for values, away in ((below, -1), (above, 1)):
            if not values.is_empty():
                yield BlockHalo(source, values.coalesce(), away, readers)


def _lacking(mine: Program, accesses: MemoryAccesses, source: str) -> tuple[isl.Set | None, tuple[str, ...]]:
    """The values of a source that statements on a rank read and the rank does not have, and these statements."""
    home = mine.storages[source].buffer
    accessing = [t for t in accesses.of_buffer(home) if t.source == source and t.storage.name == source]
    had = [t for t in accessing if t.is_write]
    parts = list[isl.Set]()
    readers = []
    for read in accessing:
        reader = read.actor.statement
        if read.is_write or reader is None:
            continue
        if any(w.actor.statement is not None and shared(w.actor.statement, reader) for w in had):
            continue
        values = read.domain.apply(read.values)
        for write in had:
            values = values.subtract(write.domain.apply(write.values))
        if not values.is_empty():
            parts.append(values)
            readers.append(reader.name)
    return sets.united(parts), tuple(readers)


def _exchanged(program: Program, halo: BlockHalo, command: str) -> Program:
    """The program with the exchange of a halo: received, sent, and waited for, just before its first reader."""
    names = tuple(dimension_names(program.algorithm, halo.source))
    access = Access(halo.source, tuple(map(Iter, names)), program.algorithm.source(halo.source).dtype)
    name = free_exchange(program, f"{halo.source}_to_{'next' if halo.away < 0 else 'previous'}")
    made = []
    first = [reader for reader in program.statements if reader in halo.readers]
    for role, points, peer in (
        (Role.COPY, halo.values, RANK + halo.away),
        (Role.SEND, _sent(program, halo), RANK - halo.away),
    ):
        statement = f"{name}_{'send' if role is Role.SEND else 'receive'}"
        half = ExchangeHalf(names, sets.plain(points), access, (peer,), asynchronous=True)
        program = half_of(program, statement, name, half, role, command)
        loops = [replace(program.loops[n], tag=Bulk(), tagged_by=command) for n in program.statements[statement].loops]
        program = _before(program.with_loop(*loops), statement, first)
        made.append(statement)
    for statement in made:
        program = program.with_statement_before(waiting_for(program, statement, ()), first)
    return program


def _before(program: Program, name: str, others: list[str]) -> Program:
    """The program with a statement declared just before others."""
    statement = program.statements[name]
    kept = {key: value for key, value in program.statements.items() if key != name}
    return program.with_(statements=kept).with_statement_before(statement, others)


def _sent(program: Program, halo: BlockHalo) -> isl.Set:
    """The values that the neighbour needs from this rank's block: the halo with the neighbour's bounds."""
    blocks, space = program.ranks.blocks, halo.values.get_space()
    assert blocks is not None
    count = sets.size(halo.values)
    theirs = sets.param_as_last_dim(sets.param_as_last_dim(halo.values, blocks.lower), blocks.upper)
    theirs = theirs.align_params(space.params())
    frame = theirs.get_space()
    low, high = sets.variables(frame)[count:]
    lower, upper = (sets.parameter(frame, name) for name in blocks.bounds)
    zero, extent = sets.constant(frame, 0), Affine(frame, {}).single(blocks.extent)
    if halo.away < 0:  # they are above: their lower bound is the upper one here
        meets = sets.as_set(low.eq_set(upper)).intersect(sets.as_set(upper.lt_set(extent)))
    else:
        meets = sets.as_set(high.eq_set(lower)).intersect(sets.as_set(lower.gt_set(zero)))
    return sets.project_prefix(theirs.intersect(meets), count).intersect_params(own(program).context).coalesce()
