"""Reductions over loops that run on ranks: partial results that all ranks combine when such a loop ends.

A loop tagged ``Rank(axis, combine=PRIVATE)`` may hold updates of one value on several ranks. Each rank collects its own
terms apart; at the end of the loop the terms of all ranks along the axis are combined, and the result goes into the
accumulator of each rank. The completion adds the statements that do so (`derive.barriers.rank_partials`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.operators import logical_and, logical_or, max_, min_, product, sum_
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.program.loops import GpuThread, LoopId, Rank, Tag
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Combination, Role, Statement


def combined_loops(program: Program, statement: Statement) -> dict[int, LoopId]:
    """By axis, the loops of an update over ranks that combine their partial results, outermost first."""
    if statement.role is not Role.UPDATE:
        return {}
    found: dict[int, LoopId] = {}
    for number in statement.loops:
        tag = program.loops[number].tag
        if isinstance(tag, Rank) and tag.combine is not None and meets(program, statement.source, number):
            found.setdefault(tag.axis, number)
    return found


def meets(program: Program, source: str, loop: LoopId) -> bool:
    """Whether different iterations of a loop have terms of one value of a reduction."""
    parts = list[isl.Map]()
    for statement in program.with_this_loop(loop):
        if statement.role is Role.UPDATE and statement.source == source:
            value = sets.graph(program.value_of(statement), statement.instances)
            parts.append(value.reverse().apply_range(sets.component(statement.coords_map, statement.depth(loop))))
    found = sets.united(parts)
    return found is not None and not found.is_single_valued()


def on_all_accumulators(program: Program, spread: Program) -> Program:
    """The program `spread`, in which each update that ranks combine adds to the accumulators of all of them at once.

    From it, commands derive which values ranks will have, before the program is completed. It is never run or proven:
    the instances of such an update have the coordinates of the rank whose memory it adds to (`Statement.memory.onto`)
    as additional dimensions.
    """
    everyone = spread.ranks.everyone
    for statement in program.statements.values() if everyone is not None else ():
        combined = combined_loops(program, statement)
        if combined and everyone is not None:
            spread = spread.with_statement(_onto_all(spread, spread.statements[statement.name], combined, everyone))
    return spread


def _onto_all(program: Program, statement: Statement, combined: dict[int, LoopId], everyone: isl.Set) -> Statement:
    axes = sorted(combined)
    ranks = sets.variables(everyone.get_space())
    along = everyone.apply(sets.graph(sets.function(everyone.get_space(), None, [ranks[axis] for axis in axes])))
    instances = sets.flat_product(sets.named(statement.instances, None), along.coalesce(), statement.name)
    dims = (*statement.dims, *(f"onto{axis}" for axis in axes))
    instances = sets.with_dims(instances, dims)
    frame = instances.get_space()
    variables = sets.variables(frame)
    original = sets.function(frame, statement.name, variables[: len(statement.dims)])
    changed = replace(
        statement,
        dims=dims,
        instances=instances,
        point=sets.compose(original, statement.point),
        coords=sets.compose(original, statement.coords),
    )
    onto = sets.outputs(program.rank_of(changed))
    for axis, variable in zip(axes, variables[len(statement.dims) :], strict=True):
        onto[axis] = variable
    return replace(changed, memory=replace(changed.memory, onto=sets.function(frame, None, onto)))


def not_combined(source: Computation, in_tree: bool = False) -> str:
    """Why ranks do not combine the partial results of a reduction; empty where they do.

    In a tree they compute the operator themselves, which may be one of the user's; else it is MPI that knows it.
    """
    numbers, truths = (sum_, product, min_, max_), (logical_and, logical_or)
    known = truths if source.dtype.is_bool else numbers if source.dtype.is_float else (*numbers, *truths)
    if in_tree and source.op is not None:
        return ""
    if isinstance(source.dtype, TupleType):
        return f"MPI does not combine several values at once, {source.dtype}: use combine=tm.TREE for {source.name}"
    if not any(source.op is operator for operator in known):
        names = ", ".join(f"tm.{operator.name}" for operator in known)
        name = "nothing" if source.op is None else source.op.name
        others = ", or by other operators with combine=tm.TREE"
        return f"ranks combine {source.dtype} by {names}{others}, and {source.name} is reduced by {name}"
    if source.dtype.is_half:
        return f"MPI does not combine {source.dtype}: use combine=tm.TREE, or let {source.name} have dtype=tm.float32"
    return ""


def outside_of(program: Program, update: Statement) -> tuple[LoopId, ...]:
    """The loops outside of the one at whose end ranks combine partial results; none if all run over ranks.

    In that case there is one partial result for all their iterations.
    """
    combined = combined_loops(program, update)
    outside = update.loops[: update.depth(next(iter(combined.values())))]
    return () if all(isinstance(program.loops[loop].tag, Rank) for loop in outside) else outside


def inner_ranks(program: Program, update: Statement) -> tuple[LoopId, ...]:
    """The rank loops inside the loop at whose end ranks combine, along axes that are not combined, by axis.

    Loops that no command made (`Loop.added`) are left out.
    """
    combined = combined_loops(program, update)
    inside = (program.loops[n] for n in update.loops[update.depth(next(iter(combined.values()))) :])
    found = {tag.axis: loop.id for loop in inside if isinstance(tag := loop.tag, Rank)
             and tag.axis not in combined and not loop.added}  # fmt: skip
    return tuple(found[axis] for axis in sorted(found))


def groups(program: Program) -> Iterator[tuple[Statement, ...]]:
    """Updates whose partial results are combined together: of one reduction, in one loop, along the same axes.

    Updates are left out if the program already has the statements that combine them.
    """
    done = {statement.memory.target for statement in program.statements.values() if statement.role is Role.COMBINE}
    found: dict[object, list[Statement]] = {}
    for statement in program.statements.values():
        loops = {} if statement.memory.target in done else combined_loops(program, statement)
        if loops:
            key = (next(iter(loops.values())), statement.memory.target, statement.source, frozenset(loops))
            found.setdefault(key, []).append(statement)
    yield from map(tuple, found.values())


def uncombinable(program: Program, updates: tuple[Statement, ...]) -> bool:
    """Whether ranks cannot combine the partial results of some updates where they are."""
    first = updates[0]
    on_gpu = any(program.kernel_of(update) is not None for update in updates)
    along = [[program.loops[loop].tag for loop in inner_ranks(program, update)] for update in updates]
    return on_gpu or any(tags != along[0] for tags in along) or bool(along[0] and outside_of(program, first))


def meetings(program: Program, statement: Statement) -> isl.Map:
    """``instance -> instance`` of a combination, in a spread program: each, and those that it is combined with.

    Both are of one value, in one iteration of the surrounding loops: on ranks that differ along the combined axes only,
    or, for a combination of threads, on one rank, in one block, in threads that differ along its axes only.
    """
    assert statement.link.combination is not None
    combination = statement.link.combination
    ranks = sets.outputs(program.rank_of(statement))
    line = [form for axis, form in enumerate(ranks) if axis not in statement.link.combination.axes]
    loops = zip(statement.loops, sets.outputs(statement.coords), strict=True)
    around = [form for loop, form in loops if not _together(combination, program.loops[loop].tag)]
    instances = statement.instances.intersect_params(program.context.params())
    alike = sets.graph(sets.function(statement.frame, None, [*line, *around]), instances)
    return alike.apply_range(alike.reverse())


def _together(combination: Combination, tag: Tag | None) -> bool:
    """Whether a combination takes the partial results of all iterations of a loop with this tag."""
    threads = isinstance(tag, GpuThread) and tag.axis in combination.threads
    return isinstance(tag, Rank) or (threads and not combination.axes)
