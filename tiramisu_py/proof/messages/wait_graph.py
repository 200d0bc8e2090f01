"""The graph of what ranks wait for, and rankings that show that it has no cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from itertools import product

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.messages.exchanges import ExchangeHalves, Pairs
from tiramisu_py.proof.messages.halves import earlier, event_of, events, executed
from tiramisu_py.proof.messages.small_sizes import (
    MOST_OF_ALL,
    Stuck,
    Trial,
    relevant_params,
    small_params,
    waits_for_peer,
)
from tiramisu_py.records import dataclass

#: Relations between statements that isl's scheduler is given at most: it counts no operations, so no budget ends it,
#: and its time grows much faster than their number (344 take 1 s, 1760 more than 10 minutes).
MOST_EDGES = 600


@dataclass(frozen=True, eq=False)
class Needs:
    """The needs of acts for one another in one program whose messages match."""

    program: Program
    exchanges: tuple[ExchangeHalves, ...]
    #: Calls in which all ranks take part, by name: ``event -> event`` of the same call on the other ranks.
    calls: Mapping[str, isl.Map] = field(default_factory=dict)

    @cached_property
    def halves(self) -> tuple[Statement, ...]:
        """The halves of all exchanges."""
        return tuple(half for e in self.exchanges for half in (*e.sends, *e.receives))

    @cached_property
    def waits(self) -> tuple[Statement, ...]:
        """The waits for halves."""
        found = (s for s in self.program.statements.values() if s.role is Role.WAIT)
        return tuple(s for s in found if any(half.link.message is not None for half in self.program.awaited(s)))

    @cached_property
    def acting(self) -> tuple[Statement, ...]:
        """Halves, waits, and calls of all ranks."""
        return (*self.halves, *self.waits, *(self.program.statements[name] for name in self.calls))

    @cached_property
    def awaited(self) -> Pairs:
        """``event of a half -> event of a wait`` that completes it: a later one on the same rank."""
        found: Pairs = {}
        for wait in self.waits:
            for half in self.program.awaited(wait):
                if half.link.message is not None and half.link.message.asynchronous:
                    named = _named(self.program, wait, half)
                    later = earlier(self.program, half, wait, one_rank=True)
                    found[half.name, wait.name] = named.intersect(later).coalesce()
        return found

    @cached_property
    def of_others(self) -> list[tuple[str, str, isl.Map]]:
        """``half that must have begun -> half or wait that needs it``, between halves that meet."""
        found = [(name, name, others) for name, others in self.calls.items()]
        for exchange in self.exchanges:
            for (send, receive), pairs in exchange.messages.items():
                for mine, other, relation in ((receive, send, pairs), (send, receive, pairs.reverse())):
                    found += [(other, end, needed) for end, needed in self._ends(mine, relation)]
        return [one for one in found if not one[2].is_empty()]

    def _ends(self, mine: str, needed: isl.Map) -> Iterator[tuple[str, isl.Map]]:
        """The statements at which a half is complete, each with ``half at the other end -> its event``."""
        half = self.program.statements[mine]
        assert half.link.message is not None
        if not waits_for_peer(half):
            return
        if not half.link.message.asynchronous:
            yield mine, needed
            return
        for (name, wait), relation in self.awaited.items():
            if name == mine:
                yield wait, needed.apply_range(relation)

    # -- local time as a ranking

    def is_local(self) -> bool:
        """Whether nothing needs something later in local time, which is then a ranking."""
        return all(not self._is_behind(first, end, needed) for first, end, needed in self.of_others)

    def _is_behind(self, first: str, end: str, needed: isl.Map) -> bool:
        statements = self.program.statements
        behind = earlier(self.program, statements[end], statements[first], one_rank=False).reverse()
        return not needed.is_disjoint(behind)

    # -- a ranking of isl's scheduler

    def has_ranking(self) -> bool:
        """Whether isl's scheduler finds a ranking, for all ranks together or with even and odd ranks apart."""
        return self.ranking is not None

    @cached_property
    def ranking(self) -> isl.UnionMap | None:
        """``event -> vector`` that the scheduler finds; None where it finds none."""
        return next((found for parts in self._partitions() if (found := self._ranking(parts)) is not None), None)

    def _partitions(self) -> Iterator[list[isl.Set]]:
        space = sets.sized_frame(self.program.algorithm.param_space, None, self.program.ranks.axes)
        yield [sets.universe(space)]
        if self.program.ranks.window:
            return  # the parity of a rank in the window is not that of its number
        halves = [
            [sets.within(sets.modulo(variable, 2), parity, parity + 1) for parity in range(2)]
            for variable in sets.variables(space)
        ]
        found = []
        for chosen in product(*halves):
            one = chosen[0]
            for other in chosen[1:]:
                one = one.intersect(other)
            found.append(one)
        yield found

    def _ranking(self, parts: list[isl.Set]) -> isl.UnionMap | None:
        nodes = self._nodes(parts)
        edges = self._edges().apply_domain(nodes).apply_range(nodes).coalesce()
        if edges.n_map() > MOST_EDGES:
            return None
        every = isl.UnionSet.empty(self.program.algorithm.param_space.params())
        for statement in self.acting:
            every = every.union(isl.UnionSet.from_set(events(self.program, statement)))
        edges = sets.without_union_params(edges, self.program.ranks.window)
        every = sets.without_union_params(every.apply(nodes), self.program.ranks.window)
        constraints = isl.ScheduleConstraints.on_domain(every).set_validity(_without_implied(edges))
        try:
            time = constraints.compute_schedule().get_map()
        except isl.Error as error:
            if "maximal number of operations" in str(error):
                raise
            return None
        return nodes.apply_range(time) if edges.intersect(time.lex_ge_union_map(time)).is_empty() else None

    def _edges(self) -> isl.UnionMap:
        found = isl.UnionMap.empty(self.program.algorithm.param_space.params())
        for a in self.acting:
            for b in self.acting:
                order = earlier(self.program, a, b, one_rank=True)
                order = order.intersect_domain(events(self.program, a)).intersect_range(events(self.program, b))
                found = found.union(isl.UnionMap.from_map(order))
        for first, end, needed in self.of_others:
            if first in self.calls:
                continue
            if (first, end) not in self._merged and (end, first) not in self._merged:
                found = found.union(isl.UnionMap.from_map(needed))
        return found

    @cached_property
    def _merged(self) -> Pairs:
        """``receive -> send`` of messages whose halves both block: these are one node."""
        found: Pairs = {}
        for exchange in self.exchanges:
            for (send, receive), pairs in exchange.messages.items():
                both = [self.program.statements[name] for name in (send, receive)]
                if all(
                    waits_for_peer(h) and h.link.message is not None and not h.link.message.asynchronous for h in both
                ):
                    found[receive, send] = pairs.reverse()
        return found

    def _nodes(self, parts: list[isl.Set]) -> isl.UnionMap:
        """``event -> node``: merged halves share a node; nodes of ranks in different `parts` have different names."""
        own = isl.UnionMap.empty(self.program.algorithm.param_space.params())
        merged = own
        for relation in self._merged.values():
            merged = merged.union(isl.UnionMap.from_map(relation))
        for statement in self.acting:
            here = events(self.program, statement)
            if statement.name in self.calls:
                own = own.union(isl.UnionMap.from_map(self._call(statement, here)))
                continue
            for number, part in enumerate(parts):
                mine = here.intersect(sets.extended(part, here.get_space()))
                same = sets.graph(sets.identity(here.get_space()), mine)
                named = sets.range_named(same, f"{statement.name}_part{number}")
                own = own.union(isl.UnionMap.from_map(named))
        return own.subtract_domain(merged.domain()).union(merged.apply_range(own))

    def _call(self, statement: Statement, here: isl.Set) -> isl.Map:
        """``event -> node`` of a call: one for all ranks that take part together."""
        axes = self.program.ranks.axes
        alike = isl.Map.universe(here.get_space().map_from_set())
        calls = self.calls[statement.name]
        kept = [d >= axes or calls.is_subset(sets.equal_at(alike, d)) for d in range(sets.size(here))]
        forms = [form for form, keeps in zip(sets.variables(here.get_space()), kept, strict=True) if keeps]
        return sets.graph(sets.function(here.get_space(), f"{statement.name}_call", forms), here)

    # -- runs at given sizes

    @cached_property
    def relevant(self) -> list[str]:
        """The parameters on which messages and waits depend."""
        found: list[isl.Set | isl.Map] = [events(self.program, statement) for statement in self.acting]
        found += [pairs for e in self.exchanges for pairs in e.messages.values()]
        found += list(self.calls.values())
        return relevant_params(found, self.program.context)

    @cached_property
    def is_small(self) -> bool:
        """Whether nothing depends on parameters, and a run is short."""
        params = next(small_params(self.program.context, self.relevant), None)
        return (
            not self.program.ranks.window and not self.relevant and (params is None or self.size(params) <= MOST_OF_ALL)
        )

    def size(self, params: dict[str, int]) -> int:
        """How many messages and waits there are at given sizes."""
        return sum(sets.count(sets.fixed(events(self.program, s), params)) for s in self.acting)

    def stuck(self, params: dict[str, int]) -> list[Stuck]:
        """The ranks that wait forever at given sizes."""
        return Trial(self.program, self.exchanges, self.awaited, params, self.calls).run(self.acting)


