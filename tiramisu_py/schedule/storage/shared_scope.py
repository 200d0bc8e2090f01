"""Buffers in shared memory: one copy for each block of threads, whatever loops they were placed in."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.program.loops import GpuBlock, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.schedule.storage.store import scoped


def settled(program: Program) -> Program:
    """The program with each buffer in shared memory scoped to the blocks of the kernel that fills it.

    A buffer that was also local to loops inside the blocks is then reused in each of their iterations; one of the whole
    call shrinks to the values that a block stores.
    """
    for buffer in list(program.buffers.values()):
        if buffer.memory is Memory.SHARED:
            program = _settled(program, buffer)
    return program


def _settled(program: Program, buffer: Buffer) -> Program:
    names = {storage.name for storage in program.storages_in(buffer.name)}
    filling = [s for s in program.storing if s.memory.target in names]
    around = {through_blocks(program, statement) for statement in filling}
    if len(around) != 1 or () in around:
        return program
    (blocks,) = around
    if buffer.scope[: len(blocks)] == blocks:
        return _cut(program, buffer, len(blocks))
    if blocks[: len(buffer.scope)] == buffer.scope:
        return _widened(program, buffer, blocks)
    return program


def through_blocks(program: Program, statement: Statement) -> tuple[LoopId, ...]:
    """The loops around a statement from the outermost to the last block loop; none outside of kernels."""
    depths = [d for d, loop in enumerate(statement.loops) if isinstance(program.loops[loop].tag, GpuBlock)]
    return statement.loops[: depths[-1] + 1] if depths else ()


def _cut(program: Program, buffer: Buffer, count: int) -> Program:
    inside = buffer.scope[count:]
    for storage in list(program.storages_in(buffer.name)):
        program = program.with_storage(replace(storage, inner=inside + storage.inner))
    return program.with_buffer(replace(buffer, scope=buffer.scope[:count]))


def _widened(program: Program, buffer: Buffer, blocks: tuple[LoopId, ...]) -> Program:
    storages = list(program.storages_in(buffer.name))
    if len(storages) == 1 and not storages[0].chosen:
        return scoped(program, storages[0], blocks, storages[0].source)
    before, added = len(buffer.scope), len(blocks) - len(buffer.scope)
    for storage in storages:
        space = sets.sized_frame(storage.index.get_space(), None, sets.in_size(storage.index) + added)
        variables = sets.variables(space)
        kept = sets.function(space, None, variables[:before] + variables[before + added :])
        program = program.with_storage(replace(storage, index=sets.compose(kept, storage.index)))
    return program.with_buffer(replace(buffer, scope=blocks))
