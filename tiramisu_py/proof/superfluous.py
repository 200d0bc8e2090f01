"""Waits and barriers that a program is right without."""

from __future__ import annotations

import islpy as isl

from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.touches import Memory, Touches
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof import threads, waits
from tiramisu_py.schedule.waits import removed


def superfluous(program: Program) -> tuple[str, ...]:
    """The waits and barriers of a proven program without any one of which it is still proven, by their names.

    Each is tried alone: of two that do the same both are named, and one of them is needed.
    """
    memory: Memory = {}
    touches = Touches(program, None, memory)
    tried = (s for s in program.statements.values() if s.role in (Role.WAIT, Role.BARRIER))
    return tuple(s.name for s in tried if _is_proven_without(program, s, touches, memory))


def _is_proven_without(program: Program, statement: Statement, touches: Touches, memory: Memory) -> bool:
    try:
        without = Flow(Touches(removed(program, statement.name), touches.values, memory))
        condition = waits if statement.role is Role.WAIT else threads
        return not any(True for _ in condition.findings(without))
    except (CommandError, isl.Error):
        return False
