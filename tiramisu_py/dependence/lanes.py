"""The order within a vector: reads that precede the stores of later lanes, however statements run on all lanes.

A vector loop on the host runs its strips one after another. Within a strip, each statement inside runs for all lanes
before the next one, all loads before the first store, or some statements together run lane by lane, the first lane
first. So a read comes before the store of a later lane if it does so in both ways:

    { store -> read : the same iterations around, lane of the read < lane of the store,
                      time of the read inside the lane <= time of the store inside its lane }

At equal times both are of one statement, which loads before it stores. Strips that overlap run lanes again, so they
promise nothing; nor do loops that combine partial results, kernels, and what is not a plain statement.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.loops import Loop, Vector
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory

#: The roles of statements that load, then store, in all lanes of a vector.
_PLAIN = (Role.VALUE, Role.INIT, Role.UPDATE, Role.COPY)


def keeps_order(program: Program, loop: Loop, store: MemoryAccess, read: MemoryAccess) -> bool:
    """Whether a loop is one of vectors in which some reads precede the stores of later lanes."""
    tag = loop.tag
    if not isinstance(tag, Vector) or tag.combine is not None or tag.remainder == "overlap":
        return False
    if not store.is_write or read.is_write or store.buffer.memory is not Memory.HOST:
        return False
    return all(each.actor.statement is not None and _is_plain(program, each.actor.statement) for each in (store, read))


def _is_plain(program: Program, statement: Statement) -> bool:
    plain = statement.role in _PLAIN and not statement.is_call and not statement.link.deferred
    return (
        plain
        and statement.link.message is None
        and statement.link.transfer is None
        and program.kernel_of(statement) is None
    )


def out_of_order(program: Program, store: MemoryAccess, read: MemoryAccess, depth: int) -> isl.Map:
    """The pairs ``store -> read`` in one iteration of the loops around a vector loop, but different lanes, of which the
    read may come after the store.
    """
    first, second = store.actor.statement, read.actor.statement
    assert first is not None and second is not None
    count = shared(first, second)
    before, after = store.prefix(count), read.prefix(count)
    space = before.get_space().range().map_from_set()
    alike = sets.equal_prefix(isl.Map.universe(space), depth)
    found, later = (
        sets.less_at(alike, depth),
        sets.greater_at(alike, depth),
    )  # the lane of the store is less, or greater
    for inside in range(depth + 1, count):
        found = found.union(sets.less_at(later, inside))
        later = sets.equal_at(later, inside)
    positions = program.positions
    if first is not second and positions[first.name][count] < positions[second.name][count]:
        found = found.union(later)
    return before.apply_range(found).apply_range(after.reverse())


def reading_ahead(program: Program) -> list[Loop]:
    """The vector loops in which a read precedes the store of another value to its place in a later lane."""
    vectors = {number for number, loop in program.loops.items() if isinstance(loop.tag, Vector)}
    statements = [statement for statement in program.storing if not vectors.isdisjoint(statement.loops)]
    accesses, found = MemoryAccesses(program), dict[int, Loop]()
    for stored, loaded in itertools.product(statements, statements):
        if vectors.isdisjoint(stored.loops[: shared(stored, loaded)]) or not _may_share(program, stored, loaded):
            continue
        store = accesses.write(stored)
        if store is None:
            continue
        for read, number in itertools.product(_reads(accesses, loaded), stored.loops[: shared(stored, loaded)]):
            depth, loop = stored.depth(number), program.loops[number]
            new = number not in found and depth >= len(store.buffer.scope) and read.home == store.home
            if new and keeps_order(program, loop, store, read) and _meet_ahead(store, read, depth):
                found[number] = loop
    return list(found.values())


def _may_share(program: Program, store: Statement, read: Statement) -> bool:
    """Whether a statement reads a buffer that another one, or itself, stores to."""
    buffer = program.storages[store.memory.target].buffer
    return any(program.storages[name].buffer == buffer for name in read.loads if name in program.storages)


def _reads(accesses: MemoryAccesses, statement: Statement) -> Iterator[MemoryAccess]:
    found = (accesses.read(statement, source) for source in accesses.sources(statement))
    return (read for read in found if read is not None)


def _meet_ahead(store: MemoryAccess, read: MemoryAccess, depth: int) -> bool:
    """Whether a later lane stores where an earlier one reads."""
    before, after = store.prefix(depth + 1), read.prefix(depth + 1)
    times = store.places.apply_range(read.places.reverse()).apply_domain(before).apply_range(after)
    return not sets.greater_at(sets.equal_prefix(times, depth), depth).is_empty()
