"""Collective exchanges: the messages of one iteration of the loops that both halves share are one call of all ranks.

::

    for t:                                    for t:
        for p: send row p to rank p    -->        all ranks: send row p to each rank p, and receive row q from each
        for p: receive from rank p
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.loops import Loop, Rank
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Collective:
    """One collective exchange, and its halves (several of each where they were cut into parts)."""

    program: Program
    name: str
    sends: tuple[Statement, ...]
    receives: tuple[Statement, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it has one send and one receive."""
        return len(self.sends) == len(self.receives) == 1

    @property
    def send(self) -> Statement:
        """The send."""
        return self.sends[0]

    @property
    def receive(self) -> Statement:
        """The receive."""
        return self.receives[0]

    @property
    def depth(self) -> int:
        """The number of loops around a call: the host loops that both halves share."""
        host = (self.program.host_depth(half) for half in (self.send, self.receive))
        return min(shared(self.send, self.receive), *host)

    def call_of(self, half: Statement) -> isl.MultiAff:
        """``instance -> coordinates of the loops around the call``, without those of ranks."""
        forms = sets.outputs(half.coords)[: self.depth]
        kept = [f for f, loop in zip(forms, half.loops, strict=False) if not self.program.loops[loop].is_rank]
        return sets.function(half.frame, None, kept)

    @property
    def calls(self) -> isl.Set:
        """The iterations of the loops around in which some rank sends or receives: in these all ranks take part."""
        parts = [self._calls(half) for half in (self.send, self.receive)]
        return parts[0].union(parts[1]).coalesce()

    def _calls(self, half: Statement) -> isl.Set:
        executed = half.instances.intersect_params(self.program.context.params())
        return sets.plain(executed.apply(sets.graph(self.call_of(half))))


def collectives(program: Program) -> tuple[Collective, ...]:
    """The collective exchanges of a program."""
    halves = [s for s in program.acting if s.link.message is not None and s.link.message.collective]
    found = []
    for name in dict.fromkeys(half.link.message.exchange for half in halves if half.link.message is not None):
        mine = [half for half in halves if half.link.message is not None and half.link.message.exchange == name]
        sends = tuple(half for half in mine if half.role is Role.SEND)
        found.append(Collective(program, name, sends, tuple(half for half in mine if half.role is not Role.SEND)))
    return tuple(found)


def with_calls(program: Program, of: Sequence[Collective]) -> Program:
    """A spread program in which each exchange is one statement, with the name of its send: a call on every rank."""
    ranks = program.ranks.everyone
    assert ranks is not None
    for one in of:
        inside = {tag.axis for n in one.send.loops[: one.depth] if isinstance(tag := program.loops[n].tag, Rank)}
        missing = [axis for axis in range(program.ranks.axes) if axis not in inside]
        first = program.next_loop()
        loops = [Loop(first + k, f"rank{axis}", Rank(axis), added=True) for k, axis in enumerate(missing)]
        program = program.with_loop(*loops)
        made = issued(one, one.calls, ranks, missing)
        program = program.with_statement(replace(made, loops=(*made.loops, *(loop.id for loop in loops))))
    gone = {one.receive.name: one.send.name for one in of}
    kept = {name: s for name, s in program.statements.items() if name not in gone}
    return program.with_(statements=kept, orders=renamed(program.orders, gone))


def renamed(orders: Sequence[Order], names: Mapping[str, str]) -> tuple[Order, ...]:
    """The orders after some statements have been merged into others."""
    changed = (replace(o, before=names.get(o.before, o.before), after=names.get(o.after, o.after)) for o in orders)
    return tuple(order for order in changed if order.before != order.after)


def issued(one: Collective, calls: isl.Set, ranks: isl.Set, axes: Sequence[int] = ()) -> Statement:
    """The calls as a statement in the loops around, those over ranks at `ranks`; coordinates of `axes` come last."""
    program, send = one.program, one.send
    loops = send.loops[: one.depth]
    product = sets.flat_product(calls, ranks, None)
    forms, count = sets.variables(product.get_space()), sets.size(calls)
    free, rank, chosen = iter(forms[:count]), forms[count:], []
    for loop in loops:
        tag = program.loops[loop].tag
        chosen.append(rank[tag.axis] if isinstance(tag, Rank) else next(free))
    chosen += [rank[axis] for axis in axes]
    instances = product.apply(sets.graph(sets.function(product.get_space(), send.name, chosen)))
    names = [*(program.loops[loop].name for loop in loops), *(f"rank{axis}" for axis in axes)]
    instances = sets.with_dims(instances.coalesce(), tuple(f"{name}_{i}" for i, name in enumerate(names)))
    identity = sets.identity(instances.get_space())
    return replace(
        send,
        dims=tuple(f"{name}_{i}" for i, name in enumerate(names)),
        instances=instances,
        point=identity,
        loops=loops,
        coords=sets.renamed(identity, None),
    )
