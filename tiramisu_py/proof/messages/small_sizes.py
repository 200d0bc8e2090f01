"""Exchanges at given sizes: small parameter values one after another, and a run with the strictest possible MPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import SendMode, Statement
from tiramisu_py.proof.messages.exchanges import ExchangeHalves, Pairs
from tiramisu_py.proof.messages.halves import events, static_times
from tiramisu_py.records import dataclass
from tiramisu_py.sets import smallest

#: How many messages and waits runs may have in total: at constant sizes; in the search for a deadlock before a proof
#: is tried; and in the search after the proof has failed.
MOST_OF_ONE, MOST_AT_FIRST, MOST_OF_ALL = 100_000, 100, 4_000

#: A statement, and the event of one of its messages or waits.
Act = tuple[str, tuple[int, ...]]


# -- small parameter values


def small_params(context: isl.Set, relevant: Sequence[str]) -> Iterator[dict[str, int]]:
    """Nonnegative parameter values of a context in the order of their sum; irrelevant ones are as small as possible.

    It ends when all values of the relevant parameters have been given.
    """
    context = context.intersect_params(sets.nonnegative(context.get_space()))
    others = [name for name in sets.params(context) if name not in relevant]
    values = sets.params_as_dims(sets.without_params(context, others))
    total = sets.constant(values.get_space(), 0)
    for variable in sets.variables(values.get_space()):
        total = total.add(variable)
    while not values.is_empty():
        least = sets.number(values.min_val(total))
        now = values.intersect(sets.within(total, least, least + 1))
        for point in sets.points(now):
            chosen = dict(zip(relevant, point, strict=True))
            yield smallest.smallest_params(_fixed_among(context, chosen)) if others else chosen
        values = values.subtract(now)


def _fixed_among(context: isl.Set, chosen: Mapping[str, int]) -> isl.Set:
    for name, value in chosen.items():
        context = sets.param_between(context, name, value, value)
    return context


def relevant_params(found: Sequence[isl.Set | isl.Map], context: isl.Set) -> list[str]:
    """The parameters on which some of the sets depend, given the context."""
    names: list[str] = []
    for one in found:
        names += sets.involved_params(one.gist_params(context.params()))
    return [name for name in sets.params(context) if name in names]


# -- a run


@dataclass(frozen=True)
class Stuck:
    """A rank that waits forever: in which act, and for which act of which rank."""

    rank: tuple[int, ...]
    act: Act
    needs: Act
    other: tuple[int, ...]


class Trial:
    """A run at given parameters in which MPI buffers nothing by itself: a send waits for its receive.

    MPI may do better, but never does worse. `awaited` gives ``event of a half -> event of a wait`` for it; `calls`
    gives ``event -> event`` of the same call on another rank, which must have begun too.
    """

    def __init__(
        self,
        program: Program,
        exchanges: Sequence[ExchangeHalves],
        awaited: Pairs,
        params: Mapping[str, int],
        calls: Mapping[str, isl.Map],
    ) -> None:
        self.program = program
        self.params = params
        self.partner: dict[Act, Act] = {}
        for exchange in exchanges:
            for key, relation in exchange.messages.items():
                for a, b in self._pairs(key, relation):
                    self.partner[a], self.partner[b] = b, a
        self.others: dict[Act, list[Act]] = {}
        for name, relation in calls.items():
            for a, b in self._pairs((name, name), relation):
                self.others.setdefault(a, []).append(b)
        self.calls = calls
        self.waits: dict[Act, list[Act]] = {}
        for key, relation in awaited.items():
            for half, wait in self._pairs(key, relation):
                self.waits.setdefault(wait, []).append(half)

    def _pairs(self, key: tuple[str, str], relation: isl.Map) -> list[tuple[Act, Act]]:
        count = sets.in_size(relation)
        fixed = sets.fixed(sets.flat_pairs(relation, "pairs"), self.params)
        return [((key[0], point[:count]), (key[1], point[count:])) for point in sets.points(fixed)]

    def run(self, acting: Sequence[Statement]) -> list[Stuck]:
        """The ranks that wait forever, in the order of their numbers; none if the run finishes."""
        todo = self._acts(acting)
        at = dict.fromkeys(todo, 0)
        begun: set[Act] = set()
        blocked: dict[Act, list[tuple[int, ...]]] = {}  # acts not begun yet, and the ranks that wait for them
        ready = list(todo)
        while ready:
            rank = ready.pop()
            while at[rank] < len(todo[rank]):
                act = todo[rank][at[rank]]
                begun.add(act)
                if act in blocked:
                    ready += blocked.pop(act)
                missing = self._missing(act, begun)
                if missing is not None:
                    blocked.setdefault(missing, []).append(rank)
                    break
                at[rank] += 1
        found = [(rank, missing) for missing, waiting in blocked.items() for rank in waiting]
        return [Stuck(r, todo[r][at[r]], missing, self._rank(missing)) for r, missing in sorted(found)]

    def _acts(self, acting: Sequence[Statement]) -> dict[tuple[int, ...], list[Act]]:
        """The acts of each rank, in the order of its time."""
        axes = self.program.ranks.axes
        timed: dict[tuple[int, ...], list[tuple[tuple[int, ...], Act]]] = {}
        for statement in acting:
            template = static_times(self.program, statement)
            for point in sets.points(sets.fixed(events(self.program, statement), self.params)):
                rest = iter(point[axes:])
                when = tuple(next(rest) if static is None else static for static in template)
                timed.setdefault(point[:axes], []).append((when, (statement.name, point)))
        return {rank: [act for _, act in sorted(found)] for rank, found in sorted(timed.items())}

    def _rank(self, act: Act) -> tuple[int, ...]:
        return act[1][: self.program.ranks.axes]

    def _missing(self, act: Act, begun: set[Act]) -> Act | None:
        """An act that has not begun, but must have before this one is complete; None if there is none."""
        statement = self.program.statements[act[0]]
        if act[0] in self.calls:
            return next((other for other in self.others.get(act, ()) if other not in begun), None)
        if statement.link.message is None:
            halves = [half for half in self.waits.get(act, ()) if half in begun]
        else:
            halves = [] if statement.link.message.asynchronous else [act]
        for half in halves:
            if waits_for_peer(self.program.statements[half[0]]) and self.partner[half] not in begun:
                return self.partner[half]
        return None


def waits_for_peer(half: Statement) -> bool:
    """Whether a half may be complete only when its peer has begun: all halves but sends in buffered mode."""
    assert half.link.message is not None
    return half.receives or half.link.message.mode is not SendMode.BUFFERED
