"""A message goes from one rank to one rank, and a persistent request always serves the same message.

The generated code relies on both: an MPI call names one other rank, and a persistent request fixes its elements, and
the rank at the other end, at its first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.request_numbers import outside, slots
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.proof.messages.halves import element_of, executed, soonest
from tiramisu_py.proof.violations.findings import Finding, Key, on_that_rank, rank_words, wanted, words


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Messages to several ranks at a time, and persistent requests that would be for several messages."""
    for half in flow.accesses.program.acting:
        if half.link.message is not None and not half.link.message.collective:
            found = (f for f in _of(flow.accesses.program, half) if wanted(f.key, sought))
            yield from islice(found, 1)


def _of(program: Program, half: Statement) -> Iterator[Finding]:
    """The faults of one half, a cause before its consequences."""
    several = _several(program, half)
    if not several.is_empty():
        yield Finding(Key("several ranks", (half.name,)), partial(_to_several, program, half, several))
    if half.link.message is not None and half.link.message.persistent:
        changing = _changing(program, half)
        if not changing.is_empty():
            yield Finding(Key("several messages", (half.name,)), partial(_not_the_same, program, half, changing))


# -- one other rank


def _several(program: Program, half: Statement) -> isl.Set:
    """The elements of messages that are for several ranks."""
    assert half.link.message is not None
    message = _on_rank(program, half, outside(program, half))
    peer = sets.graph(sets.renamed(half.link.message.peer, None), executed(program, half))
    peers = message.reverse().apply_range(peer)
    first = peers.lexmin()
    return message.apply_range(peers.subtract(first).domain().identity()).domain()


def _on_rank(program: Program, half: Statement, of: isl.Map) -> isl.Map:
    """The relation `of`, with the executing rank added to its range if the program is spread."""
    if not program.ranks.is_spread:
        return of
    return of.flat_range_product(sets.graph(program.rank_of(half), executed(program, half)))


def _to_several(program: Program, half: Statement, several: isl.Set) -> Violation:
    params, instance = soonest(program, half, several)
    named, rank, peer = element_of(program, half, instance, params)
    witness = Witness(params, named, None)
    message = (
        f"one message of {half.handle}{on_that_rank(rank)} is for {rank_words(peer)}, with {words(named)}, and for "
        f"other ranks too, {witness}"
    )
    repair = f"collapse in {half.handle}.collapse_many only loops inside of which the other rank is one"
    return Violation("communication", message, witness, repair=repair)


# -- one message


def _changing(program: Program, half: Statement) -> isl.Set:
    """The elements of messages whose request is used for other elements, or another rank, at another time."""
    assert half.link.message is not None
    storage = program.storage_for(half, half.source) if half.stores is False else program.storages[half.memory.target]
    instances = executed(program, half)
    if program.buffers[storage.buffer].scope:
        return instances
    message = outside(program, half)
    depth = program.host_depth(half)
    forms = sets.outputs(half.coords)[depth:]
    bulk = [form for form, loop in zip(forms, half.loops[depth:], strict=True) if not program.loops[loop].is_rank]
    what = [*sets.outputs(_element(program, half, storage)), *sets.outputs(half.link.message.peer), *bulk]
    elements = message.reverse().apply_range(sets.graph(sets.function(half.frame, None, what), instances))
    request = message.reverse().apply_range(_on_rank(program, half, message.apply_range(slots(program, half))))
    of_request = request.reverse().apply_range(elements)
    changing = request.apply_range(of_request).subtract(elements).domain()
    return message.intersect_range(changing).domain()


def _element(program: Program, half: Statement, storage: Storage) -> isl.MultiAff:
    frame = half.prefix(len(program.frame(storage)))
    return sets.compose(sets.joined(frame, program.value_of(half)), storage.index)


def _not_the_same(program: Program, half: Statement, changing: isl.Set) -> Violation:
    params, instance = soonest(program, half, changing)
    named, rank, _ = element_of(program, half, instance, params)
    witness = Witness(params, named, None)
    name = half.handle
    message = (
        f"{name} cannot be persistent: the request of the message with {words(named)}{on_that_rank(rank)} is used "
        f"for other elements, or another rank, at another time, {witness}"
    )
    repair = (
        f"where elements come round, as in rows t % 3 of a buffer, {name}.set_wait_access(t % 3) keeps a request for "
        "each place; otherwise leave tm.PERSISTENT out"
    )
    return Violation("communication", message, witness, repair=repair)
