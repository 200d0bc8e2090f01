"""Waits, barriers and messages that a program does not need, and transfers that the host waits for needlessly."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py.dependence.accesses import Memory, MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import removed
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.kernels import threads, waits
from tiramisu_py.proof.superfluous_messages import idle


def superfluous(program: Program) -> tuple[str, ...]:
    """The parts that a proven program does not need, one at a time: waits, barriers, and waits of the host for copies.

    If two do the same, both are named, though one of them is needed; a transfer that is named may be `tm.ASYNC`. For
    messages, a sentence says which of their values are not needed.
    """
    memory: Memory = {}
    accesses = MemoryAccesses(program, None, memory)
    names = (s.name for s in program.statements.values() if _is_proven_without(program, s, accesses, memory))
    return (*names, *idle(program, accesses, memory))


def _is_proven_without(program: Program, statement: Statement, accesses: MemoryAccesses, memory: Memory) -> bool:
    try:
        changed = _without(program, statement)
        if changed is None:
            return False
        condition = threads if statement.role is Role.BARRIER else waits
        return not any(True for _ in condition.findings(Flow(MemoryAccesses(changed, accesses.values, memory))))
    except (CommandError, isl.Error):
        return False


def _without(program: Program, statement: Statement) -> Program | None:
    """The program in which a statement no longer waits; None if it waits for nothing."""
    if statement.role in (Role.WAIT, Role.BARRIER):
        return removed(program, statement)
    if statement.transfer is None or statement.transfer.asynchronous:
        return None
    return program.with_statement(replace(statement, transfer=replace(statement.transfer, asynchronous=True)))
