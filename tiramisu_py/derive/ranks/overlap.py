"""Communication overlapped with work: instances that need no messages run while messages are in flight.

    receive, send, wait         -->   receive, send
    for r1 in 0..B: S[r1]             for r1 in 1..B - 1: S_interior[r1]
                                      wait
                                      S_boundary[0], S_boundary2[B - 1]

The boundary contains the iterations that read received values on any rank, so that it is at the same place in the
blocks of all ranks, in every iteration of the outer loops. If the interior would not be convex, the boundary is
extended to whole rows and columns. Work stays whole where a cut, or the new place of a part, would change the order of
two executions that depend on each other. That is asked of their accesses alone, without a limit on isl's operations.
An instruction on small matrices takes whole tiles, so that the boundary has whole ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.derive.dependences import Dependences
from tiramisu_py.derive.ranks.derive_exchanges import Exchanged
from tiramisu_py.derive.ranks.missing_values import keys
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import in_place_of, on_instances
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import LoopId, Rank, TensorLoop
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import foreseen
from tiramisu_py.program.statement import Statement

#: A boundary of more pieces than this is kept as one statement.
PIECES = 8


def overlapped(program: Program, exchanged: Sequence[Exchanged], command: str) -> Program:
    """The program with as many as possible of its exchanges overlapped with the work that does not need them."""
    for each in exchanged:
        program = _overlapped(program, each, command)
    return program


def _overlapped(program: Program, exchanged: Exchanged, command: str) -> Program:
    """The program with the first readers of the values exchanged at one place cut into interior and boundary."""
    loops = exchanged.meeting.loops
    for reader in _first_readers(program, exchanged):
        boundary = _boundary(program, exchanged, reader)
        interior = _interior(reader, boundary)
        if interior.is_empty():
            for name in _siblings(exchanged, reader):
                program = _between(program, exchanged, name, command) or program
        elif _is_alone(program, reader, len(loops)):
            cut, parts = _cut(program, reader, interior, boundary, loops)
            if Dependences(cut).allow_parts(parts, len(loops)):
                program = _between(cut, exchanged, parts[0], command) or program
    return program


def _first_readers(program: Program, exchanged: Exchanged) -> list[Statement]:
    """The readers right after the exchange; others may read what these compute."""
    meeting, before = exchanged.meeting, exchanged.program
    names = {placed.lack.reader.actor.name for placed in meeting.placed}
    readers = [before.statements[name] for name in names if name in before.statements]
    depth = len(meeting.loops)
    at = {s.name: before.positions[s.name][depth] for s in readers if s.loops[:depth] == meeting.loops}
    first = min(at.values(), default=0)
    return [program.statements[name] for name in at if at[name] == first and name in program.statements]


def _boundary(program: Program, exchanged: Exchanged, reader: Statement) -> list[isl.Set]:
    """The instances that read received values, on this or another rank, in this or another outer iteration."""
    found = sets.empty(reader.frame)
    spread_out = foreseen(program)
    for placed in exchanged.meeting.placed:
        access = placed.lack.reader
        if access.actor.name == reader.name:
            here = keys(spread_out, access).intersect_range(_received(exchanged, placed.lack.storage.name)).domain()
            instances = here.apply(sets.graph(access.instance))
            found = found.union(sets.named(sets.project_prefix(instances, len(reader.dims)), reader.name))
    coords = sets.graph(reader.coords, reader.instances)
    accessed = found.apply(coords)
    for depth, loop in enumerate(reader.loops):
        tag = program.loops[loop].tag
        if depth < len(exchanged.meeting.loops) or isinstance(tag, Rank | TensorLoop):
            accessed = sets.freed(accessed, depth)
    exact = _pieces(coords, accessed)
    if _is_simple(reader, exact):
        return exact
    slabs = [_slab(program, exchanged, reader, piece) for piece in sets.basic_sets(accessed.coalesce())]
    for rounded in (slabs, [sets.at_any_params(slab) for slab in slabs]) if slabs else ():
        wider = _pieces(coords, sets.union_of(rounded).coalesce())
        if _is_simple(reader, wider) or (reader.origin.part_of and _interior(reader, wider).is_empty()):
            return wider  # what is a part already stays in one piece
    return exact


def _pieces(coords: isl.Map, accessed: isl.Set) -> list[isl.Set]:
    """The instances whose coordinates are accessed, a set for each convex piece of these."""
    pieces = sets.basic_sets(accessed.coalesce())
    return [sets.plain(coords.intersect_range(piece).domain()) for piece in pieces]


def _interior(reader: Statement, boundary: list[isl.Set]) -> isl.Set:
    return sets.plain(reader.instances.subtract(sets.union_of(boundary).coalesce()) if boundary else reader.instances)


def _is_simple(reader: Statement, boundary: list[isl.Set]) -> bool:
    """Whether the interior is convex: loops over it have no guards."""
    return len(sets.basic_sets(_interior(reader, boundary))) == 1


def _slab(program: Program, exchanged: Exchanged, reader: Statement, accessed: isl.Set) -> isl.Set:
    """The slab of whole rows, or of whole columns if that is thinner, around the accessed instances."""
    first = len(exchanged.meeting.loops)
    inside = [d for d, loop in enumerate(reader.loops) if d >= first and not program.loops[loop].is_rank]
    at_any = sets.at_any_params(accessed)
    across = {d: side[1] - side[0] for d in inside if (side := sets.interval(at_any, d)) is not None}
    thin = min(across, key=lambda d: across[d], default=None)
    for depth in inside if thin is not None else ():
        accessed = accessed if depth == thin else sets.freed(accessed, depth)
    return accessed


def _received(exchanged: Exchanged, storage: str) -> isl.Set:
    """The keys that come in messages."""
    received = (traffic.route.domain() for traffic in exchanged.meeting.traffic if traffic.storage.name == storage)
    return sets.union_of(received).coalesce()


def _is_alone(program: Program, reader: Statement, depth: int) -> bool:
    """Whether a statement shares none of its loops inside the outermost `depth` ones."""
    return all(len(program.with_this_loop(loop)) == 1 for loop in reader.loops[depth:])


def _cut(
    program: Program, reader: Statement, interior: isl.Set, boundary: list[isl.Set], loops: tuple[LoopId, ...]
) -> tuple[Program, list[str]]:
    """The program with a statement cut into its interior and the pieces of its boundary, with their names."""
    outer = boundary if len(boundary) <= PIECES else [sets.union_of(boundary).coalesce()]
    parts: list[Statement] = []
    for word, piece in [("interior", interior), *(("boundary", piece) for piece in outer)]:
        name = free_name(program.with_statement(*parts), f"{reader.name}_{word}")
        own = []
        for old in reader.loops[len(loops) :]:
            fresh = replace(program.loops[old], id=program.next_loop())
            program = program.with_loop(fresh)
            own.append(fresh.id)
        parts.append(on_instances(reader, name, sets.named(piece, name), (*loops, *own)))
    return in_place_of(program, reader, parts), [part.name for part in parts]


def _siblings(exchanged: Exchanged, reader: Statement) -> list[str]:
    """Other parts of the reader's original statement, next to it, that read no exchanged values."""
    reading = {placed.lack.reader.actor.name for placed in exchanged.meeting.placed}
    loops = exchanged.meeting.loops
    return [
        s.name
        for s in exchanged.program.statements.values()
        if s.origin.part_of[-1:] == reader.origin.part_of[-1:] != ()
        and s.name not in reading
        and s.loops[: len(loops)] == loops
    ]


def _between(program: Program, exchanged: Exchanged, name: str, command: str) -> Program | None:
    """The program with a statement moved between the sends and the waits of a place; None if it has to stay."""
    loops, waits = exchanged.meeting.loops, exchanged.waits
    level = loops[-1] if loops else None
    kept = [order for order in program.orders if not (order.before in waits and order.after == name)]
    orders = [
        Order(exchanged.sends[-1], name, level, command, derived=True),
        Order(name, waits[0], level, command, derived=True),
    ]
    changed = program.with_(orders=(*kept, *orders))
    try:
        return changed if Dependences(program).allow_order(changed) else None
    except CommandError:  # orders that contradict each other
        return None
