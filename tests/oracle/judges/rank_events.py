"""What a program with ranks does at one size: who executes what, and which executions are one message.

The rules are those of the program's own vocabulary and nothing else. All instances are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from tests.oracle.judges.events import Execution, Misplaced, Place
from tests.oracle.judges.plain import Point, function, integers, points
from tests.oracle.judges.rank_acts import Act
from tests.oracle.judges.rank_sums import with_combinations
from tiramisu_py.program.loops import Bulk, Rank
from tiramisu_py.program.machine.distribution import Dealt
from tiramisu_py.program.statement import Role, SendMode, Statement
from tiramisu_py.program.storage import Storage

#: An exchange, the rank that sends, and the rank that receives.
Channel = tuple[str, Point, Point]


@dataclass(eq=False)
class Parcel:
    """One half of one message: its elements in order, when it is posted, and when it is complete (None: never).

    `number` counts the halves of its kind on its channel.
    """

    statement: Statement
    rank: Point
    peer: Point
    time: Point
    acts: list[Act] = field(default_factory=list)
    slot: Point | None = None
    number: int = -1
    done: Point | None = None

    @property
    def sends(self) -> bool:
        return self.statement.role is Role.SEND

    @property
    def asynchronous(self) -> bool:
        assert self.statement.link.message is not None
        return self.statement.link.message.asynchronous

    @property
    def buffered(self) -> bool:
        assert self.statement.link.message is not None
        return self.sends and self.statement.link.message.mode is SendMode.BUFFERED

    @property
    def channel(self) -> Channel:
        assert self.statement.link.message is not None
        ends = (self.rank, self.peer) if self.sends else (self.peer, self.rank)
        return (self.statement.link.message.exchange, *ends)

    def __str__(self) -> str:
        return f"{self.acts[0]} on {self.rank}"


@dataclass(eq=False)
class Wait:
    """One execution of a WAIT on a rank, and what it waits for."""

    statement: Statement
    rank: Point
    time: Point
    indices: Point
    parcels: list[Parcel] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.statement.name}{list(self.indices)} on {self.rank}"


@dataclass(frozen=True, eq=False)
class RankExecution(Execution):
    """A program on a grid of ranks, at given parameters."""

    # -- the grid

    @cached_property
    def grid(self) -> Point:
        """Its extents: as declared, or as many as loops and arrays need, and at least one rank."""
        program = self.program
        if program.ranks.grid:
            return integers(program.ranks.grid, self.params)
        axes = [loop.tag.axis + 1 for loop in program.loops.values() if isinstance(loop.tag, Rank)]
        axes += [len(distribution.axes) for distribution in program.ranks.distributions.values()]
        extents = [1] * max(axes, default=0)
        for statement in program.statements.values():
            for along in self._along(statement):
                for axis, coordinate in along.items():
                    extents[axis] = max(extents[axis], coordinate + 1)
        for source, distribution in program.ranks.distributions.items():
            buffer = program.buffers[program.storages[source].buffer]
            shape = [max(0, extent) for extent in integers(buffer.extents, self.params)]
            for axis, spread in enumerate(distribution.axes if all(shape) else ()):
                if isinstance(spread, Dealt):
                    extents[axis] = max(extents[axis], *(_owner(spread, i) + 1 for i in range(shape[spread.dim])))
                elif isinstance(spread, int):
                    extents[axis] = max(extents[axis], spread + 1)
        return tuple(extents)

    @cached_property
    def ranks(self) -> list[Point]:
        """The coordinates of all ranks."""
        return list(product(*map(range, self.grid)))

    def _along(self, statement: Statement) -> Iterator[dict[int, int]]:
        coords_of = function(statement.coords, self.params)
        for instance in points(statement.instances, self.params):
            yield self._coordinates(statement, coords_of(instance))

    def _coordinates(self, statement: Statement, coords: Point) -> dict[int, int]:
        """The rank coordinates that the loops of a statement give, by axis."""
        tags = [self.program.loops[loop].tag for loop in statement.loops]
        return {tag.axis: at for tag, at in zip(tags, coords, strict=True) if isinstance(tag, Rank)}

    def _executors(self, statement: Statement, coords: Point) -> Iterator[Point]:
        given = self._coordinates(statement, coords)
        for axis, at in given.items():
            if not 0 <= at < self.grid[axis]:
                raise Misplaced(f"{statement.name} runs on coordinate {at} of axis {axis}, where there is no rank")
        yield from product(*([given[axis]] if axis in given else range(n) for axis, n in enumerate(self.grid)))

    # -- executions

    def acts(self) -> list[Act]:
        """All executions that store or send; raises `Misplaced`."""
        own = (act for statement in self.program.acting for act in self._acts_of(statement))
        return list(with_combinations(self.program, self.grid, own))

    def inside(self, place: Place) -> bool:
        """Whether an element lies in its buffer; a partial result of a rank is in none."""
        return place[0] not in self.program.buffers or super().inside(place)

    def _acts_of(self, statement: Statement) -> Iterator[Act]:
        point_of, coords_of = function(statement.point, self.params), function(statement.coords, self.params)
        loops = tuple(self.program.loops[loop] for loop in statement.loops)
        count = self._rank(statement.source)
        for instance in points(statement.instances, self.params):
            point, coords = point_of(instance), coords_of(instance)
            if statement.guards and not self.values.holds(statement.guards, self._names(statement, point)):
                continue
            value = (statement.source, point[:count])
            reads = tuple(
                (self._at(statement, coords, self.program.storage_for(statement, source), index), (source, index))
                for source, index in self._loaded(statement, point)
            )
            sends = statement.role is Role.SEND
            storage = self.program.storages[statement.memory.target]
            target = reads[0][0] if sends else self._at(statement, coords, storage, value[1])
            for rank in self._executors(statement, coords):
                yield Act(
                    statement.name, statement.role, instance, point, self._time(statement, coords), loops, reads,
                    target, value, rank=rank,
                )  # fmt: skip

    def _loaded(self, statement: Statement, point: Point) -> list[tuple[str, Point]]:
        if statement.role is Role.SEND:
            return [(statement.source, point[: self._rank(statement.source)])]
        if statement.role is Role.COPY and statement.link.message is not None:
            return []
        return self._named(statement, point)

    def _at(self, statement: Statement, coords: Point, storage: Storage, index: Point) -> Place:
        """Where a statement finds a value in its rank's memory; raises `Misplaced`."""
        buffer = self.program.buffers[storage.buffer]
        frame = buffer.scope + storage.inner
        if statement.loops[: len(frame)] != frame:
            raise Misplaced(f"{statement.name} touches {storage.buffer} outside its scope")
        element = self._index[storage.name](coords[: len(frame)] + index)
        return storage.buffer, coords[: len(buffer.scope)], element

    # -- what the caller holds

    def holders(self, source: str, element: Point) -> list[Point]:
        """The ranks whose callers hold an element of an array of theirs."""
        distribution = self.program.ranks.distributions.get(source)
        found = self.ranks
        for axis, spread in enumerate(distribution.axes if distribution is not None else ()):
            if isinstance(spread, Dealt):
                found = [rank for rank in found if rank[axis] == _owner(spread, element[spread.dim])]
            elif spread is not None:
                found = [rank for rank in found if rank[axis] == spread]
        return found

    # -- messages

    def parcels(self, acts: list[Act]) -> list[Parcel]:
        """All halves of messages, in order of time on each rank, numbered on their channels; raises `Misplaced`."""
        found: dict[tuple[str, Point, Point], Parcel] = {}
        for act in sorted(acts, key=lambda act: act.time):
            statement = self.program.statements[act.statement]
            message = statement.link.message
            if message is None:
                continue
            depth = next((d for d, loop in enumerate(act.loops) if isinstance(loop.tag, Bulk)), len(statement.loops))
            if any(loop.is_concurrent for loop in act.loops):
                raise Misplaced(f"{act} communicates inside a concurrent loop")
            if not all(isinstance(loop.tag, Bulk) for loop in act.loops[depth:]):
                raise Misplaced(f"{act} is collapsed to a message that another loop is inside of")
            time = act.time[: 2 * depth + 1]
            padded = time + (0,) * (len(act.time) - len(time))
            peer = function(message.peer, self.params)(act.instance)
            slot = None if message.slots is None else function(message.slots, self.params)(act.instance)
            parcel = found.setdefault((statement.name, act.rank, time), Parcel(statement, act.rank, peer, padded))
            parcel.slot = slot
            if parcel.peer != peer:
                raise Misplaced(f"{parcel} is one message to or from {parcel.peer} and {peer}")
            parcel.acts.append(act)
        numbers: dict[tuple[Channel, bool], int] = {}
        for parcel in sorted(found.values(), key=lambda parcel: parcel.time):
            key = (parcel.channel, parcel.sends)
            parcel.number = numbers.get(key, 0)
            numbers[key] = parcel.number + 1
            if not parcel.asynchronous:
                parcel.done = parcel.time
        return list(found.values())

    def waits(self, parcels: list[Parcel]) -> list[Wait]:
        """All executions of waits on all ranks, with the messages that they name."""
        found = []
        for statement in self.program.statements.values():
            if statement.role is not Role.WAIT:
                continue
            assert statement.link.waits is not None
            of = {awaited.name for awaited in self.program.awaited(statement)}
            told = (
                _instance if statement.link.waits.by_iterator else _loops if statement.link.waits.by_loop else _indices
            )
            coords_of = function(statement.coords, self.params)
            for instance in points(statement.instances, self.params):
                coords = coords_of(instance)
                for rank in self._executors(statement, coords):
                    wait = Wait(statement, rank, self._time(statement, coords), instance)
                    positions = statement.link.waits.positions
                    wait.parcels += [
                        parcel
                        for parcel in parcels
                        if parcel.rank == rank
                        and parcel.statement.name in of
                        and any(tuple(told(act)[at] for at in positions) == instance for act in parcel.acts)
                    ]
                    found.append(wait)
        return found


def _owner(dealt: Dealt, index: int) -> int:
    number = index // dealt.block
    return number if dealt.cycle is None else number % dealt.cycle


def _instance(act: Act) -> Point:
    return act.instance


def _loops(act: Act) -> Point:
    return act.time[1::2]


def _indices(act: Act) -> Point:
    return act.value[1]
