"""The messages between ranks that a program needs: missing values, from the nearest rank that has them.

There is one exchange for each distance between ranks, ``bx_to_next`` and ``bx_to_previous`` between neighbours on a
line, ``bx_to_plus2``, ``bx_to_1_0`` or ``bx_to_minus1_1`` further off and on grids; if there is no constant distance
(a broadcast, a gather, a transposition) one exchange, ``bx_to_ranks``, loops over the peer ranks. The values that a
rank sends to another in one iteration of the outer loops are one message. Messages are concurrent: receives are
posted, then sends, and then all are waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.dimension_names import dimension_names
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.derive.ranks.exchange_placement import LinkTraffic, MeetingPoint, meetings
from tiramisu_py.derive.ranks.exchanges_of_blocks import with_block_exchanges
from tiramisu_py.derive.ranks.form_collectives import are_calls, as_collective
from tiramisu_py.derive.ranks.message_waits import waiting_for
from tiramisu_py.derive.ranks.missing_values import Distance, lacks
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import Bulk, Loop, Rank
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import axes, foreseen
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Link, MemoryUse, Message, Role, Statement
from tiramisu_py.program.statement_runs import conditions_of_message
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Exchanged:
    """A program with the messages of one place: receives, sends and waits, in their order, just before `readers`."""

    program: Program
    meeting: MeetingPoint
    receives: tuple[str, ...]
    sends: tuple[str, ...]
    waits: tuple[str, ...]


def with_exchanges(program: Program, command: str, together: bool = False) -> tuple[Program, list[Exchanged]]:
    """The program with the missing messages between ranks, and the statements added at each place.

    With `together`, exchanges that loop over ranks are collective calls if possible.
    """
    if told_ranks(program).unnumbered:
        return with_block_exchanges(program, command), []
    if not axes(program):
        return program, []
    spread_out = foreseen(program)
    found = []
    for meeting in meetings(spread_out, list(lacks(spread_out, MemoryAccesses(spread_out), together))):
        made = _exchanged(program, meeting, command, together)
        if made is not None:
            program = made.program
            found.append(made)
    return program, found


def name_of(storage: str, distance: Distance | None) -> str:
    """The name of an exchange over a distance."""
    if distance is None:
        return f"{storage}_to_ranks"
    if len(distance) == 1:
        (by,) = distance
        word = {1: "next", -1: "previous"}.get(by, f"plus{by}" if by > 0 else f"minus{-by}")
        return f"{storage}_to_{word}"
    return f"{storage}_to_{'_'.join(str(by) if by >= 0 else f'minus{-by}' for by in distance)}"


def _exchanged(program: Program, meeting: MeetingPoint, command: str, together: bool) -> Exchanged | None:
    before = program
    called: list[str] = []
    receives: list[str] = []
    sends: list[str] = []
    first = _first_reader(program, meeting)
    for traffic in meeting.traffic:
        name = free_name(program, name_of(traffic.storage.name, traffic.distance))
        is_call = together and traffic.distance is None
        roles = ((Role.SEND, called), (Role.COPY, called)) if is_call else ((Role.COPY, receives), (Role.SEND, sends))
        for role, made in roles:
            program, half = _half(program, meeting, traffic, name, role, command)
            program = program.with_statement_before(as_collective(half) if is_call else half, first)
            made.append(half.name)
    halves = [*receives, *sends]
    waits: list[str] = []
    for half_name in halves:
        wait = waiting_for(program, half_name, meeting.loops)
        program = program.with_statement_before(wait, first)
        waits.append(wait.name)
    ordered = _ordered(before, program, meeting, [*halves, *called, *waits], command)
    if called and (ordered is None or not are_calls(ordered, called)):
        return _exchanged(before, meeting, command, together=False)
    return None if ordered is None else Exchanged(ordered, meeting, tuple(receives), tuple(sends), tuple(waits))


def _first_reader(program: Program, meeting: MeetingPoint) -> list[str]:
    names = {p.lack.reader.actor.name for p in meeting.placed if p.lack.reader.actor.statement is not None}
    return [name for name in program.statements if name in names]


# -- one half


def _half(
    program: Program, meeting: MeetingPoint, traffic: LinkTraffic, exchange: str, role: Role, command: str
) -> tuple[Program, Statement]:
    """One half of an exchange: instances ``[loops shared, ranks, peers, indices]``."""
    source, count = traffic.storage.source, axes(program)
    moved = _moved(program, meeting, traffic, role)
    inside = {tag.axis: loop for loop in meeting.loops if isinstance(tag := program.loops[loop].tag, Rank)}
    own = [axis for axis in range(count) if axis not in inside]
    peers = count if traffic.distance is None else 0
    outside = len(meeting.loops) + len(own) + peers
    fixed = _following(program, meeting, moved, outside)
    names = [
        *(program.loops[loop].name for loop in meeting.loops),
        *(axis_name(program, axis) for axis in own),
        *("peer" if count == 1 else f"peer{axis}" for axis in range(peers)),
        *(name for k, name in enumerate(dimension_names(program.algorithm, source)) if k not in fixed),
    ]
    name, dims = free_name(program, f"{exchange}_{'send' if role is Role.SEND else 'receive'}"), distinct(names)
    forms = sets.variables(moved.get_space())
    kept = [*forms[:outside], *(form for k, form in enumerate(forms[outside:]) if k not in fixed)]
    instances = moved.apply(sets.graph(sets.function(moved.get_space(), name, kept)))
    instances = sets.with_dims(sets.plain(instances), dims)
    space, new = instances.get_space(), sets.variables(instances.get_space())
    own_values = iter(new[outside:])
    value = [
        sets.plus(new[fixed[k][0]], fixed[k][1]) if k in fixed else next(own_values)
        for k in range(len(forms) - outside)
    ]
    rank = {axis: new[meeting.loops.index(loop)] for axis, loop in inside.items()}
    rank |= {axis: new[len(meeting.loops) + k] for k, axis in enumerate(own)}
    peer = new[outside - peers : outside] if traffic.distance is None else _apart(traffic.distance, rank, role)
    number = program.next_loop()
    tags = [*(Rank(axis) for axis in own), *[None] * peers, *[Bulk()] * (len(dims) - outside)]
    loops = [
        Loop(number + k, dim, tag, command if tag else "")
        for k, (dim, tag) in enumerate(zip(dims[len(meeting.loops) :], tags, strict=True))
    ]
    declared, kept_in = program.algorithm.source(source), traffic.storage.name
    statement = Statement(
        name=name,
        source=source,
        role=role,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, source, value),
        loops=(*meeting.loops, *(loop.id for loop in loops)),
        coords=sets.renamed(sets.identity(space), None),
        body=Access(source, tuple(map(Iter, value_names(declared))), declared.dtype),
        memory=MemoryUse(target=kept_in, sources={} if kept_in == source else {source: kept_in}),
        guards=conditions_of_message(program, source),
        link=Link(message=Message(exchange, sets.function(space, None, peer), asynchronous=True)),
    )
    return program.with_loop(*loops), statement


def _moved(program: Program, meeting: MeetingPoint, traffic: LinkTraffic, role: Role) -> isl.Set:
    """The values that a half moves: ``[loops shared, coordinates of the rank on other axes, of the peer, indices]``.

    The peer is left out if it is at a constant distance.
    """
    count = axes(program)
    frame = sum(not program.loops[loop].is_rank for loop in program.frame(traffic.storage))
    pairs = sets.flat_pairs(traffic.route.flat_range_product(traffic.first), "")
    forms, size = sets.variables(pairs.get_space()), sets.in_size(traffic.route)
    reader, sender = forms[:count], forms[size : size + count]
    rank, peer = (sender, reader) if role is Role.SEND else (reader, sender)
    iteration, chosen, seen = iter(forms[2 * size :]), [], set()
    for loop in meeting.loops:
        tag = program.loops[loop].tag
        chosen.append(rank[tag.axis] if isinstance(tag, Rank) else next(iteration))
        seen |= {tag.axis} if isinstance(tag, Rank) else set()
    chosen += [form for axis, form in enumerate(rank) if axis not in seen]
    chosen += (peer if traffic.distance is None else []) + forms[count + frame : size]
    return sets.plain(pairs.apply(sets.graph(sets.function(pairs.get_space(), None, chosen))))


def _following(program: Program, meeting: MeetingPoint, moved: isl.Set, outside: int) -> dict[int, tuple[int, int]]:
    """The indices that are an iterator of the loops shared plus a constant: by number, the loop's and the constant."""
    found: dict[int, tuple[int, int]] = {}
    forms = sets.variables(moved.get_space())
    for k, index in enumerate(forms[outside:]):
        for depth, loop in enumerate(meeting.loops):
            if program.loops[loop].is_rank or k in found:
                continue
            apart = sets.function(moved.get_space(), None, [index.sub(forms[depth])])
            side = sets.interval(sets.at_any_params(moved.apply(sets.graph(apart))), 0)
            if side is not None and side[0] == side[1]:
                found[k] = (depth, side[0])
    return found


