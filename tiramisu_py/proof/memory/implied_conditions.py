"""Condition: statements run under the conditions of their values, and under others only where these follow from them.

A value exists where the conditions of its computation hold, and a term counts there; a statement, copy or message with
one condition more would leave it out. Bounds by which loops over runs are short (`schedule.loops.run_bounds`) follow
from those of a run, which is shown of each: ``of[q] <= n`` with q <= p, ``p < start[u]`` with u > n, and the like.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.statement_runs import run_bounds
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, wanted, work


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """The statements with a condition on runs that their values do not have."""
    program = flow.accesses.program
    for statement in program.acting:
        key = Key("implied", (work(statement),))
        for guard in of_runs(program, statement) if wanted(key, sought) else ():
            if run_bounds(program, statement).is_implied(guard):
                continue
            message = f"{statement.handle} runs only where {guard}, and {statement.source} has values elsewhere, too"
            violation = Violation("order", message, Witness({}, reader=(statement.source, ())), repair="leave it out")
            yield Finding.of(key, violation)


def of_runs(program: Program, statement: Statement) -> list[Expr]:
    """The conditions of a statement on runs that are not those of its computation."""
    source = program.algorithm.source(statement.source)
    if not isinstance(source, Computation) or not statement.guards:
        return []
    declared = {part.key() for guard in source.guards for part in conjuncts(typed(guard))}
    return [
        guard
        for guard in statement.guards
        if any(part.key() not in declared for part in conjuncts(typed(guard))) and _asks_runs(program, guard)
    ]


def _asks_runs(program: Program, guard: Expr) -> bool:
    algorithm = program.algorithm
    names = {access.source for access in accesses(guard)}
    monotone = any(name in algorithm.inputs and algorithm.inputs[name].monotone for name in names)
    return monotone or any(algorithm.runs_numbered(name) for name in names)


def _short(program: Program) -> str:
    found = [s.handle for s in program.acting for guard in of_runs(program, s) if guard is not None]
    return f"bounds of runs that the loops of {', '.join(dict.fromkeys(found))} have leave out no term" if found else ""


SENTENCES = (Sentence(Topic.LOOPS, _short),)
