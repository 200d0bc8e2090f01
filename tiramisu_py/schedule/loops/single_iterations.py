"""Drops single-iteration loops inside thread loops, because they could run differently in different threads.

After ``total.compute_at(C, j1)``, with j1 on threads, the loops i and j of total have one iteration each, which differs
between threads. But a loop around a barrier must be the same for all threads of a block.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.program.loops import GpuThread, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def without_single_iterations(program: Program) -> Program:
    """The program without the loops inside thread loops that have one iteration and belong to one statement."""
    needed = _needed(program)
    for statement in program.storing:
        first = next((k for k, x in enumerate(statement.loops) if isinstance(program.loops[x].tag, GpuThread)), None)
        if first is not None:
            program = program.with_statement(_leaner(program, statement, first, needed))
    return program


def _needed(program: Program) -> set[LoopId]:
    """Loops that several statements share, or that buffers, storages or orders refer to."""
    found = {loop for buffer in program.buffers.values() for loop in buffer.scope}
    found |= {loop for storage in program.storages.values() for loop in storage.inner}
    found |= {order.level for order in program.orders if order.level is not None}
    return found | {loop for loop in program.loops if len(program.with_this_loop(loop)) > 1}


def _leaner(program: Program, statement: Statement, first: int, needed: set[LoopId]) -> Statement:
    kept = [
        position
        for position, loop in enumerate(statement.loops)
        if position <= first or loop in needed or program.loops[loop].tag or not _is_single(statement, position)
    ]
    if len(kept) == len(statement.loops):
        return statement
    coords = sets.outputs(statement.coords)
    function = sets.function(statement.frame, None, [coords[k] for k in kept])
    return replace(statement, loops=tuple(statement.loops[k] for k in kept), coords=function)


def _is_single(statement: Statement, position: int) -> bool:
    """Whether a loop has one iteration, an affine function of the loops around it."""
    coordinates = statement.coords_map
    around = sets.project_range_prefix(coordinates, position).reverse()
    here = around.apply_range(sets.component(coordinates, position))
    return bool(here.is_single_valued()) and sets.as_single_function(here) is not None
