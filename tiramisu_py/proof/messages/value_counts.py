"""How often each value goes over each channel, at small sizes."""

from __future__ import annotations

from collections import Counter

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.messages.exchanges import ExchangeHalves
from tiramisu_py.proof.messages.small_sizes import relevant_params, small_params
from tiramisu_py.proof.violations.findings import rank_words, words

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
    axes, half = exchange.program.rank_axes, exchange.sends[0]
    sender, receiver, named = key[:axes], key[axes : 2 * axes], (half.source, key[2 * axes :])
    witness = Witness(params, named, None) if sent > received else Witness(params, None, named)
    message = (
        f"{half.handle} sends {words(named)} {_times(sent)} from {rank_words(sender)} to {rank_words(receiver)}, "
        f"and {exchange.receives[0].handle} receives it {_times(received)}, {witness}"
    )
    return Violation("communication", message, witness, repair="send each value once, and receive it once")


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
