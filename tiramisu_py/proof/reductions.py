"""Condition (c): of a reduction, every term is in it once, and only complete results leave it.

A *chain* is a place and a value: the partial results of one reduction that are kept there. Each chain is started once,
has every term once, has its start before all updates and all updates before every read of the result; nothing else is
stored there in between (`dependence.flow` has that). Then every partial result is consumed exactly once, whatever the
order of the updates.

Where values are recomputed in one place, a chain is also told apart by the iterations of the loops that starts and
updates share (its *generation*): lexicographic order keeps generations apart in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import islpy as isl

from tiramisu_py import sets, smallest
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.dependence.flow import Candidate, Flow
from tiramisu_py.dependence.touches import Touch
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.statement import Device, Role
from tiramisu_py.proof.findings import Finding, handle, words
from tiramisu_py.proof.repairs import onto_gpu, order_repair
from tiramisu_py.proof.values import first_spot, one, reads_alike


def findings(flow: Flow) -> Iterator[Finding]:
    """Every way in which a reduction is not complete, or more than complete."""
    for computation in flow.touches.program.algorithm.computations.values():
        if computation.is_reduction:
            chains = Chains(flow, computation)
            yield from _miscounted(chains)
            yield from _unstarted(chains)
            yield from _early_readers(chains)


@dataclass(frozen=True, eq=False)
class Miscount:
    """The keys ``(place, generation, point)`` of what is done twice, left out, or done without need."""

    keys: isl.Set
    what: str
    touch: Touch


class Chains:
    """The chains of one reduction in one program."""

    def __init__(self, flow: Flow, computation: Computation) -> None:
        self.flow = flow
        self.computation = computation
        found = flow.touches.program.statements_of(computation.name)
        writes = [w for w in map(flow.touches.write, found) if w is not None]
        self.starts = [w for w in writes if w.role is Role.INIT]
        self.updates = [w for w in writes if w.role is Role.UPDATE]
        self.points = {s.name: s.point for s in found}
        self.generation = 0
        common = min((shared(a, b) for a, b in combinations(found, 2)), default=0)
        if common and any(not bad.is_empty() for bad in self._repeated_starts(0)):
            self.generation = 0 if any(not bad.is_empty() for bad in self._repeated_starts(common)) else common

    # -- keys

    def key(self, write: Touch, generation: int, point: isl.MultiAff) -> isl.Map:
        """``instance -> [place, generation, point]``."""
        assert write.coords is not None
        return sets.graph(sets.joined(write.place, sets.prefix(write.coords, generation), point), write.domain)

    def same(self, a: Touch, b: Touch) -> isl.Map:
        """``a -> b`` of one chain."""
        pairs = self.flow.one_chain(a, b)
        if not self.generation:
            return pairs
        return pairs.intersect(a.prefix(self.generation).apply_range(b.prefix(self.generation).reverse()))

    def _repeated_starts(self, generation: int) -> list[isl.Set]:
        return [bad for group in self._by_buffer(self.starts) for bad in self._repeated_in(group, generation)]

    def _repeated_in(self, starts: list[Touch], generation: int) -> Iterator[isl.Set]:
        yield from _repeated([self.key(w, generation, w.value) for w in starts])

    @staticmethod
    def _by_buffer(writes: list[Touch]) -> list[list[Touch]]:
        names = dict.fromkeys(write.home for write in writes)
        return [[write for write in writes if write.home == name] for name in names]

    # -- every term once

    def miscounts(self) -> Iterator[Miscount]:
        """What is wrong with the number of starts and terms of the chains."""
        for group in self._by_buffer([*self.starts, *self.updates]):
            starts = [self.key(w, self.generation, w.value) for w in group if w.role is Role.INIT]
            updates = [self.key(w, self.generation, self._point(w)) for w in group if w.role is Role.UPDATE]
            needed = self._needed(group[0], starts)
            added = _union([m.range() for m in updates], needed)
            counts = [(bad, "is started twice") for bad in _repeated(starts)]
            counts += [(bad, "gets a term twice") for bad in _repeated(updates)]
            counts.append((needed.subtract(added), "lacks a term"))
            counts.append((added.subtract(needed), "gets a term without a start"))
            yield from (Miscount(bad, what, group[0]) for bad, what in counts if not bad.is_empty())

    def _point(self, write: Touch) -> isl.MultiAff:
        assert write.actor.statement is not None
        return write.actor.statement.point

    def _needed(self, write: Touch, starts: list[isl.Map]) -> isl.Set:
        """``{ [place, generation, point] : the chain [place, generation, value of the point] is started }``."""
        algorithm, c = self.flow.touches.program.algorithm, self.computation
        before = sets.out_size(write.places) + self.generation
        space = sets.sized_frame(algorithm.param_space, None, before + len(c.point_iterators))
        variables = sets.variables(space)
        chain = sets.function(space, None, variables[: before + len(c.iterators)])
        point = sets.function(space, c.name, variables[before:])
        points = sets.named(c.points, c.name).intersect_params(algorithm.context.params())
        started = _union([m.range() for m in starts], sets.empty(chain.get_space().range()))
        return sets.preimage(started, chain).intersect(sets.preimage(points, point))


def _repeated(keys: list[isl.Map]) -> Iterator[isl.Set]:
    """The keys that two instances have."""
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


def _again(flow: Flow, c: Computation) -> Chains:
    return Chains(flow, flow.touches.program.algorithm.computations[c.name])


def _miscounted(chains: Chains) -> Iterator[Finding]:
    for wrong in chains.miscounts():
        yield Finding(_counted_wrong(chains, wrong), partial(_still_miscounted, c=chains.computation))
        return


def _where(device: Device) -> str:
    return "the host" if device is None else f"GPU {device}"


def _still_miscounted(flow: Flow, c: Computation) -> bool:
    return any(True for _ in _again(flow, c).miscounts())


def _counted_wrong(chains: Chains, wrong: Miscount) -> Violation:
    c, touch = chains.computation, wrong.touch
    params = smallest.smallest_params(wrong.keys)
    key = smallest.first(sets.fixed(wrong.keys, params))
    place = sets.out_size(touch.places)
    point = key[place + chains.generation :]
    value = (c.name, point[: len(c.iterators)])
    witness = Witness(params, None, value, (touch.buffer.name, key[len(touch.buffer.scope) : place]))
    over = f" ({_term(c, point)})" if len(point) > len(c.iterators) else ""
    repair = _on_one_device(chains, touch)
    return Violation("reduction", f"{words(value)} {wrong.what}{over}, {witness}", witness, repair=repair)


def _on_one_device(chains: Chains, touch: Touch) -> str:
    """The repair of a chain that is started on one device and goes on on another; "" where none does."""
    own, others = (
        [w for w in (*chains.starts, *chains.updates) if w.buffer == touch.buffer and (w.home == touch.home) is here]
        for here in (True, False)
    )
    if {w.role for w in own} >= {Role.INIT, Role.UPDATE} or not others:
        return ""
    first, second = own[0].actor.statement, others[0].actor.statement
    assert first is not None and second is not None
    advice = (
        f"partial results are not transferred: run {handle(first)} (now on {_where(own[0].device)}) and "
        f"{handle(second)} (now on {_where(others[0].device)}) on one device"
    )
    command = onto_gpu(chains.flow, first, second) or onto_gpu(chains.flow, second, first)
    return f"{advice}: {command}" if command else advice


def _term(c: Computation, point: tuple[int, ...]) -> str:
    """A term in words: the values of the iterators that are reduced over."""
    inner = zip(c.over, point[len(c.iterators) :], strict=True)
    return f"the term {', '.join(f'{name} = {at}' for name, at in inner)}"


# -- the start before the updates


def _unstarted(chains: Chains) -> Iterator[Finding]:
    for update in chains.updates:
        bad = _without_start(chains, update)
        if not bad.is_empty():
            yield Finding(_not_started(chains, update, bad), partial(_still_unstarted, c=chains.computation))


def _still_unstarted(flow: Flow, c: Computation) -> bool:
    chains = _again(flow, c)
    return any(not _without_start(chains, update).is_empty() for update in chains.updates)


def _accumulator(chains: Chains, update: Touch) -> Touch:
    assert update.actor.statement is not None
    found = chains.flow.touches.accumulator(update.actor.statement)
    assert found is not None
    return found


def _without_start(chains: Chains, update: Touch) -> isl.Set:
    """The updates whose chain is not started before them, or is overwritten since."""
    flow, accumulator = chains.flow, _accumulator(chains, update)
    bad = flow.unserved(accumulator)
    for start in chains.starts if chains.generation else ():
        if start.home == update.home:
            own = chains.same(start, accumulator)
            earlier = flow.precedence.before(start, accumulator, own)
            bad = bad.union((own if earlier is None else own.subtract(earlier)).range())
    return bad


def _not_started(chains: Chains, update: Touch, bad: isl.Set) -> Violation:
    flow, accumulator = chains.flow, _accumulator(chains, update)
    spot = first_spot(accumulator, bad)
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    if any(True for _ in flow.right(replace(accumulator, domain=one(accumulator, spot)))):
        message = f"another value is stored to {words(spot.element)} while {words(spot.named)} is made there, {witness}"
        return Violation("overwritten", message, witness, repair=f"keep {spot.named[0]} in a buffer of its own")
    point = smallest.evaluated(chains.points[update.actor.name], spot.at, spot.params)
    term = _term(chains.computation, point)
    message = f"{term} is added to {words(spot.named)} before that is started, {witness}"
    starts = [start for start in chains.starts if start.home == update.home]
    repair = order_repair(flow, accumulator, starts) or _on_one_device(chains, update)
    return Violation("reduction", message, witness, repair=repair)


# -- the updates before the readers


def _early_readers(chains: Chains) -> Iterator[Finding]:
    for home in dict.fromkeys(update.home for update in chains.updates):
        for read in chains.flow.touches.readers(home):
            late = list(late_updates(chains, read))
            if late:
                found = partial(_still_early, c=chains.computation, read=read)
                yield Finding(_incomplete(chains.flow, read, late), found)


def _still_early(flow: Flow, c: Computation, read: Touch) -> bool:
    chains = _again(flow, c)
    return any(True for other in reads_alike(flow, read) for _ in late_updates(chains, other))


def late_updates(chains: Chains, read: Touch) -> Iterator[Candidate]:
    """The updates that do not come before a read of the result of their chain, and the pairs ``read -> update``."""
    flow = chains.flow
    for update in chains.updates:
        if update.source != read.source or update.home != read.home or flow.precedence.always(update, read):
            continue
        pairs = flow.one_chain(read, update)
        earlier = flow.precedence.before(update, read, pairs.reverse())
        late = pairs if earlier is None else pairs.subtract(earlier.reverse())
        late = late.subtract(_of_later_generations(chains, read, update)) if chains.generation else late
        if not late.is_empty():
            yield Candidate(update, late)


def _of_later_generations(chains: Chains, read: Touch, update: Touch) -> isl.Map:
    """``read -> update`` whose chain is only started after the read."""
    found = sets.no_pair(chains.flow.one_chain(read, update))
    for start in chains.starts:
        if start.home == read.home:
            later = chains.flow.precedence.before(read, start, chains.flow.one_chain(read, start))
            found = found if later is None else found.union(later.apply_range(chains.same(start, update)))
    return found


def _incomplete(flow: Flow, read: Touch, late: list[Candidate]) -> Violation:
    bad = _union([candidate.pairs.domain() for candidate in late], read.domain)
    spot = first_spot(read, bad)
    reader = spot.computed(flow.touches.program)
    witness = Witness(spot.params, spot.named, reader, spot.element)
    message = f"{words(reader)} reads {words(spot.named)} before all of its terms are added, {witness}"
    return Violation("reduction", message, witness, repair=order_repair(flow, read, [c.write for c in late]))
