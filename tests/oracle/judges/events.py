"""What a program does at one size, as a list of events: when, where it reads which value, where it writes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tests.oracle.judges.plain import Point, function, integers, points
from tests.oracle.judges.values import Named, Values
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.program.loops import Loop, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Storage

#: A buffer, the iterations that own this copy of it, and an element.
Place = tuple[str, Point, Point]


class Misplaced(Exception):
    """A statement touches a buffer outside the loops that the buffer belongs to."""


@dataclass(frozen=True, eq=False)
class Event:
    """One execution of a statement.

    `reads` pairs each place that is loaded with the value that the algorithm names there; the accumulator of an
    update is not among them. `value` is what is stored at `target`.
    """

    statement: str
    role: Role
    instance: Point
    point: Point
    time: Point
    loops: tuple[Loop, ...]
    reads: tuple[tuple[Place, Named], ...]
    target: Place
    value: Named
    #: Of one element of a call over whole arrays: the call, and the source that it updates in place.
    call: tuple[str, Point] | None = None
    updated: str = ""

    def __str__(self) -> str:
        return f"{self.statement}{list(self.instance)}"


@dataclass(frozen=True, eq=False)
class Execution:
    """A program at given parameters."""

    program: Program
    params: Mapping[str, int]
    values: Values

    def events(self) -> list[Event]:
        """All executions of all statements; raises `Misplaced`."""
        return [event for statement in self.program.statements.values() for event in self._of(statement)]

    def _of(self, statement: Statement) -> list[Event]:
        point_of, coords_of = function(statement.point, self.params), function(statement.coords, self.params)
        loops = tuple(self.program.loops[loop] for loop in statement.loops)
        rank = self._rank(statement.source)
        found = []
        for instance in points(statement.instances, self.params):
            point, coords = point_of(instance), coords_of(instance)
            if statement.guards and not self.values.holds(statement.guards, self._names(statement, point)):
                continue
            value = (statement.source, point[:rank])
            reads = tuple(
                (self.place(statement, coords, self.program.storage_for(statement, source), index), (source, index))
                for source, index in self._named(statement, point)
            )
            target = self.place(statement, coords, self.program.storages[statement.memory.target], value[1])
            time = self._time(statement, coords)
            event = Event(statement.name, statement.role, instance, point, time, loops, reads, target, value)
            found.append(self._called(statement, event) if isinstance(statement.body, StageCall) else event)
        return found

    def _names(self, statement: Statement, point: Point) -> dict[str, int]:
        return self.values.names(self.program.algorithm.computations[statement.source], point)

    def _called(self, statement: Statement, event: Event) -> Event:
        """The event as an element of its call: those at one time are one call."""
        assert isinstance(statement.body, StageCall)
        updated = statement.body.updated
        return replace(event, call=(statement.name, event.time), updated="" if updated is None else updated.source)

    def _rank(self, source: str) -> int:
        algorithm = self.program.algorithm
        if source in algorithm.inputs:
            return len(algorithm.inputs[source].shape)
        return len(algorithm.computations[source].iterators)

    def _named(self, statement: Statement, point: Point) -> list[Named]:
        if statement.role is Role.COPY:
            return [(statement.source, point)]
        if statement.role is Role.INIT:
            return []
        computation = self.program.algorithm.computations[statement.source]
        return list(self.values.reads(computation, statement.body, point))

    def _time(self, statement: Statement, coords: Point) -> Point:
        statics = self.program.positions[statement.name]
        vector = [statics[0]]
        for dynamic, static in zip(coords, statics[1:], strict=True):
            vector += [dynamic, static]
        return tuple(vector + [0] * (self.program.time_size - len(vector)))

    def place(self, statement: Statement, coords: Point, storage: Storage, index: Point) -> Place:
        """Where a statement finds a value of a storage; raises `Misplaced`."""
        scope = self.program.buffers[storage.buffer].scope
        if statement.loops[: len(scope)] != scope:
            raise Misplaced(f"{statement.name} touches {storage.buffer} outside its scope")
        owner = coords[: len(scope)]
        return storage.buffer, owner, self._index[storage.name](owner + index)

    @cached_property
    def _index(self) -> dict[str, Callable[[Point], Point]]:
        """For each storage the function to the elements of its buffer."""
        return {name: function(storage.index, self.params) for name, storage in self.program.storages.items()}

    def inside(self, place: Place) -> bool:
        """Whether an element lies in its buffer."""
        buffer, _, element = place
        return all(0 <= i < n for i, n in zip(element, self._extents[buffer], strict=True))

    @cached_property
    def _extents(self) -> dict[str, Point]:
        return {name: integers(buffer.extents, self.params) for name, buffer in self.program.buffers.items()}

    def outside_any_loop(self, storage: str, index: Point) -> Place:
        """The place of a value as the caller sees it."""
        where = self.program.storages[storage]
        if self.program.buffers[where.buffer].scope:
            raise Misplaced(f"{storage} is kept inside a loop, where the caller cannot see it")
        return where.buffer, (), self._index[storage](index)


def misplaced(program: Program) -> bool:
    """Whether some statement names a buffer outside of its loops, if only in a branch that is never taken.

    A part that has no instance at any size names nothing.
    """
    for statement in (each for each in program.storing if not each.instances.is_empty()):
        read = {a.source for a in accesses(statement.body)} & set(program.storages)
        storages = [program.storages[statement.memory.target], *(program.storage_for(statement, name) for name in read)]
        if not all(program.in_scope(statement, storage) for storage in storages):
            return True
    return False


def parted(a: Event, b: Event) -> tuple[bool, Loop | None]:
    """Whether two events are ordered, and the loop at which they part if it is a loop (None at equal times)."""
    for position, (x, y) in enumerate(zip(a.time, b.time, strict=True)):
        if x != y:
            if position % 2 == 0:
                return True, None
            loop = a.loops[position // 2]
            return not loop.is_concurrent, loop
    return False, None


def in_strips(loop: Loop) -> bool:
    """Whether a loop's iterations run as strips of vectors in turn, none of them twice, and combine nothing."""
    tag = loop.tag
    return isinstance(tag, Vector) and tag.combine is None and tag.remainder != "overlap"


