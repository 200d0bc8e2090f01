"""Asynchronous transfers, and the waits of the host for the ones it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.dependence.accesses import Memory, MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.derive.devices.derive_waits import with_waits
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import removed
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import foreseen
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.kernels import waits

#: The maximum number of waits for which redundant ones are searched.
TRIED = 40


def relaxed(program: Program, names: Sequence[str]) -> Program:
    """The program with as many of these transfers as possible made asynchronous, the earlier ones first.

    The kernels that read an upload follow it on its operation sequence, and the copy of their results, for which the
    host waits, follows the kernels.
    """
    memory: Memory = {}
    if not names or not is_ordered(program, memory):
        return program
    for name in names:
        changed = _with_mode(program, program.statements[name], asynchronous=True)
        if is_ordered(changed, memory):
            program = changed
    return program


def completed(program: Program, names: Sequence[str], command: str) -> Program:
    """The program with these transfers asynchronous, and waits just before their dependents; few are redundant.

    A transfer for which the host would wait immediately is made synchronous instead.
    """
    for name in names:
        program = _with_mode(program, program.statements[name], asynchronous=True)
    found = with_waits(program, command, late=True)
    program = found.program
    memory: Memory = {}
    for name, is_lacking in found.lacking.items():
        wait = program.statements[name]
        changed, operation = _without(program, wait), _awaited_at_once(program, wait)
        if len(found.lacking) <= TRIED and not is_lacking(changed) and is_ordered(changed, memory):
            program = changed
        elif operation is not None:
            blocking = _with_mode(changed, operation, asynchronous=False)
            program = blocking if is_ordered(blocking, memory) else program
    return program


def is_ordered(program: Program, memory: Memory | None = None) -> bool:
    """Whether waits order all that accesses one place, and complete everything at the end."""
    return not any(True for _ in waits.findings(Flow(MemoryAccesses(foreseen(program), None, memory))))


def _with_mode(program: Program, statement: Statement, asynchronous: bool) -> Program:
    assert statement.link.transfer is not None
    transfer = replace(statement.link.transfer, asynchronous=asynchronous)
    return program.with_statement(replace(statement, link=replace(statement.link, transfer=transfer)))


def _without(program: Program, wait: Statement) -> Program:
    """The program without a wait; the order of the other statements is kept."""
    try:
        return removed(program, wait)
    except CommandError:
        return program


def _awaited_at_once(program: Program, wait: Statement) -> Statement | None:
    """The transfer just before the host's wait for it, in the same loops; None if there is none."""
    if wait.link.waits is None or wait.link.waits.on is not None:
        return None
    operation, depth = program.statements.get(wait.link.waits.of), len(wait.loops)
    if operation is None or operation.link.transfer is None or operation.loops[:depth] != wait.loops:
        return None
    if not sets.is_identity(wait.coords):
        return None
    follows = program.positions[wait.name][depth] == program.positions[operation.name][depth] + 1
    return operation if follows and program.host_depth(operation) == depth else None
