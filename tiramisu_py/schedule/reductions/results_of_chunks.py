"""Partial results of a reduction's nest, one for each iteration of some of its loops: the nest stays as it is.

::

    for k0:                              for k0 on threads:  C_chunks[k0] = identity
      for k1:                    -->       for k1:           C_chunks[k0] += x[k0, k1]
        C += x[k0, k1]                   for k0:             C += C_chunks[k0]

They are values of their own, as those of `rfactor`; those of a parallel loop are kept with its iterations outermost.
How they are combined follows from the schedule and the sizes alone, whatever threads compute them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.reductions.rfactor import kept_loops, original_coords, over_values, rfactor, value_coords


def in_place(
    program: Program,
    names: Sequence[str],
    update: Statement,
    kept: Sequence[LoopId],
    name: str,
    what: str,
    command: str,
) -> Program:
    """The program with the results of each iteration of an update's kept loops as values, in the nest of the terms.

    The loops of what combines them are new.
    """
    _check_alone(program, update, what)
    whole = program.algorithm.computations[update.source]
    nest = [program.loops[loop] for loop in update.loops]
    around = [loop for loop in update.loops if loop in kept or over_values(program, update, loop)]
    listed = [program.loops[loop].name for loop in kept]
    program = _with_loops_of_its_own(rfactor(program, names, listed, name, command, stays=True), update.name)
    program = program.with_loop(*nest)
    start, terms = program.statements[f"{name}_init"], program.statements[f"{name}_update"]
    terms = replace(terms, loops=update.loops, coords=original_coords(update, whole, kept, terms))
    start = replace(start, coords=value_coords(update, whole, kept, around, start))
    program = _started(program.with_statement(terms), start, terms, around)
    used = {loop for s in program.statements.values() for loop in s.loops}
    return program.with_(loops={number: loop for number, loop in program.loops.items() if number in used})


def in_chunks(
    program: Program, names: Sequence[str], loops: Sequence[str], command: str
) -> tuple[Program, tuple[str, str]]:
    """The program with the results of the iterations of parallel loops as values, and their start and update."""
    update, kept = kept_loops(program, names, loops, "combine=tm.TREE")
    if not kept:
        raise CommandError(f"combine=tm.TREE: {', '.join(loops)} runs over no terms of {update.source}; leave it out")
    if all(loop in kept or over_values(program, update, loop) for loop in update.loops):
        inner = program.loops[kept[-1]].name
        raise CommandError(
            f"combine=tm.TREE keeps a partial result for each iteration of {inner}, and each would be one term: split "
            f"it, {update.handle}.split({inner}, 4096, ...), and run the outer loop in parallel"
        )
    name = f"{update.source}_chunks"
    program = in_place(program, names, update, kept, name, "combine=tm.TREE", command)
    return _chunks_outermost(program, name, len(kept)), (f"{name}_init", f"{name}_update")


def _check_alone(program: Program, update: Statement, what: str) -> None:
    """Refuse loops that something else is in."""
    for loop in update.loops:
        others = [s.handle for s in program.with_this_loop(loop) if s.name != update.name]
        if others:
            raise CommandError(
                f"{what}: {others[0]} shares loop {program.loops[loop].name} with {update.handle}, and partial results "
                "are complete only after the loop: give it loops of its own, or this command first"
            )


def _with_loops_of_its_own(program: Program, name: str) -> Program:
    statement, first = program.statements[name], program.next_loop()
    copies = [replace(program.loops[loop], id=first + k) for k, loop in enumerate(statement.loops)]
    return program.with_loop(*copies).with_statement(replace(statement, loops=tuple(loop.id for loop in copies)))


def _chunks_outermost(program: Program, name: str, count: int) -> Program:
    """The array of partial results with the iterations of the kept loops as its outermost dimensions."""
    storage, buffer = program.storages[name], program.buffers[name]
    forms, values = sets.outputs(storage.index), len(buffer.extents) - count
    index = sets.function(storage.index.get_domain_space(), None, [*forms[values:], *forms[:values]])
    extents = (*buffer.extents[values:], *buffer.extents[:values])
    return program.with_buffer(replace(buffer, extents=extents)).with_storage(replace(storage, index=index))


def _started(program: Program, start: Statement, terms: Statement, around: Sequence[LoopId]) -> Program:
    """The start of the blocks' results in the kernel of their terms, whose outermost loops it shares."""
    common = 0
    while common < len(around) and terms.loops[common] == around[common]:
        common += 1
    first = program.next_loop()
    copies = [replace(program.loops[loop], id=first + k) for k, loop in enumerate(around[common:])]
    loops = (*around[:common], *(loop.id for loop in copies))
    program = program.with_loop(*copies).with_statement(replace(start, loops=loops))
    level = around[common - 1] if common else None
    return program.with_(orders=(*program.orders, Order(start.name, terms.name, level)))
