"""Races: two threads of a launch touch one element, one of them to change it, and nothing orders them.

Within a launch, accesses are ordered within a thread, and within a block where a barrier lies between them. So a block
counts its barriers (its epoch), and of each element the last accesses of each kind are kept, by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.faults import InterpretError
from tiramisu_py.interpret.memory import Array, Element

#: Stands for several threads in an access, and for a deferred store: no thread is ordered with it by being the same.
MANY = -1


class Kind(Enum):
    """How an element is touched."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC = "updates"


@dataclass(eq=False)
class Clock:
    """A block of a launch: its number, and how many barriers it has passed."""

    block: tuple[int, int, int]
    epoch: int = 0


#: For each kind and block, the epoch of the last accesses and the thread (or `MANY`), with what it executed.
Accesses = dict[tuple[Kind, Clock], tuple[int, int, str]]


@dataclass(eq=False)
class Trace:
    """What the threads of a launch have done to an array."""

    seen: dict[tuple[int, ...], Accesses] = field(default_factory=dict)

    def record(self, name: str, element: tuple[int, ...], kind: Kind, clock: Clock, thread: int, where: str) -> None:
        """Add an access; raises where an earlier one is not ordered before it."""
        accesses = self.seen.setdefault(element, {})
        for (other, block), (epoch, by, what) in accesses.items():
            if _conflict(kind, other) and not _ordered(block, epoch, by, clock, thread):
                shown = "[" + ", ".join(map(str, element)) + "]"
                raise InterpretError(
                    f"race: {where} (block {clock.block}, thread {thread}) {kind.value} {name}{shown}, which {what} "
                    f"(block {block.block}, {_named(by)}) {other.value}, and no barrier is between them"
                )
        if kind is Kind.WRITE:
            accesses.clear()
        epoch, by, _ = accesses.get((kind, clock), (clock.epoch, thread, ""))
        alone = epoch < clock.epoch or by == thread
        accesses[kind, clock] = (clock.epoch, thread if alone else MANY, where)


def _conflict(a: Kind, b: Kind) -> bool:
    return Kind.WRITE in (a, b) or a is not b


def _ordered(before: Clock, epoch: int, by: int, after: Clock, thread: int) -> bool:
    return before is after and (epoch < after.epoch or (by == thread and by != MANY))


def _named(thread: int) -> str:
    return "several threads, or deferred" if thread == MANY else f"thread {thread}"


class Watched(Array):
    """An array as one thread of a launch sees it."""

    whole: Array
    trace: Trace
    clock: Clock
    thread: int
    atomic: bool = False

    def read(self, indices: Element, where: str) -> Value:
        """The element, or one for each lane."""
        self._note(indices, Kind.READ, where)
        return super().read(indices, where)

    def write(self, indices: Element, value: Value, where: str) -> None:
        """Store a value, or one for each lane."""
        self._note(indices, Kind.WRITE, where)
        super().write(indices, value, where)

    @contextmanager
    def updated(self) -> Iterator[None]:
        """Until the end, accesses are those of one atomic update."""
        self.atomic = True
        yield None
        self.atomic = False

    def defer(self, indices: Element, where: str) -> None:
        """Note a store that this thread has asked for, and which happens at any time until its next barrier."""
        self._note(indices, Kind.WRITE, where)
        for element in _elements(indices):
            self.trace.seen[element][Kind.WRITE, self.clock] = (self.clock.epoch, MANY, where)

    def settle(self, indices: Element, value: Value, where: str) -> None:
        """The moment of a store that has been noted."""
        super().write(indices, value, where)

    def _note(self, indices: Element, kind: Kind, where: str) -> None:
        self.gone = self.whole.gone
        for element in _elements(self._checked(indices, where)):
            how = Kind.ATOMIC if self.atomic else kind
            self.trace.record(self.name, element, how, self.clock, self.thread, where)


def watched(array: Array, trace: Trace, clock: Clock, thread: int, constant: bool = False) -> Watched:
    """An array as one thread sees it."""
    seen = Watched(**{**vars(array), "constant": array.constant or constant})
    seen.whole, seen.trace, seen.clock, seen.thread = array, trace, clock, thread
    return seen


def _elements(indices: Element) -> list[tuple[int, ...]]:
    if all(np.ndim(index) == 0 for index in indices):
        return [tuple(map(int, indices))]
    return list(zip(*(column.ravel().tolist() for column in np.broadcast_arrays(*indices)), strict=True))
