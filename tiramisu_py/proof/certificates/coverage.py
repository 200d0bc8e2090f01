"""Kinds of programs that no certificate covers yet, by name."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.exclusions import Exclusions
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.lanes import reading_ahead
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.kernels import KernelNest, is_tree, kernels
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Message, Role, Statement
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.proof.kernels import threads
from tiramisu_py.proof.memory import implied_conditions, races

_ROLES = {Role.VALUE, Role.INIT, Role.UPDATE, Role.COPY, Role.SEND}


def check_covered(program: Program) -> None:
    """Raises `UnsupportedError`, with a statement and the reason, for a program that no certificate covers."""
    name = program.algorithm.name
    if what := told_ranks(program).unnumbered:
        raise UnsupportedError(f"no certificate covers this yet: {name} runs on ranks with {what}")
    for statement in program.acting:
        what = _of_statement(program, statement)
        if what:
            raise UnsupportedError(f"no certificate covers this yet: {statement.handle} of {name} {what}")
    for nest in kernels(program):
        what = _of_kernel(nest)
        if what:
            raise UnsupportedError(f"no certificate covers this yet: the kernel of {nest.handle} of {name} {what}")
    for loop in reading_ahead(program):
        what = f"the vector loop {loop.name} of {name} reads places to which its later lanes store"
        raise UnsupportedError(f"no certificate covers this yet: {what}")


def check_independent(flow: Flow) -> None:
    """Raises `UnsupportedError` where dataflow, or the order of executions, holds only since values exclude some, or
    since stores leave the bits of their places."""
    program = flow.accesses.program
    if flow.copies.parents is not None:
        found = Flow(flow.accesses)
        if any(True for _ in races.findings(found)) or found.relies_on_idle:
            what = f"iterations of {program.algorithm.name} that run together store the bits that are there"
            raise UnsupportedError(f"no certificate covers this yet: {what}")
    facts = [str(fact) for fact in flow.exclusions.relied]
    if not facts and any(statement.guards for statement in program.storing):
        plain = Flow(flow.accesses)
        plain.exclusions = _Nothing(flow.accesses)
        if any(True for condition in (races, threads) for _ in condition.findings(plain)):
            facts = ["the conditions of its updates, and what is declared of the values in them"]
    if facts:
        raise UnsupportedError(f"a certificate of {program.algorithm.name} would rely on values: {', '.join(facts)}")


class _Nothing(Exclusions):
    """Excludes no pair of executions."""

    def possible(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map:
        return pairs


def _of_statement(program: Program, statement: Statement) -> str:
    if statement.link.combination is not None or is_tree(program, statement) or statement.role not in _ROLES:
        return "combines partial results of its own"
    if statement.link.message is not None:
        return _of_message(program, statement, statement.link.message)
    if statement.along.aligned is not None:
        return "is aligned to lines, so that values say which thread computes what"
    if statement.is_call:
        return "is a call over whole arrays"
    if statement.link.deferred > 1:
        return f"is a copy that {statement.link.deferred} barriers complete"
    if statement.guards and statement.role is not Role.UPDATE:
        return "has a condition on values"
    bounds = implied_conditions.of_runs(program, statement)
    if bounds:
        return f"runs only where {bounds[0]}, which follows from the runs, and that is not in a certificate"
    if statement.role is Role.UPDATE and not _commutes(program, statement.source):
        return "has an operator that is not commutative"
    reused = [b.name for b in _used(program, statement) if 0 < len(b.scope) <= program.host_depth(statement)]
    if reused and program.queue_of(statement) is not None:
        return f"is an operation on {reused[0]}, which exists for one iteration of a loop of the host"
    return ""


def _of_message(program: Program, half: Statement, message: Message) -> str:
    if message.collective:
        return "is a call of all ranks"
    if half.guards:
        return "has a condition on values"
    if message.persistent or message.slots is not None:
        return "has requests that are chosen or kept"
    if any(0 < len(buffer.scope) <= program.host_depth(half) for buffer in _used(program, half)):
        return "is a message of a buffer that exists for one iteration of a loop of the host"
    return ""


def _commutes(program: Program, source: str) -> bool:
    op = program.algorithm.computations[source].op
    return op is not None and op.commutative


def _of_kernel(nest: KernelNest) -> str:
    shared = [b.name for s in nest.statements for b in _used(nest.program, s) if b.memory is Memory.SHARED]
    if nest.beside:
        return "goes on in the last of its blocks"
    if nest.launch.grid is not None and shared:
        return f"runs several blocks one after another (grid=), with {shared[0]} in shared memory"
    return ""


def _used(program: Program, statement: Statement) -> Iterator[Buffer]:
    """The buffers that a statement loads from or stores to."""
    names = [*statement.loads, statement.memory.target] if statement.stores else statement.loads
    return (program.buffers[program.storages[name].buffer] for name in names if name in program.storages)
