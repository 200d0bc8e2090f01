"""Messages match: the k-th message of an exchange from one rank to another is the k-th that is received there.

MPI pairs by order; a program is right where this pairs equal values. It suffices to find one pairing of equal values on
each channel that is one to one, on elements and on messages, and keeps both orders (that of messages on their channel,
and that of elements in their message): there is only one such pairing, and it is MPI's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from weakref import WeakKeyDictionary

import islpy as isl

from tiramisu_py import sets, smallest
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.findings import Finding, Named, words
from tiramisu_py.proof.messages import (
    Exchange,
    Pairs,
    event_of,
    exchanges,
    half_words,
    local_time,
    on_rank,
    rank_words,
    soonest,
    united,
)

_KNOWN: WeakKeyDictionary[Exchange, tuple[Violation, ...]] = WeakKeyDictionary()


def findings(flow: Flow) -> Iterator[Finding]:
    """For each exchange the first of: halves without their peers, messages of other sizes, another order."""
    for exchange in exchanges(flow):
        for found in _of(flow, exchange):
            yield Finding(found, partial(_persists, name=exchange.name, kind=found.kind))


def _persists(flow: Flow, name: str, kind: str) -> bool:
    return any(v.kind == kind for exchange in exchanges(flow) if exchange.name == name for v in _of(flow, exchange))


def matched(flow: Flow) -> bool:
    """Whether the messages of all exchanges are known to match."""
    return all(next(_of(flow, exchange), None) is None for exchange in exchanges(flow))


def _of(flow: Flow, exchange: Exchange) -> Iterator[Violation]:
    if exchange not in _KNOWN:
        _KNOWN[exchange] = tuple(_violations(flow, exchange))
    yield from _KNOWN[exchange]


def _violations(flow: Flow, exchange: Exchange) -> Iterator[Violation]:
    alone = [_alone(exchange, h, bad) for h in _halves(exchange) if not (bad := exchange.unmet(h)).is_empty()]
    if alone:
        yield from alone
        return
    for half in _halves(exchange):
        if flow.has_ties(half):
            message = f"{half_words(half)} takes several elements at one time: they have no order"
            yield Violation("unknown", message, Witness({}), repair="give each element a time of its own")
            return
    if exchange.meeting is None:
        yield _repeated(exchange)
        return
    yield from _sizes(exchange) or _orders(exchange)


def _halves(exchange: Exchange) -> tuple[Statement, ...]:
    return (*exchange.sends, *exchange.receives)


# -- sends without receives, and receives without sends


def _alone(exchange: Exchange, half: Statement, bad: isl.Set) -> Violation:
    program = exchange.program
    params, instance = soonest(program, half, bad)
    named, rank, peer = _element(program, half, instance, params)
    others = exchange.sends if half.receives else exchange.receives
    other = half_words(others[0]) if others else exchange.name
    if half.receives:
        witness = Witness(params, None, named)
        message = (
            f"{half_words(half)} receives {words(named)} {on_rank(rank)}, but no {other} on {rank_words(peer)} sends "
            f"it to {rank_words(rank)}, {witness}"
        )
    else:
        witness = Witness(params, named, None)
        message = (
            f"{half_words(half)} sends {words(named)} from {rank_words(rank)} to {rank_words(peer)}, but no {other} "
            f"there receives it from {rank_words(rank)}, {witness}"
        )
    return Violation("communication", message, witness, repair=f"let {half_words(half)} and {other} name equal values")


def _element(
    program: Program, half: Statement, instance: tuple[int, ...], params: dict[str, int]
) -> tuple[Named, tuple[int, ...], tuple[int, ...]]:
    """What an instance of a half takes, on which rank, and the rank at the other end."""
    assert half.message is not None
    value = smallest.evaluated(program.value_of(half), instance, params)
    rank = smallest.evaluated(program.rank_of(half), instance, params)
    return (half.source, value), rank, smallest.evaluated(half.message.peer, instance, params)


def _repeated(exchange: Exchange) -> Violation:
    """One value sent several times on a channel: which is which cannot be told."""
    send, receive = half_words(exchange.sends[0]), half_words(exchange.receives[0])
    message = (
        f"{send} sends, or {receive} receives, some value several times between the same two ranks, and which meets "
        "which is not known"
    )
    advice = f"let {send} and {receive} have loops of equal names for the repetitions, or share these loops"
    return Violation("unknown", message, Witness({}), repair=advice)


# -- sizes


def _sizes(exchange: Exchange) -> list[Violation]:
    """Messages whose elements come in several, or with those of others."""
    if _all_single(exchange):
        return []
    messages = united(exchange.messages)
    if messages is None or messages.is_bijective():
        return []
    for (send, receive), relation in exchange.messages.items():
        for mine, theirs, there in ((send, receive, relation), (receive, send, relation.reverse())):
            several = _several(exchange, mine, there)
            if not several.is_empty():
                return [_sized(exchange, mine, theirs, there, several)]
    first = _halves(exchange)[0]
    message = f"messages of {exchange.name} come apart, or together, in its other parts"
    return [Violation("communication", f"{half_words(first)}: {message}", Witness({}))]


def _all_single(exchange: Exchange) -> bool:
    """Whether each element is a message."""
    return all(exchange.program.host_depth(half) == len(half.loops) for half in _halves(exchange))


def _several(exchange: Exchange, name: str, there: isl.Map) -> isl.Set:
    """The events that are related to more than one."""
    twice = there.reverse().apply_range(there)
    apart = twice.subtract(sets.graph(sets.identity(twice.get_space().domain())))
    return there.intersect_range(apart.domain()).domain()


def _sized(exchange: Exchange, mine: str, theirs: str, there: isl.Map, several: isl.Set) -> Violation:
    program = exchange.program
    statement, other = program.statements[mine], program.statements[theirs]
    elements = sets.preimage(several, event_of(program, statement)).intersect(exchange.existing[mine])
    params, instance = soonest(program, statement, elements)
    named, rank, peer = _element(program, statement, instance, params)
    event = smallest.singleton(several.get_space(), smallest.evaluated(event_of(program, statement), instance, params))
    all_of_it = sets.preimage(event, event_of(program, statement)).intersect(exchange.existing[mine])
    count = sets.count(sets.fixed(all_of_it, params))
    parts = sets.count(sets.fixed(event.apply(there), params))
    witness = Witness(params, None, named) if statement.receives else Witness(params, named, None)
    does, expects = ("expects", "sends") if statement.receives else ("sends", "expects")
    where = f"{on_rank(rank)}, {'from' if statement.receives else 'to'} {rank_words(peer)}"
    each = " of one" if count == parts else ""
    message = (
        f"{half_words(statement)} {does} {count} elements in one message ({words(named)} is the first, {where}), but "
        f"{half_words(other)} {expects} {parts} messages{each} for them, {witness}"
    )
    advice = f"collapse the same loops of {half_words(statement)} and {half_words(other)}: collapse_many"
    return Violation("communication", message, witness, repair=advice)


# -- order


def _orders(exchange: Exchange) -> list[Violation]:
    """Pairs of elements that are received in another order than they are sent, on one channel."""
    assert exchange.meeting is not None
    moved, before, after = _moved(exchange, exchange.meeting)
    if moved is None:
        return []
    channel = 2 * exchange.program.rank_axes
    sent = sets.equal_prefix(isl.Map.lex_lt(moved.get_space().domain()), channel)
    bad = sent.apply_domain(moved).apply_range(moved).intersect(isl.Map.lex_ge(moved.get_space().range()))
    return [] if bad.is_empty() else [_crossed(exchange, moved, before, after, bad)]


def _moved(
    exchange: Exchange, meeting: Pairs
) -> tuple[isl.Map | None, dict[str, isl.MultiAff], dict[str, isl.MultiAff]]:
    """``[channel, time of the send] -> [channel, time of the receive]``, and the functions to both."""
    before = _clocks(exchange, exchange.sends)
    after = _clocks(exchange, exchange.receives)
    moved: isl.Map | None = None
    for (send, receive), pairs in meeting.items():
        one = pairs.apply_domain(sets.graph(before[send])).apply_range(sets.graph(after[receive]))
        moved = one if moved is None else moved.union(one)
    return (None if moved is None else moved.coalesce()), before, after


def _clocks(exchange: Exchange, halves: tuple[Statement, ...]) -> dict[str, isl.MultiAff]:
    """``instance -> [channel, time]``; static positions only where there are several halves to tell apart."""
    program, found = exchange.program, {}
    for half in halves:
        if len(halves) > 1:
            clock = sets.outputs(local_time(program, half))
        else:
            loops = enumerate(half.loops)
            clock = [sets.outputs(half.coords)[d] for d, loop in loops if not program.loops[loop].is_rank]
        found[half.name] = sets.function(half.frame, None, [*sets.outputs(exchange.channel(half)), *clock])
    return found


def _crossed(
    exchange: Exchange,
    moved: isl.Map,
    before: dict[str, isl.MultiAff],
    after: dict[str, isl.MultiAff],
    bad: isl.Map,
) -> Violation:
    """``bad`` relates times of receives: the first is sent first, and received second."""
    program = exchange.program
    params = smallest.smallest_params(bad)
    fixed = sets.fixed_map(bad, params)
    one = smallest.first(fixed.domain())
    other = smallest.first(smallest.at(smallest.singleton(fixed.get_space().domain(), one), {}).apply(fixed))
    found = [_received(exchange, after, key, params) for key in (one, other)]
    (first, event, receive), (second, next_event, _) = found
    sender, receiver = one[: program.rank_axes], one[program.rank_axes : 2 * program.rank_axes]
    send = half_words(exchange.sends[0])
    witness = Witness(params, first, second)
    order = f"{words(first)} before {words(second)}"
    if event == next_event:
        message = (
            f"in one message from {rank_words(sender)} to {rank_words(receiver)} {send} sends {order}, and "
            f"{receive} takes them in the other order, {witness}"
        )
        advice = f"order the loops of {send} and {receive} alike"
    else:
        message = (
            f"{send} sends {order} from {rank_words(sender)} to {rank_words(receiver)}, and {receive} expects the "
            f"other order: messages of one exchange are received as they are sent, {witness}"
        )
        advice = f"order the loops of {send} and {receive} alike, or make them two exchanges"
    return Violation("communication", message, witness, repair=advice)


def _received(
    exchange: Exchange, after: dict[str, isl.MultiAff], key: tuple[int, ...], params: dict[str, int]
) -> tuple[Named, tuple[object, ...], str]:
    """The value that is received at ``[channel, time]``, the message it comes in, and by which half."""
    program = exchange.program
    for half in exchange.receives:
        clock = after[half.name]
        there = sets.preimage(smallest.singleton(clock.get_space().range(), key), clock)
        here = sets.fixed(exchange.existing[half.name].intersect(there), params)
        if not here.is_empty():
            instance = smallest.first(here)
            event = smallest.evaluated(event_of(program, half), instance, params)
            return _element(program, half, instance, params)[0], (half.name, event), half_words(half)
    raise AssertionError("a time at which nothing is received")
