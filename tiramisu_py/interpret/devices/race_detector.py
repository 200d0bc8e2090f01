"""Races: two unordered accesses of different threads of a launch to one element, at least one of them a write.

In a launch, accesses of one thread are ordered, and accesses of one block with a barrier between them. So a block
counts its barriers (its epoch), and for each element the last accesses of each kind are kept, by block. The last of
some blocks that take tickets comes after all that the others did, and one that has a lock after what those before it
did until they gave it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from enum import Enum

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array, Element, has_lanes
from tiramisu_py.records import dataclass

#: The thread number of an access by several threads, and of a deferred store: it equals that of no thread.
MANY = -1


class Kind(Enum):
    """The kind of an access."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC = "updates"


@dataclass(eq=False)
class Clock:
    """A block of a launch: its number, the number of barriers that it has passed, and the blocks before it.

    Of these it comes after what they did before a number of barriers of theirs.
    """

    block: tuple[int, int, int]
    epoch: int = 0
    ended: dict[Clock, int] = field(default_factory=dict)


#: For each kind and block, the last accesses: their epoch, the thread (or `MANY`), and its statement.
Accesses = dict[tuple[Kind, Clock], tuple[int, int, str]]


@dataclass(eq=False)
class AccessHistory:
    """The accesses of a launch's threads to an array."""

    seen: dict[tuple[int, ...], Accesses] = field(default_factory=dict)

    def record(self, name: str, element: tuple[int, ...], kind: Kind, clock: Clock, thread: int, where: str) -> None:
        """Add an access; raises `InterpretError` if a conflicting earlier access is not ordered before it."""
        accesses = self.seen.setdefault(element, {})
        for (other, block), (epoch, by, what) in accesses.items():
            if _conflict(kind, other) and not _ordered(block, epoch, by, clock, thread):
                shown = "[" + ", ".join(map(str, element)) + "]"
                raise InterpretError(
                    f"race: {where} (block {clock.block}, thread {thread}) {kind.value} {name}{shown}, which {what} "
                    f"(block {block.block}, {_named(by)}) {other.value}, with no barrier between"
                )
        if kind is Kind.WRITE:
            accesses.clear()
        epoch, by, _ = accesses.get((kind, clock), (clock.epoch, thread, ""))
        alone = epoch < clock.epoch or by == thread
        accesses[kind, clock] = (clock.epoch, thread if alone else MANY, where)


def _conflict(a: Kind, b: Kind) -> bool:
    return Kind.WRITE in (a, b) or a is not b


def _ordered(before: Clock, epoch: int, by: int, after: Clock, thread: int) -> bool:
    if before is not after:
        return epoch < after.ended.get(before, 0)
    return epoch < after.epoch or (by == thread and by != MANY)


def _named(thread: int) -> str:
    return "several threads, or deferred" if thread == MANY else f"thread {thread}"


class Watched(Array):
    """An array as one thread of a launch sees it."""

    whole: Array
    trace: AccessHistory
    clock: Clock
    thread: int
    atomic: bool = False

    def read(self, indices: Element, where: str) -> Value:
        """The element, or one for each lane."""
        return self._value(self._note(indices, Kind.READ, where), where)

    def write(self, indices: Element, value: Value, where: str) -> None:
        """Store a value, or one for each lane."""
        self._note(indices, Kind.WRITE, where)
        super().write(indices, value, where)

    @contextmanager
    def updated(self) -> Iterator[None]:
        """A context in which accesses are those of one atomic update."""
        self.atomic = True
        yield None
        self.atomic = False

    def defer(self, indices: Element, where: str, barriers: int) -> None:
        """Record a deferred store of this thread, which takes effect at any time until that many barriers later."""
        self._note(indices, Kind.WRITE, where)
        for element in _elements(indices):
            self.trace.seen[element][Kind.WRITE, self.clock] = (self.clock.epoch + barriers - 1, MANY, where)

    def settle(self, indices: Element, value: Value, where: str) -> None:
        """Execute a deferred store that has been recorded."""
        super().write(indices, value, where)

    def _note(self, indices: Element, kind: Kind, where: str) -> Element:
        self.gone = self.whole.gone
        at = self._checked(indices, where)
        for element in _elements(at):
            how = Kind.ATOMIC if self.atomic else kind
            self.trace.record(self.name, element, how, self.clock, self.thread, where)
        return at


def watched(array: Array, trace: AccessHistory, clock: Clock, thread: int, constant: bool = False) -> Watched:
    """An array as one thread sees it."""
    seen = Watched(**{**vars(array), "constant": array.constant or constant})
    seen.whole, seen.trace, seen.clock, seen.thread = array.of or array, trace, clock, thread
    return seen


def _elements(indices: Element) -> list[tuple[int, ...]]:
    if not any(map(has_lanes, indices)):
        return [tuple(map(int, indices))]
    return list(zip(*(column.ravel().tolist() for column in np.broadcast_arrays(*indices)), strict=True))
