"""The placement of messages between ranks: as far out as possible, and as many together as possible.

Missing values can be sent inside the outermost d loops that writers and reader share if no value is read in an earlier
iteration than the one that stores it, and if within one iteration the writer comes before the reader. Loops over ranks
do not count: ranks run side by side. Values are sent just before they are first read: in that iteration, in front of
the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.derive.ranks.missing_values import Distance, Lack, coordinates, keys
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Placed:
    """Missing values with the loops in which they are sent: after the child `low` of the innermost, before `high`."""

    lack: Lack
    loops: tuple[LoopId, ...]
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class LinkTraffic:
    """The values sent for a storage over one distance: ``[rank, value] -> [sender, value]``, and their first reads."""

    storage: Storage
    distance: Distance | None
    route: isl.Map
    first: isl.Map


@dataclass(frozen=True, eq=False)
class MeetingPoint:
    """The exchanges at one place of the program."""

    loops: tuple[LoopId, ...]
    high: float
    placed: tuple[Placed, ...]
    traffic: tuple[LinkTraffic, ...]


def meetings(program: Program, lacks: list[Lack]) -> list[MeetingPoint]:
    """The places where ranks exchange missing values; values without a legal place are left out."""
    found = [placed for lack in lacks if (placed := _placed(program, lack)) is not None]
    together = list(_together(program, found))
    sent: dict[str, isl.Set] = {}
    result = []
    for group in together:
        traffic = tuple(_traffic(program, group, sent))
        if traffic:
            result.append(MeetingPoint(group[0].loops, min(p.high for p in group), tuple(group), traffic))
    return result


# -- levels


def _placed(program: Program, lack: Lack) -> Placed | None:
    """Missing values with their place, as far out as is legal; None if there is no legal place."""
    least = len(program.frame(lack.storage))
    for depth in range(least, _deepest(program, lack) + 1):
        low = _after(program, lack, depth)
        if low is not None:
            reader = lack.reader.actor.statement
            loops = reader.loops[:depth] if reader is not None else ()
            return Placed(lack, loops, low, _position(program, lack.reader, depth))
    return None


def _deepest(program: Program, lack: Lack) -> int:
    """The number of loops that writers and reader share and that may contain messages."""
    reader = lack.reader.actor.statement
    if reader is None:
        return 0
    count = program.host_depth(reader)
    for writer in lack.writers:
        statement = writer.actor.statement
        count = min(count, 0 if statement is None else shared(statement, reader))
    inside = [program.loops[loop].is_concurrent for loop in reader.loops[:count]]
    return inside.index(True) if True in inside else count


def _after(program: Program, lack: Lack, depth: int) -> float | None:
    """The child of the innermost of `depth` loops after which values can be sent; None if there is none."""
    low = -inf
    for writer in lack.writers:
        times = _times(program, lack, writer, depth)
        space = times.get_space().domain()
        carried = times.is_subset(isl.Map.lex_lt(space))
        if not carried:
            at, until = (_position(program, access, depth) for access in (writer, lack.reader))
            if not times.is_subset(isl.Map.lex_le(space)) or not at < until:
                return None
            low = max(low, at)
    return low


def _times(program: Program, lack: Lack, writer: MemoryAccess, depth: int) -> isl.Map:
    """``iteration in which a value is stored -> iteration in which it is read``."""
    stored = lack.route.apply_range(_when(program, writer, depth))
    return stored.reverse().apply_range(_when(program, lack.reader, depth))


def _when(program: Program, access: MemoryAccess, depth: int) -> isl.Map:
    """``key -> iterations`` of the outermost loops, without those over ranks."""
    iterations = sets.graph(coordinates(program, access, depth), access.domain)
    return keys(program, access).reverse().apply_range(iterations).coalesce()


def _position(program: Program, access: MemoryAccess, depth: int) -> float:
    """The child of the innermost of `depth` loops that contains an access; the caller is before and after all."""
    statement = access.actor.statement
    if statement is None:
        return -inf if access.is_write else inf
    return program.positions[statement.name][depth]


# -- together


def _together(program: Program, found: list[Placed]) -> Iterator[list[Placed]]:
    """Groups of missing values that can be sent at one place: the minimum number of places, in program order."""
    by_loops: dict[tuple[LoopId, ...], list[Placed]] = {}
    for placed in found:
        by_loops.setdefault(placed.loops, []).append(placed)
    for loops in sorted(by_loops, key=lambda loops: (-len(loops), loops)):
        left = sorted(by_loops[loops], key=lambda placed: placed.high)
        while left:
            group = [placed for placed in left if placed.low < left[0].high]
            yield group
            left = [placed for placed in left if placed not in group]


def _traffic(program: Program, group: list[Placed], sent: dict[str, isl.Set]) -> Iterator[LinkTraffic]:
    """The values that a group exchanges, by storage and distance, without values sent before."""
    found: dict[tuple[str, Distance | None], LinkTraffic] = {}
    for placed in group:
        lack = placed.lack
        before = sent.get(lack.storage.name)
        route = lack.route if before is None else lack.route.subtract_domain(before)
        if route.is_empty():
            continue
        first = _when(program, lack.reader, len(placed.loops)).intersect_domain(route.domain())
        key = (lack.storage.name, lack.distance)
        known = found.get(key)
        if known is not None:
            route, first = route.union(known.route), first.union(known.first)
        found[key] = LinkTraffic(lack.storage, lack.distance, route, first)
    claimed: dict[str, isl.Set] = {}
    for (name, _), traffic in found.items():
        route = traffic.route if name not in claimed else traffic.route.subtract_domain(claimed[name])
        here = route.domain()
        claimed[name] = claimed[name].union(here).coalesce() if name in claimed else here
        first = traffic.first.intersect_domain(here).coalesce()
        first = first if first.is_single_valued() else first.lexmin()
        if not route.is_empty():
            yield replace(traffic, route=route.coalesce(), first=first)
    for name, here in claimed.items():
        sent[name] = sent[name].union(here).coalesce() if name in sent else here
