"""No deadlock: no cycle of ranks, each of which waits for the next.

The proof assumes that MPI buffers nothing by itself: a blocking half, or the wait for a nonblocking one, is complete
only when the half at the other end has begun; a send in buffered mode waits for nothing. Each rank does one thing
after another. There is no deadlock iff *needs* (``half that must have begun -> half or wait that needs it``) and the
order on each rank together have no cycle. Two blocking halves that meet count as one node, executed by both ranks at
once, and so does a call in which all ranks take part.

A ranking excludes a cycle: a time that grows along both. Local time is a ranking if nothing needs something later in
it. Otherwise isl's scheduler looks for one, and again with even and odd ranks apart. At given sizes, or if nothing
depends on parameters, a run in which MPI buffers nothing by itself decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.collective_exchanges import collectives, with_calls
from tiramisu_py.program.ranks.combined_reductions import meetings
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.messages import collectives as collective_exchanges
from tiramisu_py.proof.messages.exchanges import ExchangeHalves, exchanges
from tiramisu_py.proof.messages.halves import event_of, events, executed
from tiramisu_py.proof.messages.matching import matched
from tiramisu_py.proof.messages.small_sizes import (
    MOST_AT_FIRST,
    MOST_OF_ALL,
    MOST_OF_ONE,
    Stuck,
    relevant_params,
    small_params,
)
from tiramisu_py.proof.messages.wait_graph import Needs
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, Named, rank_words
from tiramisu_py.sets import smallest


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """The smallest deadlock, or the finding that none could be excluded.

    A `sought` deadlock is looked for at its sizes, and counts as found if messages do not match in this state.
    """
    if not exchanges(flow):
        return
    if not matched(flow) or any(True for _ in collective_exchanges.findings(flow)):
        if sought is not None:  # otherwise refused elsewhere, as messages without peers
            yield Finding(sought, lambda: _not_known(_needs(flow)))
        return
    order = _needs(flow)
    yield from _smallest(order) if sought is None else _again(order, sought)


def _smallest(order: Needs) -> Iterator[Finding]:
    if order.is_local():
        return
    found, complete = _search(order, MOST_OF_ONE if order.is_small else MOST_AT_FIRST)
    if found is None and not complete and not order.has_ranking():
        found, complete = _search(order, MOST_OF_ALL if order.relevant else MOST_OF_ONE)
        if found is None and not complete:
            found = _not_known(order)
    if found is not None:
        yield Finding.of(Key(found.kind, (), dict(found.witness.params)), found)


def _again(order: Needs, sought: Key) -> Iterator[Finding]:
    """The deadlock at the sizes of one in another state, or again the finding that none could be excluded."""
    params = dict(sought.at or {})
    if sought.sort == "unknown":
        if not order.is_local():
            yield Finding(sought, partial(_not_known, order))
    elif stuck := order.stuck(params):
        yield Finding(sought, partial(_deadlock, order.program, stuck, params))


def _needs(flow: Flow) -> Needs:
    """The needs of acts for one another; a call of all ranks stands for both halves of a collective exchange."""
    program, found = flow.accesses.program, exchanges(flow)
    together = collectives(program)
    if not together:
        return _with_meetings(program, found, {})
    reduced = with_calls(program, together)
    names = [one.name for one in together]
    calls = {one.send.name: _others(reduced, reduced.statements[one.send.name]) for one in together}
    return _with_meetings(reduced, tuple(e for e in found if e.name not in names), calls)


def _with_meetings(program: Program, found: tuple[ExchangeHalves, ...], calls: Mapping[str, isl.Map]) -> Needs:
    """The needs, with combinations of partial results: each is a call of the ranks on one line of the grid."""
    combined = [s for s in program.statements.values() if s.calls_ranks]
    return Needs(program, found, {**calls, **{met.name: _on_its_line(program, met) for met in combined}})


def _on_its_line(program: Program, met: Statement) -> isl.Map:
    """``event -> event`` of the same combination on the other ranks of its line."""
    event = event_of(program, met)
    pairs = meetings(program, met).apply_domain(sets.graph(event)).apply_range(sets.graph(event))
    return pairs.subtract(sets.graph(sets.identity(event.get_space().range()))).coalesce()


def _others(program: Program, call: Statement) -> isl.Map:
    """``event -> event`` of the same call on all other ranks."""
    here = events(program, call)
    space = here.get_space()
    same = sets.graph(sets.function(space, None, sets.variables(space)[program.ranks.axes :]), here)
    return same.apply_range(same.reverse()).subtract(sets.graph(sets.identity(space)))


# -- the search for a cycle


def _search(order: Needs, budget: int) -> tuple[Violation | None, bool]:
    """The smallest deadlock in runs of up to `budget` messages and waits in total, and whether these were all runs.

    A window never shows all ranks, so its runs are never all.
    """
    for params in small_params(order.program.context, order.relevant):
        budget -= 1 + order.size(params)
        if budget < 0:
            return None, False
        stuck = order.stuck(params)
        if stuck:
            return _deadlock(order.program, stuck, params), True
    return None, not order.program.ranks.window


def _not_known(order: Needs) -> Violation:
    sizes = ", ".join(order.relevant)
    found = dict.fromkeys(e.name for e in order.exchanges)
    message = (
        f"no deadlock of {', '.join(found)} was found at small sizes, but that there is none at any size could not "
        "be proven"
    )
    advice = f"use constants in place of {sizes} (f.grid fixes the number of ranks): then all messages are tried"
    if not order.relevant:
        advice = "use fewer messages: collapse_many"
    return Violation("unknown", message, Witness({}), repair=advice)


def _deadlock(program: Program, stuck: list[Stuck], params: dict[str, int]) -> Violation:
    cycle = _cycle(stuck)
    story = [f"{rank_words(one.rank)} waits in {_act_words(program, one)} for {rank_words(one.other)}" for one in cycle]
    rest = [f"which waits in {_act_words(program, one)} for {rank_words(one.other)}" for one in cycle[1:]]
    first = cycle[0]
    named = _value(program, first, params)
    witness = Witness(params, None, named)
    chain = ", ".join([story[0], *rest])
    message = f"{chain}: none of them continues, {witness}"
    if len(cycle) == 1:
        message = f"{story[0]} itself, and does not continue, {witness}"
    several = any(program.statements[one.act[0]].role is not Role.WAIT for one in cycle)
    advice = "make one half nonblocking (tm.NONBLOCK), and wait for it after both, or order it first on some ranks"
    if not several:
        advice = "post all receives and sends before the waits"
    return Violation("deadlock", message, witness, repair=advice)


def _cycle(stuck: list[Stuck]) -> list[Stuck]:
    """The ranks of a shortest cycle, starting at its least rank."""
    by_rank = {one.rank: one for one in stuck}
    best: list[Stuck] = []
    for start in by_rank:
        path = [start]
        while by_rank[path[-1]].other not in path:
            path.append(by_rank[path[-1]].other)
        if by_rank[path[-1]].other == start and (not best or len(path) < len(best)):
            best = [by_rank[rank] for rank in path]
    return best


def _act_words(program: Program, one: Stuck) -> str:
    statement = program.statements[one.act[0]]
    if statement.link.message is not None and statement.link.message.collective:
        return statement.link.message.exchange
    return statement.handle


def _value(program: Program, one: Stuck, params: dict[str, int]) -> Named | None:
    """The first value of the message that a rank waits in; None in a wait, or in a call of all ranks."""
    statement, event = program.statements[one.act[0]], one.act[1]
    if statement.link.message is None or statement.link.message.collective:
        return None
    frame = event_of(program, statement)
    there = sets.preimage(smallest.singleton(frame.get_space().range(), event), frame)
    instance = smallest.earliest(there.intersect(executed(program, statement)), statement.coords, params)
    return (statement.source, smallest.evaluated(program.value_of(statement), instance, params))


# -- in the report


def _impossible(program: Program) -> str:
    if all(statement.link.message is None for statement in program.acting):
        return ""
    return f"no deadlock is possible {_on_ranks(program)}, whether or not MPI buffers messages"


def _on_ranks(program: Program) -> str:
    """The number of ranks in words: constants, or any number."""
    if told_ranks(program).unnumbered or program.ranks.everyone is None:
        return "on any number of ranks"
    if relevant_params([program.ranks.everyone], program.context):
        return "on any number of ranks"
    extents = [1 + (sets.largest_value(program.ranks.everyone, axis) or 0) for axis in range(program.ranks.axes)]
    if len(extents) == 1:
        return f"on {extents[0]} rank{'s' if extents[0] != 1 else ''}"
    return f"on a grid of {' x '.join(map(str, extents))} ranks"


SENTENCES = (Sentence(Topic.MESSAGES, _impossible),)
