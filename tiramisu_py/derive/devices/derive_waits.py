"""The waits that a program needs: for operations that are otherwise not complete before their dependents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import Memory, MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.happens_before import Happens
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import foreseen
from tiramisu_py.program.statement import Statement, Waiting
from tiramisu_py.program.storage import Home
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.devices.place_waits import wait


@dataclass(frozen=True, eq=False)
class Completed:
    """A program with waits, and for each wait a test whether the program without it needs it."""

    program: Program
    lacking: dict[str, Callable[[Program], bool]]


def with_waits(program: Program, command: str, late: bool = False) -> Completed:
    """The program with waits for operations on which other sequences, the host, or the end of the function depend.

    A wait comes right after the operation, or, if `late`, just before the first dependent: in the same iteration of the
    host's loops, or in a later one. If a wait cannot be expressed, the conflict is left, and the proof reports it.
    """
    conflicts = Conflicts()
    lacking: dict[str, Callable[[Program], bool]] = {}
    done: set[tuple[str, str, Distance]] = set()
    while True:
        found = [c for c in conflicts.of(program) if (c.first.name, c.second.name, c.need) not in done]
        if not found:
            return _finished(program, command, late, lacking)
        chosen = _chosen(program, found, late)
        done.add((chosen.first.name, chosen.second.name, chosen.need))
        changed = _between(program, chosen, command, late)
        if changed is not None:
            (name,) = set(changed.statements) - set(program.statements)
            lacking[name] = partial(_is_unordered, conflicts, chosen.pair)
            program = changed


def _is_unordered(conflicts: Conflicts, pair: Pair, program: Program) -> bool:
    return any(True for _ in conflicts.of(program, frozenset([pair])))


def _chosen(program: Program, found: Sequence[DeviceConflict], late: bool) -> DeviceConflict:
    """The conflict with the earliest dependent.

    If waits are `late`, the one with the latest operation among these: operations before it are then complete too.
    """
    at = program.positions
    least = min(at[one.second.name] for one in found)
    earliest = [one for one in found if at[one.second.name] == least]
    return (max if late else min)(earliest, key=lambda one: (-one.need.later, at[one.first.name]))


def _between(program: Program, found: DeviceConflict, command: str, late: bool) -> Program | None:
    """The program with a wait for the first statement before the second, by the host or by the second's sequence."""
    first, second, need = found.first, found.second, found.need if late else found.need.at_once()
    queue, depth = program.queue_of(second), need.depth
    name = free_name(program, f"{first.name}_done")
    changed = _waited(program, name, first, need, queue, second)
    if changed is None:
        return None
    level = first.loops[depth - 1] if depth else None
    low, high = (program.positions[s.name][depth] for s in (first, second))
    orders = [] if need.later else [Order(first.name, name, level, command, derived=True)]
    if low < high or need.later:
        orders.append(Order(name, second.name, level, command, derived=True))
    if late:
        orders += [
            Order(s.name, name, level, command, derived=True)
            for s in _last(program, program.statements.values(), first, depth, high)
        ]
    return _ordered(changed, orders)


def _last(
    program: Program, among: Iterable[Statement], beside: Statement, depth: int, end: int | None = None
) -> list[Statement]:
    """The last statement in the same outermost loops as `beside`, before position `end` if that is given."""
    at = {s: program.positions[s.name][depth] for s in among if s.loops[:depth] == beside.loops[:depth]}
    return sorted((s for s in at if end is None or at[s] < end), key=lambda s: at[s])[-1:]


def _ordered(program: Program, orders: list[Order]) -> Program | None:
    """The program with additional orders; None if they contradict others."""
    changed = program.with_(orders=(*program.orders, *orders))
    try:
        return changed if changed.positions else None
    except CommandError:
        return None


def _waited(
    program: Program,
    name: str,
    operation: Statement,
    need: Distance,
    queue: tuple[int, int] | None,
    before: Statement | None = None,
) -> Program | None:
    """The program with a wait of the host (or of a sequence) for the operations started in an outer iteration.

    The wait is `need` iterations later, in iterations that contain `before`; None if there are no such iterations.
    """
    own, depth = program.queue_of(operation), need.depth
    on, device = (None, own) if queue is None else (queue[1], queue)
    assert device is not None
    program = wait(program, name, operation.name, [operation.name], None, on, device[0])
    if not depth:
        return program
    started = operation.instances.intersect_params(program.context.params())
    iterations = started.apply(sets.graph(sets.renamed(operation.prefix(depth), None)))
    later = sets.identity(iterations.get_space())
    if need.later:
        assert before is not None
        forms = sets.outputs(later)
        later = sets.function(iterations.get_space(), None, [*forms[:-1], sets.plus(forms[-1], need.later)])
        there = before.instances.intersect_params(program.context.params())
        reached = there.apply(sets.graph(sets.renamed(before.prefix(depth), None)))
        iterations = iterations.intersect(sets.preimage(reached, later))
    dims = distinct([program.loops[loop].name for loop in operation.loops[:depth]])
    instances = sets.with_dims(sets.named(iterations.coalesce(), name), dims)
    space = instances.get_space()
    waiting = program.statements[name]
    made = replace(
        waiting,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, None, []),
        loops=operation.loops[:depth],
        coords=sets.renamed(sets.from_frame(later, space), None),
        link=replace(waiting.link, waits=Waiting(operation.name, tuple(range(depth)), on, device[0], by_loop=True)),
    )
    return None if instances.is_empty() else program.with_statement(made)


# -- ends


