"""Executors exist: every rank that executes, sends or receives something is in the process grid."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.messages.halves import executed, has_full_peers, soonest, task
from tiramisu_py.proof.violations.findings import Finding, Key, Named, rank_words, wanted, words
from tiramisu_py.sets import smallest

#: The sorts of findings: a rank that does not exist computes a value, or does something else; the other rank of a
#: message does not exist, or is named on another grid.
_COMPUTED, _DONE, _PEERLESS, _OTHER_GRID = "computed", "done", "without a peer", "another grid"


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every statement on a rank that does not exist, and every message to or from such a rank."""
    program = flow.accesses.program
    if not program.ranks.axes:
        return
    every = list(program.statements.values())
    homeless = [s for s in every if _is_homeless(program, s)] if sought is None else []
    for statement in homeless or every:
        yield from _of(program, statement, sought)


def computed_nowhere(finding: Finding) -> bool:
    """Whether values are computed on ranks that do not exist: what the program does with them then means nothing."""
    return finding.key.sort == _COMPUTED


def _of(program: Program, statement: Statement, sought: Key | None) -> Iterator[Finding]:
    key = Key(_COMPUTED if _computes(statement) else _DONE, task(statement))
    if wanted(key, sought):
        bad = _without_rank(program, statement)
        if not bad.is_empty():
            yield Finding(key, partial(_no_executor, program, statement, bad))
    if statement.link.message is not None and not has_full_peers(program, statement):
        yield Finding(Key(_OTHER_GRID, task(statement)), partial(_peers_of_other_grid, program, statement))
    elif statement.link.message is not None and wanted(Key(_PEERLESS, task(statement)), sought):
        bad = _without_peer(program, statement)
        if not bad.is_empty():
            yield Finding(Key(_PEERLESS, task(statement)), partial(_no_peer, program, statement, bad))


def _computes(statement: Statement) -> bool:
    return statement.stores and statement.link.message is None


def _is_homeless(program: Program, statement: Statement) -> bool:
    """Whether a computation runs on ranks that do not exist; its messages then do so too, and are no fault."""
    return _computes(statement) and not _without_rank(program, statement).is_empty()


def _without_rank(program: Program, statement: Statement) -> isl.Set:
    """The instances on ranks that are not in the process grid."""
    assert program.ranks.everyone is not None
    return executed(program, statement).subtract(sets.preimage(program.ranks.everyone, program.rank_of(statement)))


def _without_peer(program: Program, half: Statement) -> isl.Set:
    """The instances on a rank of the grid whose peer is not in the grid."""
    assert program.ranks.everyone is not None and half.link.message is not None
    here = executed(program, half).subtract(_without_rank(program, half))
    return here.subtract(sets.preimage(program.ranks.everyone, half.link.message.peer))


# -- in words


def _peers_of_other_grid(program: Program, half: Statement) -> Violation:
    assert half.link.message is not None
    given, axes = sets.out_size(half.link.message.peer), program.ranks.axes
    argument = "source" if half.receives else "to"
    message = (
        f"{half.handle} names its peer by {given} coordinate{'s' if given > 1 else ''}, and the process grid has "
        f"{axes} {'axes' if axes > 1 else 'axis'}"
    )
    advice = f"give {argument}= as many coordinates as there are axes: a tuple where there are several"
    return Violation("communication", message, Witness({}), repair=advice)


def _no_executor(program: Program, statement: Statement, bad: isl.Set) -> Violation:
    params, instance = soonest(program, statement, bad)
    rank = smallest.evaluated(program.rank_of(statement), instance, params)
    what, named = _doing(program, statement, instance, params)
    witness = Witness(params, None, named)
    message = f"{what} runs on {rank_words(rank)}, which does not exist: {_grid_words(program, params)}, {witness}"
    kind = "communication" if statement.link.message is not None else "bounds"
    return Violation(kind, message, witness, repair=_advice(rank))


def _no_peer(program: Program, half: Statement, bad: isl.Set) -> Violation:
    assert half.link.message is not None
    params, instance = soonest(program, half, bad)
    rank = smallest.evaluated(program.rank_of(half), instance, params)
    peer = smallest.evaluated(half.link.message.peer, instance, params)
    _, named = _doing(program, half, instance, params)
    witness = Witness(params, None, named) if half.receives else Witness(params, named, None)
    does, preposition = ("receives", "from") if half.receives else ("sends", "to")
    message = (
        f"{half.handle} {does} {words(named)} on {rank_words(rank)} {preposition} {rank_words(peer)}, which does not "
        f"exist: {_grid_words(program, params)}, {witness}"
    )
    return Violation("communication", message, witness, repair="leave the ranks out that have no such neighbour")


def _doing(
    program: Program, statement: Statement, instance: tuple[int, ...], params: dict[str, int]
) -> tuple[str, Named]:
    if not statement.acts:
        return statement.name, (statement.name, instance)
    named = (statement.source, smallest.evaluated(program.value_of(statement), instance, params))
    if statement.link.message is not None:
        return f"{statement.handle} of {words(named)}", named
    return words(named), named


def _grid_words(program: Program, params: dict[str, int]) -> str:
    """The extents of the process grid at given parameters."""
    assert program.ranks.everyone is not None
    found = sets.fixed(program.ranks.everyone, params)
    extents = []
    for axis in range(program.ranks.axes):
        along = sets.interval(found, axis)
        extents.append(0 if along is None else along[1] + 1)
    if len(extents) == 1:
        return f"there {'is 1 rank' if extents[0] == 1 else f'are {extents[0]} ranks'}"
    return f"the ranks are a grid of {' x '.join(map(str, extents))}"


def _advice(rank: tuple[int, ...]) -> str:
    if min(rank) < 0:
        return "number ranks from 0: shift the loop that runs on ranks"
    return "declare a larger process grid, or let the loop that runs on ranks have fewer iterations"
