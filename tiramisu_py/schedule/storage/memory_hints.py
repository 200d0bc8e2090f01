"""Commands on how a statement accesses memory: non-temporal stores and prefetches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Ahead, NonTemporal, Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, loops_named, size, statements
from tiramisu_py.schedule.command_fields import Handle, OnStatements

#: Memory that the host does not reach through its caches.
_ELSEWHERE = {
    Memory.GPU: "the memory of a GPU",
    Memory.SHARED: "the shared memory of a GPU",
    Memory.REGISTER: "registers",
}
#: Bounds are below this.
_MOST_BYTES = 2**62


def _check(program: Program, statement: Statement) -> None:
    handle = statement.handle
    if not statement.stores:
        raise CommandError(f"{handle} stores nothing")
    if statement.receives:
        raise CommandError(f"{handle} receives a message, and MPI chooses how it is written to memory")
    if statement.link.transfer is not None or program.device_of(statement) is not None:
        raise CommandError(f"{handle} runs on a GPU: only stores of the host can go past its caches")
    if statement.role is Role.UPDATE:
        raise CommandError(
            f"{handle} reads what it stores: past the caches, each term would load the sum from memory again"
        )
    buffer = program.buffers[program.storages[statement.memory.target].buffer]
    if buffer.memory in _ELSEWHERE:
        raise CommandError(
            f"{handle} stores to {_ELSEWHERE[buffer.memory]}: there are no caches of the host on the way"
        )


def check_past_caches(program: Program, names: Sequence[str], into: Memory) -> None:
    """Refuse registers for values that are to be stored past the caches."""
    for statement in statements(program, names):
        if into is Memory.REGISTER and statement.memory.nontemporal is not None:
            raise CommandError(
                f"{statement.handle} stores past the caches to memory, not to registers: leave out "
                f"{statement.handle}.store_nontemporal()"
            )


# -- prefetches


def prefetch(program: Program, names: Sequence[str], read: str, wanted: str, distance: int, locality: int) -> Program:
    """Let statements prefetch the elements of `read` that they will read `distance` iterations of a loop later."""
    loops_named(program, names, wanted)
    found = False
    for statement in statements(program, names):
        for source in _sources(program, statement, read) if find(program, statement, wanted) is not None else ():
            found = True
            _check_prefetched(program, statement, source)
            _check_moves(program, statement, source, wanted)
            ahead = Ahead(source, wanted, distance, locality)
            others = (other for other in statement.memory.prefetches if (other.source, other.loop) != (source, wanted))
            changed = program.statements[statement.name]
            memory = replace(changed.memory, prefetches=(*others, ahead))
            program = program.with_statement(replace(changed, memory=memory))
    if not found:
        handles = ", ".join(statement.handle for statement in statements(program, names))
        raise CommandError(f"{handles} does not read {read} in a loop {wanted}: prefetch is for what the loop reads")
    return program


def _accesses(program: Program, statement: Statement) -> list[Access]:
    """The reads of a statement; an update reads what it adds to."""
    found = [part for root in (statement.body, *statement.guards) for part in walk(root) if isinstance(part, Access)]
    if statement.role is Role.UPDATE:
        own = program.algorithm.computations[statement.source]
        found.append(Access(own.name, tuple(map(Iter, own.iterators)), own.dtype))
    return found


def _sources(program: Program, statement: Statement, read: str) -> list[str]:
    """The sources that a statement reads under this name, which is their own or that of a copy."""
    if not statement.stores or statement.receives:
        return []
    found = dict.fromkeys(access.source for access in _accesses(program, statement))
    sources = [name for name in found if statement.memory.sources.get(name, name) in program.storages]  # no scalars
    return [name for name in sources if read in (name, program.storage_loaded(statement, name).name)]


def _check_prefetched(program: Program, statement: Statement, source: str) -> None:
    handle = statement.handle
    if statement.link.transfer is not None or program.device_of(statement) is not None:
        raise CommandError(f"{handle} runs on a GPU: only reads of the host can be prefetched")
    buffer = program.buffers[program.storage_loaded(statement, source).buffer]
    if buffer.memory in _ELSEWHERE:
        raise CommandError(f"{handle} reads {source} in {_ELSEWHERE[buffer.memory]}: there is nothing to prefetch")
    for access in _accesses(program, statement):
        values = [part for index in access.indices for part in walk(index) if isinstance(part, Access) and part.indices]
        if access.source == source and values:
            raise CommandError(
                f"{handle} reads {access}: its place depends on values, which are not loaded ahead of time"
            )


def _check_moves(program: Program, statement: Statement, source: str, wanted: str) -> None:
    """Refuse a loop that alone does not change the places read: the same elements would be prefetched again."""
    read = [access for access in _accesses(program, statement) if access.source == source]
    loops = [program.loops[loop].name for loop in statement.loops]
    moving = [name for depth, name in enumerate(loops) if _moves(program, statement, read, depth)]
    if wanted not in moving:
        others = f"; choose one of {', '.join(dict.fromkeys(moving))}" if moving else ""
        raise CommandError(f"{statement.handle} reads {read[0]}, which does not move with {wanted} alone{others}")


def _moves(program: Program, statement: Statement, read: Sequence[Access], depth: int) -> bool:
    used = {part.name for access in read for index in access.indices for part in walk(index) if isinstance(part, Iter)}
    point = zip(program.point_names(statement), sets.outputs(statement.point), strict=False)
    coords = sets.outputs(statement.coords)
    others = sets.function(statement.frame, None, [*coords[:depth], *coords[depth + 1 :]])
    places = sets.function(statement.frame, None, [form for name, form in point if name in used])
    return not sets.graph(others).reverse().apply_range(sets.graph(places)).is_single_valued()


# -- the commands as values


#: Keep in all caches.
MOST_LOCAL = 3


@dataclass(frozen=True, eq=False)
class StoreNontemporal(OnStatements):
    """Store results to memory past the caches, in calls whose arrays are too large for them.

    ::

        for r, for c in vectors:  -->   if the arrays have more than `above` bytes, and addresses fit:
            by[r, c] = ..                   for r, for c in vectors: by[r, c] = ..      (past the caches)
                                        else:
                                            for r, for c in vectors: by[r, c] = ..

    An ordinary store first reads its cache line from memory; a store past the caches only writes. This saves a
    third to a half of the time of loops that only stream through memory, and costs time if the arrays fit the
    caches. So the library contains both versions, and each call chooses: `above` (the bytes of all arrays of the
    caller that the function uses, together) is by default 3/4 of the last-level cache of the machine that it runs
    on (a virtual machine may see more than its cores can have, which is 48 MiB for each); the least of several
    bounds counts. ``above=0`` means whenever possible. Each thread makes sure that its stores have arrived before
    others continue.

    Stores of whole cache lines, of 64 bytes, are fast past the caches, and so are smaller vectors one after another.
    Of parts of a few lines in turn, such as 32 bytes of each of three planes, two iterations are taken together, and
    store line by line. Others, such as 32 bytes of each of eight rows, are stored as usual, since lines
    that leave a core in parts are several times as slow; `f.show("remarks")` names them. Vectors of 64 bytes, of twice
    the lanes, store lines on any processor. A loop that stores a line of each of several rows in turn, and computes
    each element from the same neighbours, begins at the first line of the array, wherever that is: the first and the
    last elements of a row, up to a line each, are stored as usual.

    Only whole vectors (of `vectorize`, 16 bytes and more) that begin at multiples of their size can be stored past
    the caches, and on x86, where one row is stored at a time, at multiples of 16 bytes, in parts. Each call checks
    this: rows must be multiples of a vector (of 16 bytes) long, and the array must begin at an address that makes
    the vectors aligned; otherwise all stores are ordinary. Results that a compiled function allocates begin at such
    addresses, and so do arrays of `Kernel.empty`; ``np.empty`` promises multiples of 16 alone. Code
    that is not vectorized, and the remaining iterations of vectors, use ordinary stores, and so does all code where
    neither GCC's x86 instructions nor Clang's non-temporal stores are available.

    Raises `CommandError` for updates of a reduction, which read what they store, for statements on GPUs, and for
    values in registers.
    """

    _: KW_ONLY
    above: int | None = None

    def applied(self, program: Program) -> Program:
        chosen = NonTemporal(None if self.above is None else _bound(self.above))
        for statement in statements(program, self.names(program)):
            _check(program, statement)
            program = program.with_statement(replace(statement, memory=replace(statement.memory, nontemporal=chosen)))
        return program


def _bound(above: int) -> int:
    """A number of bytes, which may be larger than other sizes are."""
    if isinstance(above, bool) or not isinstance(above, int) or not 0 <= above < _MOST_BYTES:
        return size(above, "above", 0)
    return above


@dataclass(frozen=True, eq=False)
class Prefetch(OnStatements):
    """Prefetch the elements that a later iteration of a loop will read, so that they are in the caches by then.

    ::

        for r, for c in vectors:  -->   for r, for c in vectors:
            by[r, c] = a[r, c] ..           prefetch a[r, c + 256]
                                            by[r, c] = a[r, c] ..       (prefetch(a, c, 256))

    Each iteration of `loop` prefetches the elements of `read` (an input, or a computation in memory) that will be read
    `distance` iterations later: one element of each cache line, and none in the remaining iterations of vectors. An
    update reads what it adds to: ``C.update.prefetch(C, i0, 1)`` loads the next tile of C early. `loop` is a loop of
    this computation; of two with one name, it is the inner one on which the access depends. The processor finds plain
    streams by itself; this is for many rows at once, strides, and the next block. `locality` ranges from 0, for
    elements needed once, to 3, for elements that should stay in all caches. Nothing is read, so addresses outside the
    array do no harm. Give the command when the loops are final: `check()` refuses a prefetch whose loop a later command
    removes. A second call for the same array and loop replaces the first.

    Raises `CommandError` if `read` is not read in such a loop, if the place read does not move with the loop (a
    computation at a consumer's loop moves with its own loops), for GPUs and registers, and if the indices depend on
    other values.
    """

    former = (("level", "loop"),)

    read: Handle
    loop: Iter
    distance: int = 4
    _: KW_ONLY
    locality: int = MOST_LOCAL

    def applied(self, program: Program) -> Program:
        locality, distance = self.locality, size(self.distance, "distance")
        if isinstance(locality, bool) or not isinstance(locality, int) or locality not in range(MOST_LOCAL + 1):
            raise CommandError(f"locality={locality!r}: choose 0 (not needed again soon) to 3 (keep in all caches)")
        if not isinstance(self.read, Handle):
            name = program.algorithm.name
            raise CommandError(
                f"{self.read!r} is neither an input nor a computation of {name}: give what the declaration gave back, "
                f"or {name}[name]"
            )
        return prefetch(program, self.names(program), self.read._named.name, loop_name(self.loop), distance, locality)
