"""Transfers that the host need not wait for: what waits for them anyway comes before anything that depends on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.touches import Memory, Touches
from tiramisu_py.program.program import Program
from tiramisu_py.proof import waits


def relaxed(program: Program, names: Sequence[str]) -> Program:
    """The program with as many of these transfers asynchronous as can be, the earlier ones first.

    An upload is followed on its operation sequence by the kernels that read it, and those by the copy of their results,
    which the host waits for.
    """
    memory: Memory = {}
    if not names or not _is_ordered(program, memory):
        return program
    for name in names:
        statement = program.statements[name]
        assert statement.transfer is not None
        transfer = replace(statement.transfer, asynchronous=True)
        changed = program.with_statement(replace(statement, transfer=transfer))
        if _is_ordered(changed, memory):
            program = changed
    return program


def _is_ordered(program: Program, memory: Memory) -> bool:
    return not any(True for _ in waits.findings(Flow(Touches(program, None, memory))))
