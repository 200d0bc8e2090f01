"""Reductions over several blocks in one kernel: each block stores its result, and the last one combines them.

::

    for b on blocks:                            for b on blocks:   total_blocks[b] = the block's result of its tree
      for m, for t on threads:       -->        the last block:    total = the results of all blocks, in a tree
        total += x[b, m, t]

The results of the blocks are partial results as `rfactor` makes them: values of their own, in an array of the GPU. What
combines them is inside the block loops over values alone, after the loops over blocks of terms: these are counted, so
that the block that ends last runs it, with the threads that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.errors import CommandError, UnsupportedError
from tiramisu_py.program.fresh_names import free_loop
from tiramisu_py.program.kernels import kernels
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Launch, Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.reductions.results_of_chunks import in_place
from tiramisu_py.schedule.reductions.rfactor import kept_loops, over_values, value_coords

_WHAT = "across=tm.LAST_BLOCK"
_AXES = 3


@dataclass(frozen=True)
class Ending:
    """The work of the last block: the reduction `of`, the loops around it that its terms' kernel has, by their
    numbers, the counted ones among these, and the thread loops over terms.
    """

    of: str
    around: tuple[LoopId, ...]
    counted: tuple[LoopId, ...]
    over_terms: tuple[LoopId, ...]


def results_of_blocks(
    program: Program, names: Sequence[str], blocks: Sequence[str], threads: Sequence[str], command: str
) -> tuple[Program, tuple[str, str], Ending]:
    """The program with the results of blocks as values; their start and update, whose loops are still to be tagged, and
    what the last block is to run.
    """
    update, kept = kept_loops(program, names, blocks, _WHAT)
    values = [loop for loop in update.loops if over_values(program, update, loop)]
    _check(program, update, kept, blocks)
    around = tuple(loop for loop in update.loops if loop in kept or loop in values)
    over_terms = [loop for loop in update.loops if program.loops[loop].name in threads and loop not in values]
    made = f"{update.source}_blocks"
    program = in_place(program, names, update, kept, made, _WHAT, command)
    return program, (f"{made}_init", f"{made}_update"), Ending(update.source, around, tuple(kept), tuple(over_terms))


def _check(program: Program, update: Statement, kept: Sequence[LoopId], blocks: Sequence[str]) -> None:
    """Refuse blocks that cannot be counted: each has all terms, or their loops are in another order."""
    if not kept:
        raise CommandError(
            f"{_WHAT}: no block loop runs over terms of {update.source}, so that one block has all of them: leave "
            "across= out"
        )
    depths = [depth for depth, loop in enumerate(update.loops) if program.loops[loop].name in blocks]
    for loop in update.loops[: depths[0]]:
        if not over_values(program, update, loop):
            name = program.loops[loop].name
            raise CommandError(
                f"{_WHAT}: loop {name} of the host runs over terms of {update.source}, so that no launch has all of "
                f"them: move it inside of the block loops, or use across=tm.TWO_PASS"
            )
    inside = [loop for loop in update.loops[depths[0] : depths[-1] + 1] if loop not in kept]
    if any(update.depth(loop) > update.depth(kept[0]) for loop in inside):
        first, order = program.loops[kept[0]].name, [program.loops[loop].name for loop in (*inside, *kept)]
        raise CommandError(
            f"{_WHAT}: the blocks of loop {first} are counted for each element, so that block loops over values are "
            f"outside of it: {update.handle}.reorder({', '.join(order)}) first"
        )
    if not inside and len(kept) == _AXES:
        raise CommandError(
            f"{_WHAT}: {update.source} is one value, and its terms are on all {_AXES} axes of the grid: run one of the "
            "loops inside of the blocks"
        )


def with_ending(program: Program, ending: Ending, launch: Launch, command: str) -> Program:
    """The program in which the last block combines the results of all, once the loops of these are tagged."""
    for loop in ending.counted:
        tag = program.loops[loop].tag
        assert isinstance(tag, GpuBlock)
        program = program.with_loop(replace(program.loops[loop], tag=replace(tag, counted=True)))
    around = [loop for loop in ending.around if loop not in ending.counted]
    if not any(isinstance(program.loops[loop].tag, GpuBlock) for loop in around):
        program, once = _in_one_iteration(program, ending.counted[0], launch, command)
        around.insert(ending.around.index(ending.counted[0]), once)
    return _combined(program, ending, around, command)


def _in_one_iteration(program: Program, first: LoopId, launch: Launch, command: str) -> tuple[Program, LoopId]:
    """The kernel inside a block loop of one iteration, which what the last block runs is to share."""
    inside, number = program.with_this_loop(first), program.next_loop()
    axis = sum(isinstance(program.loops[loop].tag, GpuBlock) for loop in inside[0].loops)
    name = free_loop(program, inside, "once")
    program = program.with_loop(Loop(number, name, GpuBlock(axis, launch, Combine.TREE), command))
    for statement in inside:
        depth, forms = statement.depth(first), sets.outputs(statement.coords)
        forms.insert(depth, sets.constant(statement.frame, 0))
        loops = (*statement.loops[:depth], number, *statement.loops[depth:])
        coords = sets.function(statement.frame, None, forms)
        program = program.with_statement(replace(statement, loops=loops, coords=coords))
    return program, number


def _combined(program: Program, ending: Ending, around: Sequence[LoopId], command: str) -> Program:
    """The start and the combination in the loops over values, with the results of blocks dealt out to the threads."""
    start, update = program.statements[f"{ending.of}_init"], program.statements[f"{ending.of}_update"]
    terms = program.statements[f"{ending.of}_blocks_update"]
    whole, first = program.algorithm.computations[ending.of], program.next_loop()
    own = dict(zip(ending.around, update.loops, strict=True))
    blocks = [loop for loop in terms.loops if isinstance(program.loops[loop].tag, GpuBlock)]
    inner = [loop for loop in around if loop not in terms.loops[: terms.depth(blocks[-1])]]
    copies = {
        loop: replace(program.loops[loop], id=first + k, tagged_by=command if program.loops[loop].tag else "")
        for k, loop in enumerate(inner)
    }
    made, shares = _shares(program, ending, update, first + len(inner), command)
    program = program.with_loop(*copies.values(), *made)
    loops = [copies[loop].id if loop in copies else loop for loop in around]
    program = program.with_statement(
        replace(start, loops=tuple(loops), coords=_coords(start, update, whole, around, own)),
        replace(
            update,
            loops=(*loops, *(loop.id for loop in made)),
            coords=sets.function(
                update.frame, None, [*sets.outputs(_coords(update, update, whole, around, own)), *shares]
            ),
        ),
    )
    level = loops[-1]
    last_of_blocks = [loop for loop in around if loop in terms.loops][-1]
    orders = [Order(start.name, update.name, level, command)]
    orders += [Order(terms.name, name, last_of_blocks, command) for name in (start.name, update.name)]
    return program.with_(orders=(*program.orders, *orders))


def _coords(
    statement: Statement, update: Statement, whole: Computation, around: Sequence[LoopId], own: Mapping[LoopId, LoopId]
) -> isl.MultiAff:
    """The coordinates of a statement in the loops over values, 0 in one of a single iteration."""
    known = [own[loop] for loop in around if loop in own]
    forms = iter(sets.outputs(value_coords(update, whole, [], known, statement)))
    zero = sets.constant(statement.frame, 0)
    return sets.function(statement.frame, None, [next(forms) if loop in own else zero for loop in around])


def _shares(
    program: Program, ending: Ending, update: Statement, first: LoopId, command: str
) -> tuple[list[Loop], list[isl.Aff]]:
    """The loops over the results of blocks: rounds, and threads that take them in turn; and their coordinates."""
    whole = program.algorithm.computations[ending.of]
    *outer, last = sets.variables(update.frame)[len(whole.iterators) :]
    extents = _threads(program, ending)
    count = prod(extents.values())
    names = [*whole.over, *(program.loops[loop].name for loop in extents)]
    loops = [Loop(first + k, name) for k, name in enumerate(names)]
    if count == 1:
        return loops[: len(whole.over)], [*outer, last]
    turn = sets.floor_div(last, count)
    left = last.sub(sets.scaled(turn, count))
    found: dict[LoopId, isl.Aff] = {}
    for loop in sorted(extents, key=lambda each: _axis(program, each)):
        rest = sets.floor_div(left, extents[loop])
        found[loop] = left.sub(sets.scaled(rest, extents[loop]))
        left = rest
    for k, loop in enumerate(extents, start=len(whole.over)):
        loops[k] = replace(loops[k], tag=GpuThread(_axis(program, loop), Combine.TREE), tagged_by=command)
    return loops, [*outer, turn, *(found[loop] for loop in extents)]


def _threads(program: Program, ending: Ending) -> dict[LoopId, int]:
    """The thread loops over terms, with the number of threads along each."""
    terms = program.statements[f"{ending.of}_blocks_update"]
    nest = next(nest for nest in kernels(program) if any(s.name == terms.name for s in nest.statements))
    try:
        return {loop: nest.extent(loop) or 1 for loop in ending.over_terms}
    except UnsupportedError as error:
        raise CommandError(str(error)) from None


def _axis(program: Program, loop: LoopId) -> int:
    tag = program.loops[loop].tag
    assert isinstance(tag, GpuThread)
    return tag.axis
