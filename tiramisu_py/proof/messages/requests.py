"""A request is reused only when its previous message is complete, and no wait finds another message in it.

This concerns requests that the user chose; all others serve one message at a time by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.happens_before import Happens
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.messages import one_partner
from tiramisu_py.proof.messages.halves import element_of, soonest
from tiramisu_py.proof.violations.findings import Finding, Key, on_that_rank, wanted, words
from tiramisu_py.sets import smallest


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Messages that use a request while another one does, and waits that would complete a later message."""
    yield from one_partner.findings(flow, sought)
    for half in _chosen(flow.happens):
        if sought is None or sought.about[0] == half.name:
            again = _again(flow.happens, half)
            shared = list(_shared(flow, half, again))
            yield from shared
            if sought is not None or not shared:
                yield from _mistaken(flow, half, again, sought)


def _shared(flow: Flow, half: Statement, again: isl.Map) -> Iterator[Finding]:
    open_ = again
    if not again.is_empty():
        open_ = sets.without(again, flow.happens.after(half.name, half.name)).coalesce()
    if not open_.is_empty():
        yield Finding(Key("shared", (half.name,)), partial(_shared_request, flow, half, open_))


def _mistaken(flow: Flow, half: Statement, again: isl.Map, sought: Key | None) -> Iterator[Finding]:
    for wait in flow.happens.waits:
        key = Key("mistaken", (half.name, wait.name))
        if wanted(key, sought):
            late = _late(flow.happens, half, wait, again)
            if not late.is_empty():
                yield Finding(key, partial(_mistaken_request, flow, half, wait, late))


def _chosen(happens: Happens) -> list[Statement]:
    return [half for half in happens.messages if half.link.message is not None and half.link.message.slots is not None]


def _again(happens: Happens, half: Statement) -> isl.Map:
    """``time -> later time on the same rank`` of messages that use one request."""
    assert half.link.message is not None and half.link.message.slots is not None
    used = happens.times(half).reverse().apply_range(sets.graph(half.link.message.slots))
    return used.apply_range(used.reverse()).intersect(happens.later).coalesce()


def _late(happens: Happens, half: Statement, wait: Statement, again: isl.Map) -> isl.Map:
    """``message -> wait`` where the wait names another message, whose request this message uses by then.

    Messages that are complete by then, and those that the wait names too, are left out.
    """
    if again.is_empty() or all(half is not awaited for awaited in happens.program.awaited(wait)):
        return sets.no_pair(again)
    named = happens.awaited(wait, half)
    found = again.reverse().apply_range(named).intersect(happens.later).subtract(named)
    return sets.without(found, happens.after(half.name, half.name)).coalesce()


# -- in words


def _shared_request(flow: Flow, half: Statement, bad: isl.Map) -> Violation:
    program, happens = flow.accesses.program, flow.happens
    pairs = happens.times(half).apply_range(bad).apply_range(happens.times(half).reverse())
    params, late = soonest(program, half, pairs.range())
    before = pairs.intersect_range(smallest.alone(pairs.range(), late, params)).domain()
    early = soonest(program, half, before)[1]
    named, rank, _ = element_of(program, half, late, params)
    first, _, _ = element_of(program, half, early, params)
    witness = Witness(params, first, named)
    message = (
        f"{half.handle} of {words(named)} uses a request{on_that_rank(rank)} before the wait for {half.handle} of "
        f"{words(first)}, which uses it too, {witness}"
    )
    repair = f"wait for {half.handle} in between, or choose other requests in {half.handle}.set_wait_access"
    return Violation("race", message, witness, repair=repair)


def _mistaken_request(flow: Flow, half: Statement, wait: Statement, bad: isl.Map) -> Violation:
    program, happens = flow.accesses.program, flow.happens
    params, instance = soonest(program, half, bad.domain().apply(happens.times(half).reverse()))
    named, rank, _ = element_of(program, half, instance, params)
    witness = Witness(params, named, None)
    message = (
        f"{wait.name} would wait for {half.handle} of {words(named)}{on_that_rank(rank)}, which uses the request of "
        f"a message that {wait.name} names, {witness}"
    )
    repair = f"remove {wait.name}, or choose other requests in {half.handle}.set_wait_access"
    return Violation("race", message, witness, repair=repair)