def _apart(distance: Distance, rank: Mapping[int, isl.Aff], role: Role) -> list[isl.Aff]:
    """The coordinates of the peer rank at a distance."""
    sign = 1 if role is Role.SEND else -1
    return [sets.plus(rank[axis], sign * by) for axis, by in enumerate(distance)]


def axis_name(program: Program, axis: int) -> str:
    """The name of the loops that run along an axis of the grid."""
    named = (loop.name for loop in program.loops.values() if isinstance(loop.tag, Rank) and loop.tag.axis == axis)
    return next(named, f"rank{axis}")


# -- order


def _ordered(
    before: Program, program: Program, meeting: MeetingPoint, block: Sequence[str], command: str
) -> Program | None:
    """The program with the statements of a block in their order and place; None if that reorders other statements."""
    level = meeting.loops[-1] if meeting.loops else None
    chain = [Order(a, b, level, command, derived=True) for a, b in pairwise(block)]
    for around in (_needed(before, meeting), _all(before, meeting)):
        orders = [Order(name, block[0], level, command, derived=True) for name in around[0]]
        orders += [Order(block[-1], name, level, command, derived=True) for name in around[1]]
        changed = program.with_(orders=(*program.orders, *chain, *orders))
        try:
            if same_order(before, changed):
                return changed
        except CommandError:
            continue
    return None


