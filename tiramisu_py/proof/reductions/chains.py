"""The chains of a reduction: which partial results are kept where, and how often each is started and added to.

An update adds one term. A merge adds the terms of all partial results that were combined for it: those of its own
place, and those of the places that the combination joined with it.

    terms = { merge -> point : an update of the point, where the merge reads, or at a place that is combined with it }

`proof.reductions.reductions` has the conditions on chains.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.ranks.combined_reductions import meetings
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Miscount:
    """The keys ``(place, generation, point)`` of starts or terms that are repeated, missing, or unneeded."""

    keys: isl.Set
    what: str
    access: MemoryAccess


class Chains:
    """The chains of one reduction in one program."""

    def __init__(self, flow: Flow, computation: Computation) -> None:
        self.flow = flow
        self.computation = computation
        found = flow.accesses.program.statements_of(computation.name)
        writes = [w for w in map(flow.accesses.write, found) if w is not None]
        self.starts = [w for w in writes if w.role is Role.INIT]
        self.updates = [w for w in writes if w.adds]
        self.combinations = _combinations(flow, computation)
        self.partials = {w.home for w in self.combinations}
        self._terms: dict[str, isl.Map] = {}
        homes = dict.fromkeys(w.home for w in self.updates)
        copied = [w for home in homes for w in flow.accesses.writers(home) if w.role is Role.COPY]
        self.copies = [w for w in copied if w.source == computation.name]
        self.generation = 0
        common = min((shared(a, b) for a, b in combinations(found, 2)), default=0)
        if common and any(not bad.is_empty() for bad in self._repeated_starts(0)):
            self.generation = 0 if any(not bad.is_empty() for bad in self._repeated_starts(common)) else common

    @classmethod
    def of(cls, flow: Flow, computation: Computation) -> Chains:
        """The chains of a reduction, found once for each dataflow."""
        return flow.kept(("chains", computation.name), lambda: cls(flow, computation))

    # -- terms

    def terms(self, update: MemoryAccess) -> isl.Map:
        """``instance -> point`` of the terms that an update, or a merge, adds."""
        statement = update.actor.statement
        assert statement is not None
        if statement.role is Role.UPDATE:
            return sets.graph(statement.point, update.domain)
        if statement.name not in self._terms:
            space = self.flow.accesses.program.algorithm.param_space
            points = sets.sized_frame(space, self.computation.name, len(self.computation.point_iterators))
            self._terms[statement.name] = found = sets.no_pairs(statement.frame, points)  # one merged into itself
            for one, consumed in self.consumed(statement):
                found = found.union(consumed.reverse().apply_range(self.terms(one)))
            self._terms[statement.name] = found.coalesce()
        return self._terms[statement.name]

    def consumed(self, merge: Statement) -> Iterator[tuple[MemoryAccess, isl.Map]]:
        """``update -> merge`` for all updates of the partial results that a statement merges into another one."""
        read = self.flow.accesses.read(merge, merge.source)
        for combination in self.combinations:
            if read is None or read.home != combination.home:
                continue
            own = self.flow.one_chain(read, combination)
            earlier = self.flow.precedence.before(combination, read, own.reverse())
            if earlier is None:
                continue
            met = combination.actor.statement
            assert met is not None
            merged = sets.graph(read.instance, read.domain).reverse().apply_range(earlier.reverse())
            together = merged.apply_range(meetings(self.flow.accesses.program, met)).coalesce()
            for update in self.updates:
                if update.home == combination.home:
                    into = self.flow.one_chain(update, combination).apply_range(together.reverse())
                    yield update, into.coalesce()  # hundreds of pieces where the ranks have several cases

    # -- keys

    def key(self, write: MemoryAccess, generation: int, point: isl.MultiAff) -> isl.Map:
        """``instance -> [place, generation, point]``."""
        assert write.coords is not None
        return sets.graph(sets.joined(write.place, sets.prefix(write.coords, generation), point), write.domain)

    def _keys_of_terms(self, update: MemoryAccess) -> isl.Map:
        """``instance -> [place, generation, point]`` of all terms that an update adds."""
        statement = update.actor.statement
        assert statement is not None and update.coords is not None
        if statement.role is Role.UPDATE:
            return self.key(update, self.generation, statement.point)
        at = sets.graph(sets.joined(update.place, sets.prefix(update.coords, self.generation)), update.domain)
        return sets.side_by_side(at, self.terms(update))

    def same(self, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
        """``a -> b`` of one chain."""
        pairs = self.flow.one_chain(a, b)
        if not self.generation:
            return pairs
        return pairs.intersect(a.prefix(self.generation).apply_range(b.prefix(self.generation).reverse()))

    def _repeated_starts(self, generation: int) -> list[isl.Set]:
        return [bad for group in self._by_buffer(self.starts) for bad in self._repeated_in(group, generation)]

    def _repeated_in(self, starts: list[MemoryAccess], generation: int) -> Iterator[isl.Set]:
        yield from _repeated([self.key(w, generation, w.value) for w in starts])

    @staticmethod
    def _by_buffer(writes: list[MemoryAccess]) -> list[list[MemoryAccess]]:
        names = dict.fromkeys(write.home for write in writes)
        return [[write for write in writes if write.home == name] for name in names]

    # -- every term once

    def miscounts(self) -> Iterator[Miscount]:
        """The chains that have a wrong number of starts or terms."""
        for group in self._by_buffer([*self.starts, *self.updates]):
            starts = [self.key(w, self.generation, w.value) for w in group if w.role is Role.INIT]
            updates = [self._keys_of_terms(w) for w in group if w.adds]
            needed = self._needed(group[0], starts)
            added = union_of([m.range() for m in updates], needed)
            counts = [(bad, "is started twice") for bad in _repeated(starts)]
            counts += [(bad, "gets a term twice") for bad in _repeated(updates)]
            lacking = needed.subtract(added)
            if group[0].home in self.partials:  # terms missing here are in other partial results: a merge has all
                lacking = sets.empty(lacking.get_space())
            if not lacking.is_empty():
                lacking = lacking.subtract(self._unused(group, starts, updates))
            counts.append((lacking, "lacks a term"))
            counts.append((added.subtract(needed), "gets a term without a start"))
            yield from (Miscount(bad, what, group[0]) for bad, what in counts if not bad.is_empty())

    def merged_again(self) -> Iterator[tuple[MemoryAccess, MemoryAccess, isl.Map]]:
        """``update -> update`` of updates that add one term to partial results that are merged together."""
        for merge in self.updates:
            statement = merge.actor.statement
            assert statement is not None
            consumed = list(self.consumed(statement)) if statement.role is Role.MERGE else []
            for k, (a, into) in enumerate(consumed):
                for b, other in consumed[k:]:
                    alike = self._of_one_term(a, b)
                    if not alike.is_empty():
                        pairs = into.apply_range(other.reverse()).intersect(alike)
                        if not pairs.is_empty():
                            yield a, b, pairs

    def _of_one_term(self, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
        """``update -> another update`` of those that add the same term."""
        terms, others = self.terms(a), self.terms(b)
        if a is b and terms.is_injective():
            return sets.no_pairs(a.domain.get_space(), b.domain.get_space())
        alike = terms.apply_range(others.reverse())
        return alike.subtract(sets.graph(sets.identity(a.domain.get_space()))) if a is b else alike

    def combined_again(self) -> Iterator[Miscount]:
        """The partial results that are combined more than once: ``(place, value)``."""
        for group in self._by_buffer(self.combinations):
            for bad in _repeated([self.key(w, 0, w.value) for w in group]):
                if not bad.is_empty():
                    yield Miscount(bad, "is combined twice", group[0])

    def _needed(self, write: MemoryAccess, starts: list[isl.Map]) -> isl.Set:
        """``{ [place, generation, point] : the chain [place, generation, value of the point] is started }``."""
        algorithm, c = self.flow.accesses.program.algorithm, self.computation
        chain, point = self._keys(write)
        points = sets.named(c.points, c.name).intersect_params(algorithm.context.params())
        started = union_of([m.range() for m in starts], sets.empty(chain.get_space().range()))
        return sets.preimage(started, chain).intersect(sets.preimage(points, point))

    def _keys(self, write: MemoryAccess) -> tuple[isl.MultiAff, isl.MultiAff]:
        """``[place, generation, point] -> [place, generation, value]``, and ``-> point``."""
        c = self.computation
        before = sets.out_size(write.places) + self.generation
        space = sets.sized_frame(
            self.flow.accesses.program.algorithm.param_space, None, before + len(c.point_iterators)
        )
        variables = sets.variables(space)
        chain = sets.function(space, None, variables[: before + len(c.iterators)])
        return chain, sets.function(space, c.name, variables[before:])

    def _unused(self, group: list[MemoryAccess], starts: list[isl.Map], updates: list[isl.Map]) -> isl.Set:
        """The keys of chains that a rank starts needlessly: no term is added there, and nothing reads them.

        A read of a value that a copy (a receive) has brought since is no read of the started chain.
        """
        chain, _ = self._keys(group[0])
        none = sets.empty(chain.get_space().domain())
        if self.generation or not group[0].ranks:
            return none
        used = union_of([m.range() for m in updates], none).apply(sets.graph(chain))
        for read in self.flow.accesses.readers(group[0].home):
            if read.source == self.computation.name:
                own = read.domain.subtract(self._brought(read))
                used = used.union(own.apply(sets.graph(sets.joined(read.place, read.value))))
        started = union_of([m.range() for m in starts], sets.empty(chain.get_space().range()))
        return sets.preimage(started.subtract(used), chain)

    def _brought(self, read: MemoryAccess) -> isl.Set:
        """The reads that come after a copy of the complete value, which came after the start."""
        flow = self.flow
        found = sets.empty(read.domain.get_space())
        starts = [start for start in self.starts if start.home == read.home]
        for copy in self.copies:
            if copy.home == read.home:
                before = flow.precedence.before(copy, read, flow.one_chain(copy, read))
                late = [flow.precedence.before(copy, start, flow.one_chain(copy, start)) for start in starts]
                if before is not None:
                    again = union_of([m.domain() for m in late if m is not None], before.domain())
                    found = found.union(before.subtract_domain(again).range())
        return found


def _repeated(keys: list[isl.Map]) -> Iterator[isl.Set]:
    """The keys that more than one instance has."""
    for mine in keys:
        if not mine.is_injective():
            pairs = mine.apply_range(mine.reverse())
            twice = pairs.subtract(isl.Map.identity(pairs.get_space()))
            yield twice.domain().apply(mine)
    for a, b in combinations(keys, 2):
        yield a.range().intersect(b.range())


def union_of(listed: list[isl.Set], like: isl.Set) -> isl.Set:
    return sets.union_of([sets.empty(like.get_space()), *listed]).coalesce()


def _combinations(flow: Flow, computation: Computation) -> list[MemoryAccess]:
    """The stores of the combinations of a reduction's partial results."""
    found = (s for s in flow.accesses.program.storing if s.role is Role.COMBINE and s.source == computation.name)
    return [w for w in map(flow.accesses.write, found) if w is not None]
