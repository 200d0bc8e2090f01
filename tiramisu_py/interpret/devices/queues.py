"""Operation sequences: operations that the host issues to GPU streams run concurrently with it, with any delay."""

from __future__ import annotations

import random
from dataclasses import field

from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.strands import Steps
from tiramisu_py.records import dataclass

#: A GPU and one of its streams.
Queue = tuple[int, int]
#: When operations run, by the seed: only when something waits for them; at once; at random times.
MOODS = ("lazy", "random", "eager")


@dataclass(eq=False)
class QueuedOperation:
    """A kernel, a copy, or an event on an operation sequence. It starts when the operations `after` are complete."""

    queue: Queue
    steps: Steps
    after: tuple[QueuedOperation, ...] = ()
    complete: bool = False


@dataclass
class Queues:
    """All operation sequences: each runs its operations one after another; there is no other order."""

    choice: random.Random
    mood: str
    waiting: dict[Queue, list[QueuedOperation]] = field(default_factory=dict)

    def put(self, operation: QueuedOperation) -> None:
        """Append an operation to its sequence."""
        self.waiting.setdefault(operation.queue, []).append(operation)

    def meanwhile(self) -> None:
        """Run some operations (all when eager, a random number when random) while the host takes a step."""
        if self.mood == "eager":
            self.rest()
        elif self.mood == "random" and self.choice.random() < 0.5:
            for _ in range(self.choice.choice((1, 10, 100))):
                if not (ready := self._ready()):
                    break
                self._step(ready)

    def until(self, operation: QueuedOperation) -> None:
        """Run operations until the given one is complete; when lazy, only those that it needs."""
        needed = self._needed(operation)
        while not operation.complete:
            ready = [first for first in self._ready() if self.mood != "lazy" or first in needed]
            if not ready:
                raise InterpretError("the host waits for an operation that can never start")
            self._step(ready)

    def rest(self) -> None:
        """Run all operations that can start."""
        while ready := self._ready():
            self._step(ready)

    def _ready(self) -> list[QueuedOperation]:
        heads = [operations[0] for operations in self.waiting.values() if operations]
        return [head for head in heads if all(before.complete for before in head.after)]

    def _step(self, ready: list[QueuedOperation]) -> None:
        operation = self.choice.choice(ready)
        try:
            next(operation.steps)
        except StopIteration:
            operation.complete = True
            self.waiting[operation.queue].remove(operation)

    def _needed(self, operation: QueuedOperation) -> set[QueuedOperation]:
        """An operation, and all operations that must precede it."""
        found: set[QueuedOperation] = set()
        pending = [operation]
        while pending:
            one = pending.pop()
            if one not in found and not one.complete:
                found.add(one)
                queue = self.waiting[one.queue]
                pending += [*queue[: queue.index(one)], *one.after]
        return found
