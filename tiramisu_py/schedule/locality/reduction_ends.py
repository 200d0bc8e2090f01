"""Where a reduction begins and ends in the loops of its update: for its start, and for readers of its results.

Of the iterations of the loops up to a level, ``o``, the first one of a value adds its first term, and the last one of a
reader makes the last of what it reads:

    first = lexmin { start -> o : an update of its value runs in o }
    last  = lexmax { reader -> o : what makes a value that it reads runs in o }

Executions without such an iteration, those of sums of no terms, stay where they are, as a part of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.values_read import needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import in_place_of, on_instances
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement


def is_start_of(own: Sequence[Statement], consumer: Sequence[Statement]) -> bool:
    """Whether some statements are the start of a reduction, and others have updates of the same one."""
    sources = {each.source for each in (*own, *consumer)}
    return len(sources) == 1 and all(s.role is Role.INIT for s in own) and any(s.role is Role.UPDATE for s in consumer)


def makers_in(program: Program, source: str, scope: tuple[LoopId, ...]) -> list[Statement]:
    """The statements that compute values, or add terms to them, in the loops `scope`; raises `CommandError`."""
    makers = [s for s in program.statements_of(source) if s.role in (Role.VALUE, Role.UPDATE)]
    inside = [s for s in makers if s.loops[: len(scope)] == scope]
    if not inside:
        names = ", ".join(program.loops[loop].name for loop in scope)
        raise CommandError(
            f"no value of {source} is made in the loops {names}: {'; '.join(nest(program, s) for s in makers)}"
        )
    return inside


def first_iterations(program: Program, start: Statement, updates: Sequence[Statement], depth: int) -> isl.Map:
    """``start -> iteration`` of the outermost `depth` loops of the updates in which the first term is added."""
    values = sets.graph(program.value_of(start), start.instances)
    return values.apply_range(_made_in(program, updates, depth)).lexmin()


def last_iterations(
    program: Program, reader: Statement, source: str, makers: Sequence[Statement], depth: int
) -> isl.Map:
    """``reader -> iteration`` of the outermost `depth` loops in which the last part of what it reads is made."""
    return needed_values(program, reader, source).apply_range(_made_in(program, makers, depth)).lexmax()


def _made_in(program: Program, makers: Sequence[Statement], depth: int) -> isl.Map:
    """``value -> iteration`` of the outermost `depth` loops, of all executions that make a part of the value."""
    parts = list[isl.Map]()
    for maker in makers:
        parts.append(sets.relating(program.value_of(maker), maker.prefix(depth), maker.instances))
    return sets.union_of(parts).intersect_params(program.context).coalesce()


def without_others(program: Program, statement: Statement, at: isl.Map) -> Program:
    """The program with the executions that `at` does not place as a part of their own, in the statement's old loops."""
    left = statement.instances.subtract(at.domain()).intersect_params(program.context).coalesce()
    if left.is_empty():
        return program
    loops = []
    for old in statement.loops:
        fresh = replace(program.loops[old], id=program.next_loop())
        program = program.with_loop(fresh)
        loops.append(fresh.id)
    name = free_name(program, f"{statement.name}_rest")
    rest = on_instances(statement, name, sets.named(left, name), tuple(loops))
    return in_place_of(program, statement, [rest, statement])