def _without_implied(edges: isl.UnionMap) -> isl.UnionMap:
    """Without the relations between two nodes that those left imply by way of a third, for isl's scheduler.

    Events of a rank are in a total order, so most are: of 468 relations 188 are left, and take 3 s instead of more than
    10 minutes.
    """
    left = {_between(edge): edge for edge in sets.maps_of(edges)}
    names = dict.fromkeys(name for pair in left for name in pair)
    for first, last in list(left):
        rest = left[first, last]
        for between in names:
            if between in (first, last) or first == last or rest.is_empty():
                continue
            if (first, between) in left and (between, last) in left:
                rest = rest.subtract(left[first, between].apply_range(left[between, last]))
        if rest.is_empty():
            del left[first, last]
    return sets.united(map(isl.UnionMap.from_map, left.values())) or edges


def _between(edge: isl.Map) -> tuple[str, str]:
    """The names of the nodes between which a relation is."""
    space = edge.get_space()
    return sets.tuple_name(space.domain()), sets.tuple_name(space.range())


def _named(program: Program, wait: Statement, half: Statement) -> isl.Map:
    """``event of a half -> event of a wait`` that names it, on the same rank."""
    assert wait.link.waits is not None
    told = program.told_apart(wait, half)
    rank = sets.outputs(program.rank_of(half))
    mine = sets.function(half.frame, None, [*rank, *told])
    theirs = [*sets.outputs(program.rank_of(wait)), *sets.variables(wait.frame)[: len(told)]]
    named = sets.graph(mine, executed(program, half))
    waited = sets.graph(sets.function(wait.frame, None, theirs), executed(program, wait))
    pairs = named.apply_range(waited.reverse())
    first, second = sets.graph(event_of(program, half)), sets.graph(event_of(program, wait))
    return pairs.apply_domain(first).apply_range(second).coalesce()
