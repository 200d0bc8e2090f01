"""Reductions over loops that run on ranks: partial results that all ranks combine when such a loop ends.

A loop tagged ``Rank(axis, combine=PRIVATE)`` may hold updates of one value on several ranks. Each rank collects its own
terms apart; at the end of the loop those of all ranks along the axis are combined, and the outcome goes into the
accumulator of every one of them. In a program that is spread, an update is then executed for each of these
accumulators: its instances have the coordinates of the rank whose memory it adds to (`Statement.onto`) as further
dimensions.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, logical_and, logical_or, max_, min_, product, sum_
from tiramisu_py.program.loops import LoopId, Rank
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
