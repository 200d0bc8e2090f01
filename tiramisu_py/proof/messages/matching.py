"""Messages match: the k-th message of an exchange from one rank to another is the k-th that is received there.

MPI pairs messages by order; a program is right if this pairs equal values. It suffices to find, on each channel, a
pairing of equal values that is one to one on elements and on messages, and keeps both orders (that of messages on
their channel, and that of elements in their message): only one such pairing exists, and it is MPI's.

How often each value goes over each channel, at small sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.messages.exchanges import ExchangeHalves, Pairs, exchanges, united
from tiramisu_py.proof.messages.halves import element_of, event_of, has_full_peers, local_time, soonest
from tiramisu_py.proof.messages.small_sizes import relevant_params, small_params
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, Named, rank_words, words
from tiramisu_py.sets import smallest


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """For each exchange, the first fault: halves without peers, or of other values, unequal sizes, another order."""
    for exchange in exchanges(flow):
        if sought is None or exchange.name in sought.about:
            for found in _of(flow, exchange):
                yield Finding.of(Key(found.kind, (exchange.name,)), found)


def matched(flow: Flow) -> bool:
    """Whether the messages of all exchanges are known to match."""
    return all(e.is_placed and next(_of(flow, e), None) is None for e in exchanges(flow))


def _of(flow: Flow, exchange: ExchangeHalves) -> Iterator[Violation]:
    yield from flow.kept(("unmatched", exchange.name), lambda: tuple(_violations(flow, exchange)))


def _violations(flow: Flow, exchange: ExchangeHalves) -> Iterator[Violation]:
    if any(not has_full_peers(exchange.program, half) for half in exchange.halves):
        return  # refused as executors that do not exist
    alone = [_alone(exchange, h, bad) for h in exchange.halves if not (bad := exchange.unmet(h)).is_empty()]
    if alone:
        yield from alone
        return
    conditions = _conditions(exchange)
    if conditions is not None:
        yield conditions
        return
    for half in exchange.halves:
        if flow.has_ties(half):
            message = f"{half.handle} takes several elements at one time: they have no order"
            yield Violation("unknown", message, Witness({}), repair="give each element a time of its own")
            return
    if exchange.meeting is None:
        yield _repeated(exchange)
        return
    yield from _sizes(exchange) or crossed(exchange)


def _conditions(exchange: ExchangeHalves) -> Violation | None:
    """Halves under different conditions on values: one of them takes elements that the other does not."""
    first = exchange.halves[0]
    for half in exchange.halves[1:]:
        if {guard.key() for guard in half.guards} != {guard.key() for guard in first.guards}:
            mine, others = (" & ".join(map(str, each.guards)) or "anywhere" for each in (first, half))
            message = f"{first.handle} has values of {first.source} where {mine}, and {half.handle} where {others}"
            return Violation("communication", message, Witness({}), repair="give both the same values")
    return None


# -- sends without receives, and receives without sends


def _alone(exchange: ExchangeHalves, half: Statement, bad: isl.Set) -> Violation:
    program = exchange.program
    params, instance = soonest(program, half, bad)
    named, rank, peer = element_of(program, half, instance, params)
    others = exchange.sends if half.receives else exchange.receives
    other = others[0].handle if others else exchange.name
    if half.receives:
        witness = Witness(params, None, named)
        message = (
            f"{half.handle} receives {words(named)} on {rank_words(rank)}, but no {other} on {rank_words(peer)} sends "
            f"it to {rank_words(rank)}, {witness}"
        )
    else:
        witness = Witness(params, named, None)
        message = (
            f"{half.handle} sends {words(named)} from {rank_words(rank)} to {rank_words(peer)}, but no {other} "
            f"there receives it from {rank_words(rank)}, {witness}"
        )
    return Violation("communication", message, witness, repair=_agree(half, other))


def _agree(half: Statement, other: str) -> str:
    """The advice to make both halves agree."""
    return f"let {half.handle} and {other} name equal values, and each other's ranks (to=, source=)"


def _repeated(exchange: ExchangeHalves) -> Violation:
    """Some value goes over a channel several times: halves are lacking, or nothing tells which meets which."""
    found = uneven(exchange)
    if found is not None:
        return found
    send, receive = exchange.sends[0].handle, exchange.receives[0].handle
    message = (
        f"{send} sends, or {receive} receives, some value several times between the same two ranks, and it is not "
        "known which send meets which receive"
    )
    advice = f"let {send} and {receive} have loops of equal names for the repetitions, or share these loops"
    return Violation("unknown", message, Witness({}), repair=advice)


# -- sizes


def _sizes(exchange: ExchangeHalves) -> list[Violation]:
    """Messages whose elements arrive in several messages, or together with those of others."""
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
    first = exchange.halves[0]
    message = f"its messages are cut, or joined, by the parts of the other half of {exchange.name}"
    return [Violation("communication", f"{first.handle}: {message}", Witness({}))]


def _all_single(exchange: ExchangeHalves) -> bool:
    """Whether each element is a message of its own."""
    return all(exchange.program.host_depth(half) == len(half.loops) for half in exchange.halves)


def _several(exchange: ExchangeHalves, name: str, there: isl.Map) -> isl.Set:
    """The events that are related to more than one event."""
    twice = there.reverse().apply_range(there)
    apart = twice.subtract(sets.graph(sets.identity(twice.get_space().domain())))
    return there.intersect_range(apart.domain()).domain()


def _sized(exchange: ExchangeHalves, mine: str, theirs: str, there: isl.Map, several: isl.Set) -> Violation:
    program = exchange.program
    statement, other = program.statements[mine], program.statements[theirs]
    elements = sets.preimage(several, event_of(program, statement)).intersect(exchange.existing[mine])
    params, instance = soonest(program, statement, elements)
    named, rank, peer = element_of(program, statement, instance, params)
    event = smallest.singleton(several.get_space(), smallest.evaluated(event_of(program, statement), instance, params))
    all_of_it = sets.preimage(event, event_of(program, statement)).intersect(exchange.existing[mine])
    count = sets.count(sets.fixed(all_of_it, params))
    parts = sets.count(sets.fixed(event.apply(there), params))
    witness = Witness(params, None, named) if statement.receives else Witness(params, named, None)
    does, expects = ("expects", "sends") if statement.receives else ("sends", "expects")
    where = f"on {rank_words(rank)}, {'from' if statement.receives else 'to'} {rank_words(peer)}"
    each = " of one" if count == parts else ""
    message = (
        f"{statement.handle} {does} {count} elements in one message ({words(named)} is the first, {where}), but "
        f"{other.handle} {expects} {parts} messages{each} for them, {witness}"
    )
    advice = f"collapse the same loops of {statement.handle} and {other.handle}: collapse_many"
    return Violation("communication", message, witness, repair=advice)


# -- in the report


def _meet(program: Program) -> str:
    talking = ", ".join(dict.fromkeys(s.link.message.exchange for s in program.acting if s.link.message is not None))
    return f"every message of {talking} meets its receive, with the same values in the same order" if talking else ""


SENTENCES = (Sentence(Topic.MESSAGES, _meet),)


#: How many message elements all runs at small sizes may have in total.
MOST_ELEMENTS = 4_000


def uneven(exchange: ExchangeHalves) -> Violation | None:
    """A value that one half names more often than the other on its channel, at small sizes."""
    program, left = exchange.program, MOST_ELEMENTS
    instances = [exchange.existing[half.name] for half in exchange.halves]
    for params in small_params(program.context, relevant_params(instances, program.context)):
        fixed = {half.name: sets.fixed(exchange.existing[half.name], params) for half in exchange.halves}
        left -= 1 + sum(sets.count(one) for one in fixed.values())
        if left < 0:
            break
        sent, received = (_tally(exchange, halves, fixed, params) for halves in (exchange.sends, exchange.receives))
        for key in sorted(sent.keys() | received.keys()):
            if sent[key] != received[key]:
                return _too_few(exchange, key, sent[key], received[key], params)
    return None


def _tally(
    exchange: ExchangeHalves, halves: tuple[Statement, ...], fixed: dict[str, isl.Set], params: dict[str, int]
) -> Counter[tuple[int, ...]]:
    """How often each ``[channel, value]`` occurs in some halves."""
    found: Counter[tuple[int, ...]] = Counter()
    for half in halves:
        key = sets.joined(exchange.channel(half), exchange.program.value_of(half))
        pairs = sets.fixed_map(sets.graph(key), params).intersect_domain(fixed[half.name])
        size = sets.in_size(pairs)
        found.update(point[size:] for point in sets.points(sets.flat_pairs(pairs, half.name)))
    return found


def _too_few(
    exchange: ExchangeHalves, key: tuple[int, ...], sent: int, received: int, params: dict[str, int]
) -> Violation:
    axes, half = exchange.program.ranks.axes, exchange.sends[0]
    sender, receiver, named = key[:axes], key[axes : 2 * axes], (half.source, key[2 * axes :])
    witness = Witness(params, named, None) if sent > received else Witness(params, None, named)
    message = (
        f"{half.handle} sends {words(named)} {_times(sent)} from {rank_words(sender)} to {rank_words(receiver)}, "
        f"and {exchange.receives[0].handle} receives it {_times(received)}, {witness}"
    )
    return Violation("communication", message, witness, repair="send each value once, and receive it once")


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


# -- the order of messages and elements
#
# The order of messages on their channels, and of elements in their messages, is the same at both ends.


def crossed(exchange: ExchangeHalves) -> list[Violation]:
    """Pairs of elements that are received in another order than they are sent, on one channel."""
    assert exchange.meeting is not None
    moved, before, after = _moved(exchange, exchange.meeting)
    if moved is None:
        return []
    channel = 2 * exchange.program.ranks.axes
    sent = sets.equal_prefix(isl.Map.lex_lt(moved.get_space().domain()), channel)
    bad = sent.apply_domain(moved).apply_range(moved).intersect(isl.Map.lex_ge(moved.get_space().range()))
    return [] if bad.is_empty() else [_crossed(exchange, moved, before, after, bad)]


def _moved(
    exchange: ExchangeHalves, meeting: Pairs
) -> tuple[isl.Map | None, dict[str, isl.MultiAff], dict[str, isl.MultiAff]]:
    """``[channel, time of the send] -> [channel, time of the receive]``, and the functions to both."""
    before = _clocks(exchange, exchange.sends)
    after = _clocks(exchange, exchange.receives)
    parts = list[isl.Map]()
    for (send, receive), pairs in meeting.items():
        parts.append(pairs.apply_domain(sets.graph(before[send])).apply_range(sets.graph(after[receive])))
    moved = sets.united(parts)
    return (None if moved is None else moved.coalesce()), before, after


def _clocks(exchange: ExchangeHalves, halves: tuple[Statement, ...]) -> dict[str, isl.MultiAff]:
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
    exchange: ExchangeHalves,
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
    sender, receiver = one[: program.ranks.axes], one[program.ranks.axes : 2 * program.ranks.axes]
    send = exchange.sends[0].handle
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
    exchange: ExchangeHalves, after: dict[str, isl.MultiAff], key: tuple[int, ...], params: dict[str, int]
) -> tuple[Named, tuple[object, ...], str]:
    """The value that is received at ``[channel, time]``, the message it comes in, and the half that receives it."""
    program = exchange.program
    for half in exchange.receives:
        clock = after[half.name]
        there = sets.preimage(smallest.singleton(clock.get_space().range(), key), clock)
        here = sets.fixed(exchange.existing[half.name].intersect(there), params)
        if not here.is_empty():
            instance = smallest.first(here)
            event = smallest.evaluated(event_of(program, half), instance, params)
            return element_of(program, half, instance, params)[0], (half.name, event), half.handle
    raise AssertionError("a time at which nothing is received")
