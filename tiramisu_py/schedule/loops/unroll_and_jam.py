"""Unroll-and-jam: copies of the iterations of an outer loop side by side in the innermost loop."""

from __future__ import annotations

from dataclasses import KW_ONLY

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_loop
from tiramisu_py.program.loops import LoopId, Unroll
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, loops_named, size
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.loops.tags import tag_loop
from tiramisu_py.schedule.loops.transforms import innermost, split


def _check_alone(program: Program, statement: Statement, loop: LoopId) -> None:
    """Refuse a loop whose statements do not share all the loops inside of it."""
    for other in program.with_this_loop(loop):
        if other.loops[: shared(statement, other)] != max(statement.loops, other.loops, key=len):
            name = program.loops[loop].name
            raise CommandError(
                f"{statement.handle} and {other.handle} share the loop {name}, but not all loops inside of it, so "
                f"its iterations cannot be jammed: unroll_and_jam {name} first, and then place {other.handle} in the "
                f"loops of {statement.handle} (compute_at, after)"
            )


# -- the commands as values


@dataclass(frozen=True, eq=False)
class UnrollAndJam(OnStatements):
    """The body of the loops inside `loop` is repeated for `factor` of its iterations."""

    loop: Iter
    factor: int
    _: KW_ONLY
    outer: Iter | None = None
    inner: Iter | None = None

    def applied(self, program: Program) -> Program:
        names, loop = self.names(program), loop_name(self.loop)
        factor = size(self.factor, f"the block size of {loop}")
        found = loops_named(program, names, loop)
        for statement, number in found:
            _check_alone(program, statement, number)
        jammed = [statement for _, number in found for statement in program.with_this_loop(number)]
        outer = loop if self.outer is None else loop_name(self.outer)
        inner = free_loop(program, jammed, f"{loop}_jam") if self.inner is None else loop_name(self.inner)
        program = split(program, names, loop, factor, outer, inner)
        inside = sorted({statement.name for statement in jammed})
        for name in inside:
            statement = program.statements[name]
            moved = find(program, statement, inner)
            assert moved is not None
            program = innermost(program, statement, moved)
        return tag_loop(program, inside, inner, Unroll(), self.text)
