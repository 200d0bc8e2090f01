"""The caller's arrays in parts: each value of an output is on some rank, and every array is dealt out in one way."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import Rank
from tiramisu_py.program.machine.distribution import Dealt, OwnBlock, Pieces
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.violations.findings import Finding, Key, words
from tiramisu_py.sets import smallest


def findings(flow: Flow, _: Key | None = None) -> Iterator[Finding]:
    """Everything that is dealt to no rank, or to ranks in two ways."""
    program = flow.accesses.program
    if not program.ranks.is_spread:
        return
    yield from _varying(program)
    for statement in program.statements.values():
        yield from _two_axes(program, statement)
    for source in program.ranks.distributions:
        yield from _misdealt(program, source)
    for source in program.algorithm.outputs:
        yield from _unheld(flow, source)
    yield from _one_array(program)


# -- bounds of blocks


def _varying(program: Program) -> Iterator[Finding]:
    used = told_ranks(program).varying
    if used is not None:
        source, bound = used
        message = (
            f"{source} depends on {bound}, which differs from rank to rank: {source} would depend on the rank that "
            "computes it"
        )
        repair = f"leave {bound} out of {source}"
        yield Finding.of(
            Key("varying", (source,)), Violation("communication", message, _nowhere(source), repair=repair)
        )


# -- loops


def _two_axes(program: Program, statement: Statement) -> Iterator[Finding]:
    along: dict[int, str] = {}
    for loop in (program.loops[number] for number in statement.loops):
        if isinstance(loop.tag, Rank):
            if loop.tag.axis in along:
                names = f"{along[loop.tag.axis]} and {loop.name}"
                message = f"loops {names} of {statement.handle} both run along axis {loop.tag.axis} of the ranks"
                repair = f"{statement.handle}.tag_distribute({names.replace(' and ', ', ')}) gives each its own axis"
                violation = Violation("reach", message, _nowhere(statement.source), repair=repair)
                yield Finding.of(Key("axis", (statement.name,)), violation)
            along[loop.tag.axis] = loop.name


def _nowhere(source: str) -> Witness:
    return Witness({}, reader=(source, ()))


# -- arrays of the caller


def _misdealt(program: Program, source: str) -> Iterator[Finding]:
    """Arrays that are dealt out along a dimension which they do not have (any more)."""
    count = len(program.buffers[program.storages[source].buffer].extents)
    for spread in program.ranks.distributions[source].axes:
        if isinstance(spread, Dealt | Pieces | OwnBlock) and spread.dim >= count:
            message = f"{source} is dealt out along its dimension {spread.dim}, but its array has {count} dimensions"
            repair = f"{source}.distribute_array after {source}.store_in"
            yield Finding.of(Key("dealt", (source,)), Violation("reach", message, _nowhere(source), repair=repair))


def _unheld(flow: Flow, source: str) -> Iterator[Finding]:
    """Values of an output that would be in the array of a rank that does not exist."""
    program = flow.accesses.program
    if source not in program.ranks.distributions:
        return
    exits = [r for r in flow.accesses.of_buffer(program.storages[source].buffer) if not r.is_write]
    every, ranks = flow.accesses.values.domain(source), told_ranks(program)
    seen = sets.empty(every.get_space())
    for read in exits:
        if read.actor.statement is None and read.source == source:
            seen = seen.union(read.domain.apply(read.values))
    bad = every.subtract(ranks.on_some_rank(source, every, seen))
    if not bad.is_empty():
        params = smallest.smallest_params(bad)
        value = (source, smallest.first(sets.fixed(bad, params)))
        witness = Witness(params, None, value)
        message = f"{words(value)} is in the array of no rank: {ranks.in_words}, {witness}"
        repair = f"choose rank= in {source}.distribute_array so that each element is on one of these ranks"
        yield Finding.of(Key("held", (source,)), Violation("bounds", message, witness, repair=repair))


def _one_array(program: Program) -> Iterator[Finding]:
    """Inputs and outputs that share an array of the caller, but are dealt out in different ways."""
    seen: dict[str, str] = {}
    for source in (*program.algorithm.inputs, *program.algorithm.outputs):
        if source in program.storages:
            buffer = program.storages[source].buffer
            other = seen.setdefault(buffer, source)
            if program.ranks.distributions.get(source) != program.ranks.distributions.get(other):
                message = f"{other} and {source} are in one array, {buffer}, but are not held by ranks in the same way"
                repair = f"distribute {source} as {other}, or keep it in an array of its own"
                yield Finding.of(Key("array", (source,)), Violation("reach", message, _nowhere(source), repair=repair))
            elif source in program.ranks.distributions and not sets.is_identity(program.storages[source].index):
                message = (
                    f"{source} is held by ranks in parts, but its layout in {buffer} is not that of its indices: a "
                    "part is a block of the plain indices"
                )
                repair = f"keep {source} in an array of its own, at its indices in their order"
                yield Finding.of(Key("layout", (source,)), Violation("reach", message, _nowhere(source), repair=repair))
