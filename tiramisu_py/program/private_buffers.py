"""Private copies: the buffers of which a loop with ``combine=`` keeps one for each thread, or each lane.

They are the buffers in which different iterations of the loop update the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.loops import Combine, LoopId, Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


def private_copies(program: Program) -> Iterator[tuple[LoopId, str, tuple[Statement, ...]]]:
    """Each loop that keeps private copies, the buffer that is copied, and its updates inside the loop."""
    for loop in program.loops.values():
        if not isinstance(loop.tag, Parallel | Vector) or loop.tag.combine is not Combine.PRIVATE:
            continue
        found: dict[str, list[Statement]] = {}
        for statement in program.with_this_loop(loop.id):
            buffer = program.storages[statement.memory.target].buffer if statement.role is Role.UPDATE else ""
            if buffer and loop.id not in program.buffers[buffer].scope:
                found.setdefault(buffer, []).append(statement)
        for buffer, updates in found.items():
            if meet(program, updates, loop.id):
                yield loop.id, buffer, tuple(updates)


def meet(program: Program, statements: Sequence[Statement], loop: LoopId) -> bool:
    """Whether different iterations of a loop, within one iteration of those around it, update one place."""
    parts = list[isl.Map]()
    for statement in statements:
        if statement.role is Role.UPDATE:
            parts.append(_iterations_by_place(program, statement, loop))
    meeting = sets.united(parts)
    return meeting is not None and not meeting.is_single_valued()


def _iterations_by_place(program: Program, statement: Statement, loop: LoopId) -> isl.Map:
    """``[iterations around, place] -> iteration of the loop``."""
    depth = statement.depth(loop)
    place = program.place(statement, program.storages[statement.memory.target], program.value_of(statement))
    here = sets.function(statement.frame, None, [sets.outputs(statement.coords)[depth]])
    return sets.relating(sets.joined(statement.prefix(depth), place), here, statement.instances)