def _finished(program: Program, command: str, late: bool, lacking: dict[str, Callable[[Program], bool]]) -> Completed:
    """The program with waits of the host for operations that may not be complete at the end.

    This is the end of the function, or, for operations on a buffer that is local to an iteration, the iteration's end.
    """
    done: set[tuple[str, int]] = set()
    while (last := _last_open(program, done)) is not None:
        statement, depth = last
        done.add((statement.name, depth))
        changed = _closed(program, statement, depth, command, late)
        if changed is not None:
            (name,) = set(changed.statements) - set(program.statements)
            lacking[name] = partial(_is_open, statement, depth)
            program = changed
    return Completed(program, lacking)


def _is_open(statement: Statement, depth: int, program: Program) -> bool:
    happens = Happens(foreseen(program))
    return not happens.unfinished(happens.program.statements[statement.name], depth).is_empty()


def _last_open(program: Program, done: set[tuple[str, int]]) -> tuple[Statement, int] | None:
    """The latest operation that may not be complete at an end, the innermost end first, with its number of loops."""
    happens = Happens(foreseen(program))
    operations = [program.statements[operation.name] for operation in happens.operations]
    found = [(s, 0) for s in operations] + (_scoped(program) if operations else [])
    left = [(s, depth) for s, depth in found if (s.name, depth) not in done]
    ranked = happens.program.statements
    open_ = [(s, depth) for s, depth in left if not happens.unfinished(ranked[s.name], depth).is_empty()]
    return max(open_, key=lambda pair: (pair[1], program.positions[pair[0].name]), default=None)


def _scoped(program: Program) -> list[tuple[Statement, int]]:
    """The operations on buffers that are local to an iteration of host loops, with the number of these loops."""
    accesses = MemoryAccesses(program)
    found: dict[tuple[str, int], Statement] = {}
    for buffer in program.buffers.values():
        for access in accesses.of_buffer(buffer.name) if buffer.scope else ():
            statement, depth = access.actor.statement, len(buffer.scope)
            if statement and program.queue_of(statement) is not None and depth <= program.host_depth(statement):
                found[statement.name, depth] = statement
    return [(statement, depth) for (_, depth), statement in found.items()]


def _closed(program: Program, last: Statement, depth: int, command: str, late: bool) -> Program | None:
    """The program with a wait of the host for an operation, after all others in the same loops.

    If waits are `late`, it comes after all statements there.
    """
    name = free_name(program, f"{last.name}_done")
    changed = _waited(program, name, last, Distance(depth), None)
    others = program.statements.values() if late else Happens(program).operations
    level = last.loops[depth - 1] if depth else None
    orders = [Order(s.name, name, level, command, derived=True) for s in _last(program, others, last, depth)]
    return None if changed is None else _ordered(changed, orders)


# -- dependences on operations without a wait: pairs of statements, and their distance


#: Two accesses, by what they access, and by the statement, the source and the kind of each.
Pair = tuple[Home, tuple[str, str, bool], tuple[str, str, bool]]


@dataclass(frozen=True)
class Distance:
    """The distance of a dependence: a number of iterations of the innermost of `depth` loops."""

    depth: int
    later: int = 0

    def at_once(self) -> Distance:
        """This distance with no iterations in between."""
        return Distance(self.depth)


@dataclass(frozen=True, eq=False)
class DeviceConflict:
    """Two dependent statements without a wait between them, with the least distance of the dependence."""

    first: Statement
    second: Statement
    need: Distance
    pair: Pair


def distance(pairs: isl.Map) -> Distance:
    """The least distance between iterations; in no pair does the second come before the first."""
    depth = sets.in_size(pairs)
    for position in range(depth):
        later = sets.least_distance(pairs, position)
        if later is None or later < 0:
            return Distance(position + 1)
        if later:
            return Distance(position + 1, later)
        pairs = sets.equal_at(pairs, position)
    return Distance(depth)


class Conflicts:
    """The conflicts of a program to which waits are added: ordered pairs stay ordered."""

    def __init__(self) -> None:
        self._memory: Memory = {}
        self._ordered: set[Pair] = set()

    def of(self, program: Program, only: frozenset[Pair] | None = None) -> Iterator[DeviceConflict]:
        """Pairs of statements with conflicting accesses in no guaranteed order; `only` the given ones, if any."""
        if not Happens(program).operations:
            return
        accesses = MemoryAccesses(foreseen(program), memory=self._memory)
        flow, happens = Flow(accesses), Happens(accesses.program)
        for x, y in _pairs(accesses):
            first, second = (program.statements[statement_of(access).name] for access in (x, y))
            pair = (x.home, _key(x), _key(y))
            if not _crosses(program, first, second) or (pair in self._ordered if only is None else pair not in only):
                continue
            unordered = happens.unordered(x, y, flow.same_place(x, y))
            if unordered.is_empty():
                self._ordered |= {pair} if only is None else set()
            else:
                depth = min(shared(first, second), program.host_depth(first), program.host_depth(second))
                iterations = unordered.apply_domain(x.prefix(depth)).apply_range(y.prefix(depth))
                yield DeviceConflict(first, second, distance(iterations), pair)


def _key(access: MemoryAccess) -> tuple[str, str, bool]:
    return (access.actor.name, access.source, access.is_write)


def _crosses(program: Program, first: Statement, second: Statement) -> bool:
    queue = program.queue_of(first)
    return queue is not None and queue != program.queue_of(second)


def _pairs(accesses: MemoryAccesses) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    for home in accesses.homes():
        writes = [t for t in accesses.writers(home) if t.actor.statement is not None]
        reads = [t for t in accesses.readers(home) if t.actor.statement is not None]
        for k, write in enumerate(writes):
            for other in (*reads, *writes[k + 1 :]):
                yield write, other
                yield other, write