def loads_first(load: Event, store: Event) -> bool:
    """Whether a load precedes the store of another lane of a vector, on all lanes at once as well as lane by lane.

    Lane by lane it does if its lane is less. On all lanes at once, time is what it is without the lane, and what one
    statement stores at one time comes after all that it loads.
    """
    ordered, loop = parted(load, store)
    if ordered or loop is None or not in_strips(loop):
        return False
    at = next(k for k, (x, y) in enumerate(zip(load.time, store.time, strict=True)) if x != y)
    early, late = (event.time[:at] + event.time[at + 1 :] for event in (load, store))
    return load.time[at] < store.time[at] and (early < late or (early == late and load.statement == store.statement))


def linear(events: Sequence[Event], choice: random.Random | None = None, level: int = 0) -> list[Event]:
    """The events in order of time; with a `choice`, one of the orders that concurrent loops allow instead."""
    if choice is None:
        return sorted(events, key=lambda event: event.time)
    if not events or level == len(events[0].time):
        return choice.sample(events, len(events))
    groups: dict[int, list[Event]] = {}
    for event in events:
        groups.setdefault(event.time[level], []).append(event)
    parts = [linear(groups[key], choice, level + 1) for key in sorted(groups)]
    if level % 2 == 1 and len(parts) > 1 and events[0].loops[level // 2].is_concurrent:
        if not in_strips(events[0].loops[level // 2]):
            return _merged(parts, choice)
        if choice.random() < 0.5:  # each statement in all lanes, which are in order: of these, `loads_first` tells
            return sorted(events, key=lambda event: (event.time[:level], event.time[level + 1 :], event.time[level]))
    return [event for part in parts for event in part]


def _merged(parts: list[list[Event]], choice: random.Random) -> list[Event]:
    """A random interleaving that keeps the order within each part."""
    tickets = [index for index, part in enumerate(parts) for _ in part]
    choice.shuffle(tickets)
    remaining = [iter(part) for part in parts]
    return [next(remaining[ticket]) for ticket in tickets]
