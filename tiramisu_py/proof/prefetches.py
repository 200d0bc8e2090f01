"""Prefetches are of sources that a statement still reads, along loops that it still has."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.program import nest
from tiramisu_py.program.statement import Ahead, Role, Statement
from tiramisu_py.proof.violations.findings import Finding, fault


def faults(flow: Flow) -> Iterator[Finding]:
    """Prefetches of what a statement no longer reads, or along a loop that it no longer has."""
    program = flow.accesses.program
    for statement in program.acting:
        for ahead in statement.prefetches:
            adds = statement.role is Role.UPDATE and ahead.source == statement.source
            if not adds and ahead.source not in flow.accesses.sources(statement):
                yield _gone(statement, ahead, f"{statement.handle} no longer reads {ahead.source}", "leave it out")
            elif all(program.loops[loop].name != ahead.loop for loop in statement.loops):
                what = f"the loop {ahead.loop} is no longer there ({nest(program, statement)})"
                yield _gone(statement, ahead, what, "give it after all changes of the loops, along one of them")


def _gone(statement: Statement, ahead: Ahead, what: str, repair: str) -> Finding:
    command = f"{statement.handle}.prefetch({ahead.source}, {ahead.loop})"
    key = f"prefetch {ahead.source} {ahead.loop}"
    return fault("reach", key, statement, f"{command}: {what}", f"{command}: {repair}")
