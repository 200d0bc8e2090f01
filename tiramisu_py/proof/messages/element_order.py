"""The order of messages on their channels, and of elements in their messages, is the same at both ends."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.messages.exchanges import ExchangeHalves, Pairs
from tiramisu_py.proof.messages.halves import element_of, event_of, local_time
from tiramisu_py.proof.violations.findings import Named, rank_words, words
from tiramisu_py.sets import smallest


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
