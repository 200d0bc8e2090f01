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
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.values_read import needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import in_place_of, on_instances
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass


def is_start_of(own: Sequence[Statement], consumer: Sequence[Statement]) -> bool:
    """Whether some statements are the start of a reduction, and others have updates of the same one."""
    sources = {each.source for each in (*own, *consumer)}
    return len(sources) == 1 and all(s.role is Role.INIT for s in own) and any(s.role is Role.UPDATE for s in consumer)


@dataclass(frozen=True, eq=False)
class Makers:
    """The statements that compute values of `source`, or add terms to them, in loops: facts that a command takes once.

    `depth` is the number of these loops.
    """

    program: Program
    source: str
    statements: list[Statement]
    depth: int

    @classmethod
    def in_loops(cls, program: Program, source: str, scope: tuple[LoopId, ...]) -> Makers:
        """Those in the loops `scope`; raises `CommandError` where there are none."""
        makers = [s for s in program.statements_of(source) if s.role in (Role.VALUE, Role.UPDATE)]
        inside = [s for s in makers if s.loops[: len(scope)] == scope]
        if not inside:
            names = ", ".join(program.loops[loop].name for loop in scope)
            raise CommandError(
                f"no value of {source} is made in the loops {names}: {'; '.join(nest(program, s) for s in makers)}"
            )
        return cls(program, source, inside, len(scope))

    def first(self, start: Statement) -> isl.Map:
        """``start -> iteration`` of the loops in which the first term is added."""
        values = sets.graph(self.program.value_of(start), start.instances)
        return values.apply_range(self._made).lexmin()

    def last(self, reader: Statement) -> isl.Map:
        """``reader -> iteration`` of the loops in which the last part of what it reads is made."""
        return needed_values(self.program, reader, self.source).apply_range(self._made).lexmax()

    @cached_property
    def _made(self) -> isl.Map:
        """``value -> iteration``, of all executions that make a part of the value."""
        parts = list[isl.Map]()
        for maker in self.statements:
            parts.append(sets.relating(self.program.value_of(maker), maker.prefix(self.depth), maker.instances))
        return sets.union_of(parts).intersect_params(self.program.context).coalesce()


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