def _needed(program: Program, meeting: MeetingPoint) -> tuple[list[str], list[str]]:
    """The writers before a block, and the readers after it."""
    at = _children(program, meeting)
    writers = {w.actor.name for placed in meeting.placed for w in placed.lack.writers}
    readers = {placed.lack.reader.actor.name for placed in meeting.placed}
    return (
        [name for name in at if name in writers and at[name] < meeting.high],
        [name for name in at if name in readers and at[name] >= meeting.high],
    )


def _all(program: Program, meeting: MeetingPoint) -> tuple[list[str], list[str]]:
    """All statements before a block, and all statements after it."""
    at = _children(program, meeting)
    return [n for n in at if at[n] < meeting.high], [n for n in at if at[n] >= meeting.high]


def _children(program: Program, meeting: MeetingPoint) -> dict[str, int]:
    depth = len(meeting.loops)
    inside = [s for s in program.statements.values() if s.loops[:depth] == meeting.loops]
    return {s.name: program.positions[s.name][depth] for s in inside}


def same_order(before: Program, after: Program) -> bool:
    """Whether the statements of `before` have the same order in `program`."""
    return _sorted(before, before) == _sorted(before, after)


def _sorted(of: Program, by: Program) -> list[str]:
    return sorted(of.statements, key=lambda name: by.positions[name])
