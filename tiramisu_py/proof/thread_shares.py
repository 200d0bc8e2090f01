"""Parallel loops whose shares are cut by an input: it has the ends of every iteration, and is read and not written."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.loops import Loop, Parallel
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.violations.findings import Finding, fault


def faults(flow: Flow) -> Iterator[Finding]:
    """Loops whose iterations have no terms in the input that balances them, and inputs that change meanwhile."""
    program = flow.accesses.program
    for loop in program.loops.values():
        inside = program.with_this_loop(loop.id)
        if isinstance(loop.tag, Parallel) and loop.tag.balance is not None and inside:
            yield from _faults(flow, loop, loop.tag.balance, inside)


def _faults(flow: Flow, loop: Loop, balance: str, inside: tuple[Statement, ...]) -> Iterator[Finding]:
    program, first = flow.accesses.program, inside[0]
    what = f"loop {loop.name} of {first.handle} is shared by balance={balance}"
    repair = f"leave balance={balance} out of parallelize({loop.name})"
    if program.runs_on_ranks:
        yield _fault(loop, first, f"{what}, and {program.algorithm.name} runs on ranks, which have parts of it", repair)
    elif balance not in {source for s in program.acting for source in flow.accesses.sources(s)}:
        yield _fault(loop, first, f"{what}, which nothing reads", repair)
    elif any(
        program.storages[s.memory.target].buffer == program.storages[balance].buffer for s in program.acting if s.stores
    ):
        yield _fault(loop, first, f"{what}, and the function stores to {balance}", repair)
    else:
        outside = next((s for s in inside if not _has_ends(program, loop, balance, s)), None)
        if outside is not None:
            shape = program.algorithm.inputs[balance].shape[0]
            has = f"which has {shape} elements: iteration {loop.name} takes {balance}[{loop.name}] and the one after it"
            yield _fault(loop, outside, f"{what}, {has}, and not all its iterations have them", repair)


def _has_ends(program: Program, loop: Loop, balance: str, statement: Statement) -> bool:
    """Whether the input has an element for each iteration of the loop, and one after the last."""
    depth = statement.depth(loop.id)
    iteration = sets.function(statement.frame, None, [sets.outputs(statement.coords)[depth]])
    executed = sets.graph(iteration, statement.instances.intersect_params(program.context.params())).range()
    number = Iter(loop.name, int64)
    reader = Affine(executed.get_space(), {loop.name: sets.variables(executed.get_space())[0]})
    extent = program.algorithm.inputs[balance].shape[0]
    return bool(executed.is_subset(reader.condition((number >= 0) & (number + 1 < extent))))


def _fault(loop: Loop, statement: Statement, message: str, repair: str) -> Finding:
    return fault("reach", f"balance {loop.id}", statement, message, repair)
