"""Condition (c): of a reduction, every term is in it once, and only complete results leave it.

A *chain* is a place and a value: all partial results of one reduction that are kept there. Each chain is started
once, has every term once, has its start before all updates and all updates before every read of the result; nothing
else is stored there in between (`dependence.flow` has that). Then every partial result is consumed exactly once,
whatever the order of the updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import islpy as isl

from tiramisu_py import sets, smallest
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.soundness import indexed
from tiramisu_py.dependence.flow import Candidate, Flow
from tiramisu_py.dependence.touches import Touch
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.statement import Role
from tiramisu_py.proof.findings import Finding, words
from tiramisu_py.proof.repairs import order_repair
from tiramisu_py.proof.values import first_spot, one, reads_alike


def findings(flow: Flow) -> Iterator[Finding]:
    """Every way in which a reduction is not complete, or more than complete."""
    for name, computation in flow.touches.program.algorithm.computations.items():
        if computation.is_reduction:
            yield from _chains(flow, name, computation)
            yield from _unstarted(flow, name)
            yield from _early_readers(flow, name)


# -- every term once


@dataclass(frozen=True, eq=False)
class Chains:
    """The keys ``(place, point)`` of the starts and updates of a reduction in one buffer."""

    starts: list[tuple[Touch, isl.Map]]
    updates: list[tuple[Touch, isl.Map]]

    @property
    def touch(self) -> Touch:
        """One of the accesses."""
        return (self.updates or self.starts)[0][0]


def _chains(flow: Flow, name: str, c: Computation) -> Iterator[Finding]:
    for buffer, chains in _by_buffer(flow, name).items():
        for bad, what in _miscounted(flow, chains, c):
            violation = _counted_wrong(flow, chains, c, bad, what)
            yield Finding(violation, partial(_still_miscounted, name=name, c=c, buffer=buffer))
            break


def _still_miscounted(flow: Flow, name: str, c: Computation, buffer: str) -> bool:
    chains = _by_buffer(flow, name).get(buffer)
    return chains is not None and any(True for _ in _miscounted(flow, chains, c))


def _by_buffer(flow: Flow, name: str) -> dict[str, Chains]:
    found: dict[str, Chains] = {}
    for statement in flow.touches.program.statements_of(name):
        write = flow.touches.write(statement)
        if write is None:
            continue
        chains = found.setdefault(write.storage.buffer, Chains([], []))
        if statement.role is Role.INIT:
            chains.starts.append((write, _keys(write, write.value)))
        else:
            chains.updates.append((write, _keys(write, statement.point)))
    return found


def _keys(write: Touch, point: isl.MultiAff) -> isl.Map:
    return sets.graph(sets.joined(write.place, point), write.domain)


def _miscounted(flow: Flow, chains: Chains, c: Computation) -> Iterator[tuple[isl.Set, str]]:
    """The keys of what is done twice, left out, or done without need, each with its words."""
    needed = _needed(flow, chains, c)
    added = _union([m.range() for _, m in chains.updates], needed)
    counts = [(bad, "is started twice") for bad in _repeated([m for _, m in chains.starts])]
    counts += [(bad, "gets a term twice") for bad in _repeated([m for _, m in chains.updates])]
    counts += [(needed.subtract(added), "lacks a term"), (added.subtract(needed), "gets a term without a start")]
    yield from ((bad, what) for bad, what in counts if not bad.is_empty())


def _repeated(keys: list[isl.Map]) -> Iterator[isl.Set]:
    for mine in keys:
        if not mine.is_injective():
            pairs = mine.apply_range(mine.reverse())
            twice = pairs.subtract(isl.Map.identity(pairs.get_space()))
            yield twice.domain().apply(mine)
    for a, b in combinations(keys, 2):
        yield a.range().intersect(b.range())


def _union(listed: list[isl.Set], like: isl.Set) -> isl.Set:
    total = sets.empty(like.get_space())
    for found in listed:
        total = total.union(found)
    return total.coalesce()


def _needed(flow: Flow, chains: Chains, c: Computation) -> isl.Set:
    """``{ (place, point) : the chain (place, value of the point) is started }``."""
    place = sets.out_size(chains.touch.places)
    count = len(c.point_iterators)
    space = sets.sized_frame(flow.touches.program.algorithm.param_space, None, place + count)
    variables = sets.variables(space)
    chain = sets.function(space, None, variables[: place + len(c.iterators)])
    point = sets.function(space, c.name, variables[place:])
    points = sets.named(c.points, c.name).intersect_params(flow.touches.program.context.params())
    started = _union([m.range() for _, m in chains.starts], sets.empty(chain.get_space().range()))
    return sets.preimage(started, chain).intersect(sets.preimage(points, point))


def _counted_wrong(flow: Flow, chains: Chains, c: Computation, bad: isl.Set, what: str) -> Violation:
    params = smallest.smallest_params(bad)
    key = smallest.first(sets.fixed(bad, params))
    place = sets.out_size(chains.touch.places)
    point, scope = key[place:], len(chains.touch.buffer.scope)
    value = (c.name, point[: len(c.iterators)])
    witness = Witness(params, None, value, (chains.touch.buffer.name, key[scope:place]))
    over = ", ".join(f"{name} = {at}" for name, at in zip(c.over, point[len(c.iterators) :], strict=False))
    term = f" (the term {over})" if over else ""
    message = f"{words(value)} {what}{term}, {witness}"
    return Violation("reduction", message, witness)


# -- the start before the updates, the updates before the readers


def _unstarted(flow: Flow, name: str) -> Iterator[Finding]:
    for statement in flow.touches.program.statements_of(name):
        accumulator = flow.touches.accumulator(statement) if statement.role is Role.UPDATE else None
        if accumulator is None:
            continue
        bad = flow.unserved(accumulator)
        if not bad.is_empty():
            yield Finding(_not_started(flow, accumulator, bad), partial(_still_unstarted, name=name))


def _still_unstarted(flow: Flow, name: str) -> bool:
    return any(True for _ in _unstarted(flow, name))


def _not_started(flow: Flow, accumulator: Touch, bad: isl.Set) -> Violation:
    spot = first_spot(accumulator, bad)
    statement = accumulator.actor.statement
    assert statement is not None
    point = smallest.evaluated(statement.point, spot.at, spot.params)
    term = indexed("the term", point)
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    started = any(True for _ in flow.right(replace(accumulator, domain=one(accumulator, spot))))
    if started:
        message = f"another value is stored to {words(spot.element)} while {words(spot.named)} is made there, {witness}"
        return Violation("overwritten", message, witness, repair=f"keep {spot.named[0]} in a buffer of its own")
    message = f"{term} is added to {words(spot.named)} before that is started, {witness}"
    writers = flow.touches.writers(accumulator.storage.buffer)
    starts = [w for w in writers if w.role is Role.INIT and w.source == accumulator.source]
    return Violation("reduction", message, witness, repair=order_repair(flow, accumulator, starts))


def _early_readers(flow: Flow, name: str) -> Iterator[Finding]:
    for buffer in flow.touches.program.buffers:
        for read in flow.touches.readers(buffer):
            if read.source != name:
                continue
            late = list(late_updates(flow, read))
            if late:
                yield Finding(_incomplete(flow, read, late), partial(_still_early, read=read))


def _still_early(flow: Flow, read: Touch) -> bool:
    return any(True for other in reads_alike(flow, read) for _ in late_updates(flow, other))


def late_updates(flow: Flow, read: Touch) -> Iterator[Candidate]:
    """The updates that do not come before a read of the result of their chain, and the pairs ``read -> update``."""
    for update in flow.touches.writers(read.storage.buffer):
        if update.role is not Role.UPDATE or update.source != read.source or flow.precedence.always(update, read):
            continue
        chain = flow.one_chain(read, update)
        earlier = flow.precedence.before(update, read, chain.reverse())
        late = chain if earlier is None else chain.subtract(earlier.reverse())
        if not late.is_empty():
            yield Candidate(update, late)


def _incomplete(flow: Flow, read: Touch, late: list[Candidate]) -> Violation:
    bad = _union([candidate.pairs.domain() for candidate in late], read.domain)
    spot = first_spot(read, bad)
    reader = spot.computed(flow.touches.program)
    witness = Witness(spot.params, spot.named, reader, spot.element)
    message = f"{words(reader)} reads {words(spot.named)} before all of its terms are added, {witness}"
    return Violation("reduction", message, witness, repair=order_repair(flow, read, [c.write for c in late]))
