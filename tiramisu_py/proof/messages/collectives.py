"""Collective exchanges: when one call of all ranks can replace the messages of one iteration of the loops around them.

The halves are adjacent, so that nothing is read or overwritten between taking and storing the elements. Within one
call MPI takes and stores in any order: no element is stored twice, or stored where one is taken. A value sent in a
call is received in the same call of the other rank. That every rank takes part in every call needs no proof: the
generated code makes the call outside everything that depends on the rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.collective_exchanges import Collective, collectives
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.messages.exchanges import exchanges
from tiramisu_py.proof.messages.halves import element_of, executed, soonest
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, rank_words, words
from tiramisu_py.sets import smallest


def findings(flow: Flow, _: Key | None = None) -> Iterator[Finding]:
    """For each exchange declared collective, the first reason why it cannot be."""
    for one in collectives(flow.accesses.program):
        found = next(_violations(flow, one), None)
        if found is not None:
            yield Finding.of(Key(found.kind, (one.name,)), found)


def is_one_call(one: Collective) -> bool:
    """Whether nothing in the program keeps the messages of an exchange from being calls of all ranks."""
    return next(_alone(one), None) is None


def _violations(flow: Flow, one: Collective) -> Iterator[Violation]:
    """The reasons in the order in which they are looked for."""
    yield from _alone(one)
    if one.is_whole:
        yield from _other_call(flow, one)


def _alone(one: Collective) -> Iterator[Violation]:
    if not one.sends or not one.receives:
        return  # halves without peers are refused elsewhere
    if not one.is_whole:
        yield _cut(one)
        return
    if any(half.link.message is None or half.link.message.asynchronous for half in (one.send, one.receive)):
        yield Violation("order", f"{one.name} is collective, and has a half that does not block", Witness({}))
        return
    yield from _apart(one)
    yield from _overlapping(one)
    yield from _stored_twice(one)


def _cut(one: Collective) -> Violation:
    parts = ", ".join(half.name for half in (*one.sends, *one.receives))
    message = f"{one.name} is collective, and has been cut into {parts}: a call has one send and one receive"
    return Violation("order", message, Witness({}), repair="do not cut it, or leave out collective=True")


# -- next to each other


def _apart(one: Collective) -> Iterator[Violation]:
    program, depth = one.program, one.depth
    send, receive = one.send, one.receive
    halves = f"{send.handle} and {receive.handle}"
    advice = f"{program.algorithm.name}.order({send.handle}, {receive.handle})"
    if shared(send, receive) > depth:
        names = ", ".join(program.loops[loop].name for loop in send.loops[depth : shared(send, receive)])
        message = f"{halves} share the loops {names}, which are part of one message"
        yield Violation("order", message, Witness({}), repair="let each half have bulk loops of its own")
        return
    first, last = (program.positions[half.name][depth] for half in (send, receive))
    if first > last:
        message = f"{one.name} is collective, but {receive.handle} comes before {send.handle}"
        yield Violation("order", message, Witness({}), repair=advice)
        return
    for other in program.statements.values():
        if other in (send, receive) or shared(other, send) < depth:
            continue
        if first <= program.positions[other.name][depth] <= last:
            message = f"{halves} are one call, in which all ranks take part, but {other.handle} comes between them"
            yield Violation("order", message, Witness({}), repair=advice)
            return


# -- memory


def _places(one: Collective, half: Statement) -> isl.Map:
    """``instance -> [rank, call, place]`` of what a half takes or stores, with the place on its rank."""
    program = one.program
    stored = half.receives
    storage = program.storages[half.memory.target] if stored else program.storage_for(half, half.source)
    place = program.place(half, storage, program.value_of(half), stored)
    key = sets.joined(program.rank_of(half), one.call_of(half))
    return sets.range_named(sets.graph(sets.joined(key, sets.renamed(place, None)), executed(program, half)), None)


def _overlapping(one: Collective) -> Iterator[Violation]:
    program, send, receive = one.program, one.send, one.receive
    loaded, stored = program.storage_for(send, send.source), program.storages[receive.memory.target]
    if loaded.buffer != stored.buffer:
        return
    taken, kept = _places(one, send), _places(one, receive)
    bad = kept.intersect_range(taken.range()).domain()
    if bad.is_empty():
        return
    params, instance = soonest(program, receive, bad)
    named, rank, peer = element_of(program, receive, instance, params)
    there = smallest.singleton(receive.frame, instance)
    taking = kept.intersect_domain(there).range().apply(taken.reverse())
    sent = element_of(program, send, smallest.earliest(taking, send.coords, params), params)[0]
    witness = Witness(params, sent, named)
    message = (
        f"{receive.handle} stores {words(named)} from {rank_words(peer)} where {send.handle} takes "
        f"{words(sent)}, on {rank_words(rank)}, in one call, {witness}"
    )
    yield Violation("race", message, witness, repair="leave out collective=True, or receive into memory of its own")


def _stored_twice(one: Collective) -> Iterator[Violation]:
    program, receive = one.program, one.receive
    kept = _places(one, receive)
    if kept.is_injective():
        return
    same = kept.apply_range(kept.reverse())
    twice = same.subtract(sets.graph(sets.identity(receive.frame))).domain()
    params, instance = soonest(program, receive, twice)
    named, rank, peer = element_of(program, receive, instance, params)
    witness = Witness(params, None, named)
    message = (
        f"{receive.handle} stores {words(named)} from {rank_words(peer)} where it stores another value in the "
        f"same call, on {rank_words(rank)}, {witness}"
    )
    yield Violation("race", message, witness, repair="receive each value into an element of its own")


# -- calls


def _other_call(flow: Flow, one: Collective) -> Iterator[Violation]:
    """A value that one rank sends in one call, and the other rank receives in another."""
    program, send, receive = one.program, one.send, one.receive
    exchange = next(e for e in exchanges(flow) if e.name == one.name)
    pairs = None if exchange.meeting is None else exchange.meeting.get((send.name, receive.name))
    if pairs is None:
        return
    same = sets.graph(one.call_of(send)).apply_range(sets.graph(one.call_of(receive)).reverse())
    bad = pairs.subtract(same).domain()
    if bad.is_empty():
        return
    params, instance = soonest(program, send, bad)
    named, rank, peer = element_of(program, send, instance, params)
    witness = Witness(params, named, None)
    message = (
        f"{send.handle} sends {words(named)} from {rank_words(rank)} to {rank_words(peer)} in one call, and "
        f"{receive.handle} receives it there in another, {witness}"
    )
    yield Violation(
        "communication", message, witness, repair="send and receive in equal iterations of the loops around"
    )


# -- in the report


def _together(program: Program) -> str:
    together = ", ".join(one.name for one in collectives(program))
    if not together:
        return ""
    return f"each call of {together} takes and stores values in any order, and all ranks take part"


SENTENCES = (Sentence(Topic.COLLECTIVES, _together),)
