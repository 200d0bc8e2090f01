"""The process grid: its ranks, and the rank on which each execution runs.

A loop that is tagged `Rank` runs each of its iterations on the rank with that coordinate. A statement without such a
loop along an axis is executed by every rank along it. `spread` makes that explicit, so that every instance has the
coordinates of its rank; memory is then a rank's own (`Program.place`), and time has no rank coordinates, since ranks
run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.program.loops import Loop, LoopId, Rank
from tiramisu_py.program.machine.distribution import Dealt, Pieces
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.combined_reductions import on_all_accumulators
from tiramisu_py.program.ranks.run_time_blocks import own
from tiramisu_py.program.statement import Statement


def axes(program: Program) -> int:
    """The number of axes of the process grid; 0 for a program without ranks."""
    tagged = [loop.tag.axis + 1 for loop in program.loops.values() if isinstance(loop.tag, Rank)]
    held = [len(distribution.axes) for distribution in program.ranks.distributions.values()]
    return max([*tagged, *held, len(program.ranks.grid)], default=0)


def ranks(program: Program) -> isl.Set:
    """The coordinates of all ranks: a box that starts at 0, as large as the program needs, or as was declared."""
    found: isl.Set | None = None
    for axis in range(axes(program)):
        along = _along(program, axis)
        found = along if found is None else sets.flat_product(found, along, None)
    assert found is not None
    return found


def _along(program: Program, axis: int) -> isl.Set:
    space = sets.sized_frame(program.algorithm.param_space, None, 1)
    x = sets.variables(space)[0].to_pw_aff()
    everything = sets.universe(space).intersect_params(program.context.params()).intersect(x.nonneg_set())
    if program.ranks.grid:
        return everything.intersect(x.lt_set(Affine(space, {}).value(program.ranks.grid[axis])))
    least = everything.intersect(sets.as_set(x.zero_set()))
    for used in _used(program, axis):
        least = least.union(used)
    up_to = isl.Map.lex_ge(space).intersect_range(everything)
    return least.coalesce().apply(up_to).coalesce()


def _used(program: Program, axis: int) -> Iterator[isl.Set]:
    for statement in program.statements.values():
        depth = depth_of(program, statement, axis)
        if depth is not None:
            form = sets.outputs(statement.coords)[depth]
            within = statement.instances.intersect_params(program.context.params())
            yield within.apply(sets.graph(sets.function(statement.frame, None, [form])))
    for source, distribution in program.ranks.distributions.items():
        yield from _holding(program, source, distribution.axes[axis] if axis < len(distribution.axes) else None)


def _holding(program: Program, source: str, spread: object) -> Iterator[isl.Set]:
    """The coordinates along an axis of the ranks that hold an array."""
    extents = program.buffers[program.storages[source].buffer].extents
    space = sets.sized_frame(program.algorithm.param_space, None, len(extents))
    elements = box(space, extents).intersect_params(program.context.params())
    if isinstance(spread, int):
        yield elements.apply(sets.graph(sets.function(space, None, [sets.constant(space, spread)])))
    elif isinstance(spread, Pieces):
        line = sets.sized_frame(space, None, 1)
        for rank in spread.ranks:  # also those whose piece is empty, so that the number of ranks does not depend on it
            own = sets.within(sets.variables(line)[0], rank, rank + 1)
            yield own.intersect_params(program.context.params())
    elif isinstance(spread, Dealt):
        yield elements.apply(spread.owners(space))


def depth_of(program: Program, statement: Statement, axis: int) -> int | None:
    """The depth of the loop of a statement that runs along an axis of the grid; None where it has none."""
    for depth, number in enumerate(statement.loops):
        tag = program.loops[number].tag
        if isinstance(tag, Rank) and tag.axis == axis:
            return depth
    return None


def spread(program: Program) -> Program:
    """The program with the coordinates of its rank in every instance; the same program where there are no ranks.

    With blocks whose bounds are known only at run time, it is the program of one rank.
    """
    if program.ranks.blocks is not None:
        return own(program)
    count = axes(program)
    if count == 0 or program.ranks.is_spread:
        return program
    everyone = ranks(program)
    changed = program
    for statement in program.statements.values():
        missing = [axis for axis in range(count) if depth_of(program, statement, axis) is None]
        if missing:
            first = changed.next_loop()
            loops = [Loop(first + k, f"rank{axis}", Rank(axis), added=True) for k, axis in enumerate(missing)]
            changed = changed.with_loop(*loops)
            changed = changed.with_statement(_on_all(statement, missing, [loop.id for loop in loops], everyone))
    return changed.with_(ranks=replace(changed.ranks, is_spread=True, axes=count, everyone=everyone))


def foreseen(program: Program) -> Program:
    """The program as it will be when ranks have combined reductions, for commands that derive statements from it."""
    changed = spread(program)
    return changed if changed is program else on_all_accumulators(program, changed)


def _on_all(statement: Statement, missing: list[int], loops: list[LoopId], everyone: isl.Set) -> Statement:
    """A statement that every rank along some axes executes: the coordinates of the rank are additional dimensions.

    New loops run over them, inside all others, so that it still shares the same loops with other statements.
    """
    space = everyone.get_space()
    variables = sets.variables(space)
    along = everyone.apply(sets.graph(sets.function(space, None, [variables[axis] for axis in missing])))
    instances = sets.flat_product(sets.named(statement.instances, None), along.coalesce(), statement.name)
    dims = (*statement.dims, *(f"rank{axis}" for axis in missing))
    instances = sets.with_dims(instances, dims)
    frame = instances.get_space()
    new = sets.variables(frame)
    original = sets.function(frame, statement.name, new[: len(statement.dims)])
    coords = sets.outputs(sets.compose(original, statement.coords))
    message = statement.link.message
    if message is not None:
        slots = None if message.slots is None else sets.compose(original, message.slots)
        message = replace(message, peer=sets.compose(original, message.peer), slots=slots)
    return replace(
        statement,
        dims=dims,
        instances=instances,
        point=sets.compose(original, statement.point),
        loops=(*statement.loops, *loops),
        coords=sets.function(frame, None, [*coords, *new[len(statement.dims) :]]),
        link=replace(statement.link, message=message),
    )


def local_time(program: Program, statement: Statement) -> isl.MultiAff:
    """``instance -> [iterations of loops other than those over ranks, coordinates of the rank]``.

    The lexicographically first instance is the first one on its rank and, of several such, on the first rank.
    """
    if not program.ranks.is_spread:
        return statement.coords
    forms = zip(statement.loops, sets.outputs(statement.coords), strict=True)
    kept = [form for loop, form in forms if not program.loops[loop].is_rank]
    return sets.function(statement.frame, None, [*kept, *sets.outputs(program.rank_of(statement))])
