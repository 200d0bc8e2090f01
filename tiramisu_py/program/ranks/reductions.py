"""Reductions over loops that run on ranks: partial results that all ranks combine when such a loop ends.

A loop tagged ``Rank(axis, combine=PRIVATE)`` may hold updates of one value on several ranks. Each rank collects its own
terms apart; at the end of the loop those of all ranks along the axis are combined, and the outcome goes into the
accumulator of every one of them. In a program that is spread, an update is then executed for each of these
accumulators: its instances have the coordinates of the rank whose memory it adds to (`Statement.onto`) as further
dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, logical_and, logical_or, max_, min_, product, sum_
from tiramisu_py.program.loops import Loop, LoopId, Rank
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


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
    found: isl.Map | None = None
    for statement in program.with_this_loop(loop):
        if statement.role is Role.UPDATE and statement.source == source:
            value = sets.graph(program.value_of(statement), statement.instances)
            here = value.reverse().apply_range(sets.component(statement.coords_map, statement.depth(loop)))
            found = here if found is None else found.union(here)
    return found is not None and not found.is_single_valued()


def onto_all(program: Program, statement: Statement, combined: dict[int, LoopId], everyone: isl.Set) -> Statement:
    """An update once for each accumulator that it adds to; the program is spread, but for that."""
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
    return replace(changed, onto=sets.function(frame, None, onto))


def not_combined(source: Computation) -> str:
    """Why ranks do not combine the partial results of a reduction; empty where they do."""
    numbers, truths = (sum_, product, min_, max_), (logical_and, logical_or)
    known = truths if source.dtype.is_bool else numbers if source.dtype.is_float else (*numbers, *truths)
    if not any(source.op is operator for operator in known):
        names = ", ".join(f"tm.{operator.name}" for operator in known)
        name = "nothing" if source.op is None else source.op.name
        return f"ranks combine {source.dtype} by {names}, and {source.name} is reduced by {name}"
    if source.dtype.name in ("float16", "bfloat16"):
        return f"ranks do not combine {source.dtype}: let {source.name} have dtype=tm.float32"
    return ""


def outside_of(program: Program, update: Statement) -> tuple[LoopId, ...]:
    """The loops outside of the one at whose end ranks combine partial results; none where all of them are over ranks.

    There is then one partial result for all iterations of these.
    """
    combined = combined_loops(program, update)
    outside = update.loops[: update.depth(next(iter(combined.values())))]
    return () if all(isinstance(program.loops[loop].tag, Rank) for loop in outside) else outside


def inner_ranks(program: Program, update: Statement) -> tuple[LoopId, ...]:
    """The loops over ranks inside of that loop along axes that are not combined, by their axes.

    Loops that only spreading a program has made are left out: these have been tagged by no command.
    """
    combined = combined_loops(program, update)
    inside = (program.loops[n] for n in update.loops[update.depth(next(iter(combined.values()))) :])
    found = {tag.axis: loop.id for loop in inside if isinstance(tag := loop.tag, Rank)
             and tag.axis not in combined and (loop.tagged_by or not program.is_spread)}  # fmt: skip
    return tuple(found[axis] for axis in sorted(found))


def groups(program: Program) -> Iterator[tuple[Statement, ...]]:
    """Updates whose partial results are combined together: of one reduction, in one loop, along the same axes."""
    found: dict[object, list[Statement]] = {}
    for statement in program.statements.values():
        loops = combined_loops(program, statement)
        if loops:
            key = (next(iter(loops.values())), statement.target, statement.source, frozenset(loops))
            found.setdefault(key, []).append(statement)
    yield from map(tuple, found.values())


def with_meetings(program: Program) -> tuple[Program, dict[str, isl.Map]]:
    """A spread program with a statement for each combination, and ``event -> event`` of the other ranks it is with.

    An event is the coordinates of the rank, and then those of the other loops around.
    """
    meetings: dict[str, isl.Map] = {}
    for updates in groups(program):
        first = updates[0]
        combined = combined_loops(program, first)
        depth = first.depth(next(iter(combined.values())))
        tags = [program.loops[loop].tag for loop in first.loops[:depth]]
        at = {tag.axis: d for d, tag in enumerate(tags) if isinstance(tag, Rank)}
        missing = [axis for axis in range(program.rank_axes) if axis not in at]
        number = program.next_loop()
        loops = [Loop(number + k, f"rank{axis}", Rank(axis)) for k, axis in enumerate(missing)]
        name = f"the combination of {first.name}"
        met: isl.Set | None = None
        for update in updates:
            assert update.onto is not None
            ranks = sets.outputs(update.onto)
            forms = [*sets.outputs(update.coords)[:depth], *(ranks[axis] for axis in missing)]
            here = update.instances.intersect_params(program.context.params())
            part = here.apply(sets.graph(sets.function(update.frame, name, forms)))
            met = part if met is None else met.union(part)
        assert met is not None
        identity = sets.identity(met.get_space())
        statement = Statement(
            name=name, source=first.source, role=Role.BARRIER, dims=tuple(f"i{k}" for k in range(sets.size(met))),
            instances=met.coalesce(), point=identity, loops=(*first.loops[:depth], *(loop.id for loop in loops)),
            coords=sets.renamed(identity, None), body=first.body, target=first.target,
        )  # fmt: skip
        program = ordered_after(program, first, depth, statement).with_loop(*loops).with_statement(statement)
        variables = sets.variables(met.get_space())
        places = {axis: variables[depth + k] for k, axis in enumerate(missing)}
        places.update({axis: variables[d] for axis, d in at.items()})
        rest = [v for d, v in enumerate(variables[:depth]) if d not in at.values()]
        event = sets.function(met.get_space(), name, [*(places[axis] for axis in sorted(places)), *rest])
        line = sets.function(met.get_space(), None, [*(places[axis] for axis in places if axis not in combined), *rest])
        alike = sets.graph(line, met).apply_range(sets.graph(line, met).reverse())
        others = alike.subtract(sets.graph(identity)).apply_domain(sets.graph(event)).apply_range(sets.graph(event))
        meetings[name] = others.coalesce()
    return program, meetings


def ordered_after(program: Program, update: Statement, depth: int, met: Statement) -> Program:
    """The program in which a combination comes right after the loop at a depth that is around an update."""
    outside = update.loops[:depth]
    level = outside[-1] if outside else None
    here = program.positions[update.name][depth]
    orders = []
    for other in program.statements.values():
        if other.loops[:depth] == outside:
            before = program.positions[other.name][depth] <= here
            orders.append(Order(other.name, met.name, level) if before else Order(met.name, other.name, level))
    return program.with_(orders=(*program.orders, *orders))
