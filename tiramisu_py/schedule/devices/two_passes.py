"""Reductions over several blocks in two kernels: each block stores its result, and a second kernel combines them.

::

    for b on blocks:                            kernel 1:  total_blocks[b] = the block's result of its tree
      for m, for t on threads:       -->
        total += x[b, m, t]                     kernel 2:  total = the results of all blocks, in a tree

The results of the blocks are partial results as `rfactor` makes them: values of their own, in an array of the GPU. No
update is atomic, so that the order of all terms follows from the schedule and the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Launch, Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.reductions.results_of_chunks import in_place
from tiramisu_py.schedule.reductions.rfactor import kept_loops

#: Warps of each block of the second kernel.
_WARPS = 4
_AXES = 3


def in_two_passes(
    program: Program, names: Sequence[str], blocks: Sequence[str], launch: Launch, command: str
) -> tuple[Program, tuple[str, str]]:
    """The program with the results of blocks as values, and a kernel that combines them; and the start and update of
    these results, whose loops are still to be tagged.
    """
    update, kept = kept_loops(program, names, blocks, "across=tm.TWO_PASS")
    _check(program, update, kept)
    whole = program.algorithm.computations[update.source]
    program = in_place(program, names, update, kept, f"{update.source}_blocks", "across=tm.TWO_PASS", command)
    made = (f"{update.source}_blocks_init", f"{update.source}_blocks_update")
    return _second(program, whole, launch, command), made


def _check(program: Program, update: Statement, kept: Sequence[LoopId]) -> None:
    """Refuse what needs no second kernel, or has too many values for its blocks."""
    if not kept:
        raise CommandError(
            f"across=tm.TWO_PASS: no block loop runs over terms of {update.source}, so that one block has all of them: "
            "leave across= out"
        )
    count = len(program.algorithm.computations[update.source].iterators)
    if count > _AXES:
        raise CommandError(
            f"across=tm.TWO_PASS: {update.source} has {count} iterators, and a grid {_AXES} axes for the second "
            f"kernel: write both kernels, {update.handle}.rfactor(...)"
        )


def _second(program: Program, whole: Computation, launch: Launch, command: str) -> Program:
    """The kernel that combines the results of the blocks: a block for each value, whose threads take them in turn."""
    start, update = program.statements[f"{whole.name}_init"], program.statements[f"{whole.name}_update"]
    first, threads = program.next_loop(), _WARPS * program.targets.gpu.warp
    names = list(whole.iterators) or ["once"]
    blocks = [
        Loop(first + k, name, GpuBlock(len(names) - 1 - k, launch, Combine.TREE), command)
        for k, name in enumerate(names)
    ]
    groups = program.algorithm.computations[whole.name].over
    inner = [Loop(first + len(blocks) + k, name) for k, name in enumerate((*groups, "thread"))]
    inner[-1] = replace(inner[-1], tag=GpuThread(0, Combine.TREE), tagged_by=command)
    *outer, last = sets.variables(update.frame)[len(whole.iterators) :]
    turn = sets.floor_div(last, threads)
    shares = [*outer, turn, last.sub(sets.scaled(turn, threads))]
    program = program.with_loop(*blocks, *inner)
    at = [loop.id for loop in blocks]
    update = replace(
        update,
        loops=(*at, *(loop.id for loop in inner)),
        coords=sets.function(update.frame, None, [*_values(update, whole), *shares]),
    )
    start = replace(start, loops=tuple(at), coords=sets.function(start.frame, None, _values(start, whole)))
    program = program.with_statement(start, update)
    return program.with_(orders=(*program.orders, Order(start.name, update.name, at[-1], command)))


def _values(statement: Statement, whole: Computation) -> list[isl.Aff]:
    """The coordinates of the second kernel's block loops: the indices of a value, or 0 where there is one value."""
    forms = sets.variables(statement.frame)[: len(whole.iterators)]
    return forms or [sets.constant(statement.frame, 0)]
