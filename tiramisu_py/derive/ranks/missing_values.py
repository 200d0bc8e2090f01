"""Missing values of each rank: the values of a storage that it reads, and that only other ranks have.

Values are identified by *keys*, ``[coordinates of the rank, coordinates of the storage's frame, indices]``, without the
frame's loops over ranks. A *route* maps a missing value of a rank to a rank that has it: ``[rank, value] -> [rank of
the sender, value]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.counting.lattice_points import few_points
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.derive.ranks.form_collectives import takes_all
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Memory, Storage
from tiramisu_py.records import dataclass

#: The difference of the coordinates of two ranks, along each axis of the grid.
Distance = tuple[int, ...]

#: The maximum number of constant distances for which exchanges are made, unless a rank has more neighbours.
DISTANCES = 24
NEAR = 2


@dataclass(frozen=True, eq=False)
class Lack:
    """Missing values of a storage: `reader` reads them on a rank that does not have them; other ranks' `writers` do.

    The senders are at a constant `distance` (from the sender to the reader); None if there are several distances.
    """

    storage: Storage
    writers: tuple[MemoryAccess, ...]
    reader: MemoryAccess
    distance: Distance | None
    route: isl.Map


def lacks(program: Program, accesses: MemoryAccesses, together: bool = False) -> Iterator[Lack]:
    """The values that must be sent so that each rank has the values that it reads; the program is spread.

    With `together`, values sent from one rank to all others, from all others to one, or from all to all get no
    distance.

    Values on GPUs go through the host's memory, if that has an instance of the buffer.
    """
    for storage in program.storages.values():
        through_host = program.buffers[storage.buffer].memory in (Memory.HOST, Memory.PINNED)
        mine = [t for t in accesses.of_buffer(storage.buffer) if t.storage.name == storage.name]
        mine = [t for t in mine if t.device is None or through_host]
        writers = [t for t in mine if t.is_write]
        for reader in (t for t in mine if not t.is_write):
            yield from _of_reader(program, storage, writers, reader, together)


def _of_reader(
    program: Program, storage: Storage, writers: list[MemoryAccess], reader: MemoryAccess, together: bool
) -> Iterator[Lack]:
    if not writers:
        return
    missing = _values(program, [reader]).subtract(_complete(program, writers)).coalesce()
    groups = _groups([w for w in writers if w.actor.statement is None or not w.actor.statement.receives])
    there = [_complete(program, group) for group in groups]
    for distance, number, route in routes(program, missing, there, together):
        yield Lack(storage, groups[number], reader, distance, route)


def _groups(writers: list[MemoryAccess]) -> list[tuple[MemoryAccess, ...]]:
    """Groups of writers: all writers of a reduction together, since its value is complete after all, others alone."""
    reducing = tuple(w for w in writers if w.role in (Role.INIT, Role.UPDATE))
    return [(w,) for w in writers if w not in reducing] + ([reducing] if reducing else [])


def _complete(program: Program, writers: Sequence[MemoryAccess]) -> isl.Set:
    """The values that ranks have from some writers; a reduction's value is where its terms are added, or has none."""
    starts = [w for w in writers if w.role is Role.INIT]
    updates = [w for w in writers if w.role is Role.UPDATE]
    if not starts or not updates:
        return _values(program, list(writers))
    started = _values(program, starts)
    elsewhere = _meeting(started, _values(program, updates), program.ranks.axes).domain()
    return _values(program, [w for w in writers if w not in starts]).union(started.subtract(elsewhere)).coalesce()


def routes(
    program: Program, missing: isl.Set, there: list[isl.Set], together: bool = False
) -> Iterator[tuple[Distance | None, int, isl.Map]]:
    """The origins of missing values: distance, number of the set in `there` that has them, route; nearest first."""
    axes = program.ranks.axes
    if missing.is_empty() or not there:
        return
    all_routes = [_meeting(missing, have, axes) for have in there]
    distances = [] if together and takes_all(program, all_routes) else _distances(all_routes, axes)
    listed: list[Distance | None] = [*distances] or [None]
    for distance in listed:
        for number, have in enumerate(there):
            if distance is None:
                route = all_routes[number].intersect_domain(missing).lexmin()
            else:
                route = sets.graph(_moved(missing, distance), missing).intersect_range(have)
            if not route.is_empty():
                yield distance, number, route.coalesce()
                missing = missing.subtract(route.domain()).coalesce()


def _meeting(missing: isl.Set, have: isl.Set, axes: int) -> isl.Map:
    """``[rank, value] -> [other rank, value]``: all ranks that have a value."""
    value = sets.function(missing.get_space(), None, sets.variables(missing.get_space())[axes:])
    there = sets.function(have.get_space(), None, sets.variables(have.get_space())[axes:])
    return sets.graph(value, missing).apply_range(sets.graph(there, have).reverse())


def _distances(found: list[isl.Map], axes: int) -> list[Distance]:
    """The distances from sender to reader, the least first; none where there are too many to tell them apart."""
    parts = list[isl.Set]()
    for route in found:
        parts.append(sets.project_prefix(sets.at_any_params(route.reverse().deltas()), axes))
    apart = sets.union_of(parts)
    listed = few_points(apart.coalesce(), DISTANCES)
    if listed is None or (len(listed) > 3**axes - 1 and any(abs(x) > NEAR for point in listed for x in point)):
        return []
    return sorted(listed, key=lambda point: (sum(map(abs, point)), point))


def _moved(of: isl.Set, distance: Distance) -> isl.MultiAff:
    """``[rank, value] -> [rank - distance, value]``."""
    variables = sets.variables(of.get_space())
    senders = [sets.plus(x, -d) for x, d in zip(variables, distance, strict=False)]
    return sets.function(of.get_space(), None, [*senders, *variables[len(distance) :]])


# -- keys


def keys(program: Program, access: MemoryAccess) -> isl.Map:
    """``access -> [coordinates of the rank, of the storage's frame, indices]`` of the value that it names."""
    frame = coordinates(program, access, len(program.frame(access.storage)))
    return sets.graph(sets.joined(access.rank, frame, access.value), access.domain)


def coordinates(program: Program, access: MemoryAccess, depth: int) -> isl.MultiAff:
    """``access -> coordinates of its outermost loops``, without loops over ranks; no coordinates for the caller."""
    statement = access.actor.statement
    if statement is None or access.coords is None:
        return sets.function(access.domain.get_space(), None, [])
    forms = zip(statement.loops[:depth], sets.outputs(access.coords), strict=False)
    kept = [form for loop, form in forms if not program.loops[loop].is_rank]
    return sets.function(access.domain.get_space(), None, kept)


def _values(program: Program, accesses: list[MemoryAccess] | tuple[MemoryAccess, ...]) -> isl.Set:
    return sets.union_of(access.domain.apply(keys(program, access)) for access in accesses).coalesce()
