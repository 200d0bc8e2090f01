"""Exchanges: which sends meet which receives.

The *meeting* of an exchange pairs elements, ``send -> receive`` of one value on one channel (a pair of ranks); its
*messages* are the pairs of their events.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.messages.halves import event_of, executed, has_full_peers
from tiramisu_py.records import dataclass

#: Pairs of statements with a relation between their instances, or their events.
Pairs = dict[tuple[str, str], isl.Map]


@dataclass(frozen=True, eq=False)
class ExchangeHalves:
    """One exchange of a program: its sends and its receives (several of each where they were cut into parts)."""

    program: Program
    name: str
    sends: tuple[Statement, ...]
    receives: tuple[Statement, ...]

    @property
    def halves(self) -> tuple[Statement, ...]:
        """The sends, then the receives."""
        return (*self.sends, *self.receives)

    @cached_property
    def is_placed(self) -> bool:
        """Whether all ranks that take part exist."""
        if any(not has_full_peers(self.program, half) for half in self.halves):
            return False
        return all(executed(self.program, half).is_subset(self.existing[half.name]) for half in self.halves)

    @cached_property
    def existing(self) -> dict[str, isl.Set]:
        """The instances of each half that run on a rank of the grid, with a peer there."""
        found = {}
        for half in self.halves:
            assert half.link.message is not None and self.program.ranks.everyone is not None
            here = executed(self.program, half)
            for rank in (self.program.rank_of(half), half.link.message.peer):
                there = sets.preimage(self.program.ranks.everyone, rank)
                if not here.is_subset(there):  # the grid may have many pieces
                    here = here.intersect(there)
            found[half.name] = here
        return found

    def channel(self, half: Statement) -> isl.MultiAff:
        """``instance -> [rank that sends, rank that receives]``."""
        assert half.link.message is not None
        here = self.program.rank_of(half)
        return sets.joined(half.link.message.peer, here) if half.receives else sets.joined(here, half.link.message.peer)

    @cached_property
    def same_value(self) -> Pairs:
        """``send -> receive`` of one value on one channel."""
        found: Pairs = {}
        for send in self.sends:
            for receive in self.receives:
                if send.source == receive.source:
                    found[send.name, receive.name] = self._keys(send).apply_range(self._keys(receive).reverse())
        return found

    def _keys(self, half: Statement) -> isl.Map:
        key = sets.joined(self.channel(half), self.program.value_of(half))
        return sets.graph(key, self.existing[half.name])

    @cached_property
    def meeting(self) -> Pairs | None:
        """The pairs of `same_value`, one receive for each send; None where values repeat and nothing tells them apart.

        If a value is sent repeatedly, halves meet in equal iterations of the loops that they share, or of loops with
        equal names; that the messages are then in order is proven elsewhere.
        """
        pairs = self.same_value
        if _one_to_one(pairs):
            return pairs
        for narrowed in (self._narrowed(pairs, by_name=False), self._narrowed(pairs, by_name=True)):
            if _one_to_one(narrowed) and self._as_much(narrowed, pairs):
                return narrowed
        return None

    def _narrowed(self, pairs: Pairs, by_name: bool) -> Pairs:
        halves = {half.name: half for half in self.halves}
        found = {}
        for (send, receive), relation in pairs.items():
            first, second = self._common(halves[send], halves[receive], by_name)
            same = sets.graph(first).apply_range(sets.graph(second).reverse())
            found[send, receive] = relation.intersect(same)
        return found

    def _common(self, a: Statement, b: Statement, by_name: bool) -> tuple[isl.MultiAff, isl.MultiAff]:
        """The coordinates of the loops that two halves share, or that have equal names; rank loops are left out."""
        loops = self.program.loops
        if by_name:
            mine = {loops[loop].name: d for d, loop in enumerate(a.loops) if not loops[loop].is_rank}
            theirs = {loops[loop].name: d for d, loop in enumerate(b.loops) if not loops[loop].is_rank}
            depths = [(mine[name], theirs[name]) for name in mine if name in theirs]
        else:
            depths = [(d, d) for d in range(shared(a, b)) if not loops[a.loops[d]].is_rank]
        first, second = sets.outputs(a.coords), sets.outputs(b.coords)
        return (
            sets.function(a.frame, None, [first[d] for d, _ in depths]),
            sets.function(b.frame, None, [second[d] for _, d in depths]),
        )

    def _as_much(self, narrowed: Pairs, pairs: Pairs) -> bool:
        """Whether every instance with a partner in `pairs` still has one in `narrowed`."""
        return all(pairs[key].domain().is_subset(_domains(narrowed, key[0])) for key in pairs) and all(
            pairs[key].range().is_subset(_ranges(narrowed, key[1])) for key in pairs
        )

    def unmet(self, half: Statement) -> isl.Set:
        """The instances of a half whose value has no receive, or no send, on its channel."""
        left = self.existing[half.name]
        for (send, receive), pairs in self.same_value.items():
            if half.name in (send, receive):
                left = left.subtract(pairs.range() if half.name == receive else pairs.domain())
        return left.coalesce()

    @cached_property
    def messages(self) -> Pairs:
        """``event of a send -> event of a receive`` of messages with an element in common."""
        assert self.meeting is not None
        halves = {half.name: half for half in self.halves}
        found = {}
        for (send, receive), pairs in self.meeting.items():
            first, second = (sets.graph(event_of(self.program, halves[name])) for name in (send, receive))
            found[send, receive] = pairs.apply_domain(first).apply_range(second).coalesce()
        return found


def _domains(pairs: Pairs, send: str) -> isl.Set:
    return sets.union_of(relation.domain() for (name, _), relation in pairs.items() if name == send)


def _ranges(pairs: Pairs, receive: str) -> isl.Set:
    return sets.union_of(relation.range() for (_, name), relation in pairs.items() if name == receive)


def united(pairs: Pairs) -> isl.UnionMap | None:
    """The union of the relations; None if there are none."""
    return sets.united(isl.UnionMap.from_map(relation) for relation in pairs.values())


def _one_to_one(pairs: Pairs) -> bool:
    whole = united(pairs)
    return whole is None or bool(whole.coalesce().is_bijective())


def exchanges(flow: Flow) -> tuple[ExchangeHalves, ...]:
    """The exchanges of a program."""
    return flow.kept("exchanges", lambda: tuple(_exchanges(flow.accesses.program)))


def _exchanges(program: Program) -> Iterator[ExchangeHalves]:
    halves = [s for s in program.statements.values() if s.link.message is not None]
    for name in dict.fromkeys(half.link.message.exchange for half in halves if half.link.message is not None):
        mine = [half for half in halves if half.link.message is not None and half.link.message.exchange == name]
        sends = tuple(half for half in mine if half.role is Role.SEND)
        yield ExchangeHalves(program, name, sends, tuple(half for half in mine if half.role is not Role.SEND))
