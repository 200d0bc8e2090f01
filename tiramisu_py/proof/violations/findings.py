"""What a condition of the theorem finds: a violation, and whether another state of the program has it too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tiramisu_py.algorithm.declare.soundness import indexed
from tiramisu_py.dependence.access import Actor, Touch
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Device, Role, Statement
from tiramisu_py.sets import smallest

#: A value with its indices, as the user writes it.
Named = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Finding:
    """A violation without its command; `persists` says whether another state of the program has it as well."""

    violation: Violation
    persists: Callable[[Flow], bool]


@dataclass(frozen=True, eq=False)
class Spot:
    """One element of a touch's domain at given parameters, and what it stands for in the user's words."""

    touch: Touch
    params: dict[str, int]
    at: tuple[int, ...]

    @property
    def named(self) -> Named:
        """The value that is read or written there."""
        return (self.touch.source, smallest.evaluated(self.touch.value, self.at, self.params))

    @property
    def element(self) -> Named:
        """The element of the buffer that is touched."""
        return (self.touch.buffer.name, smallest.evaluated(self.touch.element, self.at, self.params))

    @property
    def rank(self) -> tuple[int, ...]:
        """The coordinates of the rank on which it is; none in a program without ranks."""
        return smallest.evaluated(self.touch.rank, self.at, self.params)

    def computed(self, program: Program) -> Named:
        """The value that the instance computes; for the caller, the value that is asked for."""
        statement = self.touch.actor.statement
        if statement is None:
            return self.named
        instance = smallest.evaluated(self.touch.instance, self.at, self.params)
        return (statement.source, smallest.evaluated(program.value_of(statement), instance, self.params))


def alike(flow: Flow, actor: Actor) -> Iterator[Actor]:
    """The actors of another state of the program that stand for the same computation (parts are separated later)."""
    if actor.statement is None:
        yield actor
        return
    for statement in flow.touches.program.acting:
        if same_work(statement, actor.statement):
            yield Actor(statement.name, statement)


def same_work(a: Statement, b: Statement) -> bool:
    """Whether two statements compute values of one computation in one role."""
    return a.source == b.source and a.role is b.role and (a.role not in (Role.COPY, Role.SEND) or a.name == b.name)


def reading(program: Program, spot: Spot) -> str:
    """Who reads, in words: a send, a copy or a transfer, by its name, or else the value that is computed."""
    statement = spot.touch.actor.statement
    if statement is not None and statement.message is not None:
        return statement.handle
    if statement is not None and statement.role is Role.COPY:
        return f"the {'transfer' if statement.transfer is not None else 'copy'} {statement.name}"
    return words(spot.computed(program))


def queue_words(program: Program, statement: Statement) -> str:
    """Where a statement runs: the host, or an operation sequence."""
    queue = program.queue_of(statement)
    if queue is None:
        return "the host"
    return sequence_words(program, *queue)


def sequence_words(program: Program, device: int, stream: int) -> str:
    """An operation sequence, with its GPU where the program uses several."""
    queues = {program.queue_of(s) for s in program.storing}
    several = len({queue[0] for queue in queues if queue is not None}) > 1
    return f"operation sequence {stream}" + (f" of GPU {device}" if several else "")


def memory_words(device: Device) -> str:
    """The memory of a device."""
    return "host memory" if device is None else f"the memory of GPU {device}"


def rank_words(rank: tuple[int, ...]) -> str:
    """A rank by its coordinates: ``rank 1``, or ``rank (0, 1)`` on a grid of several axes."""
    return f"rank {rank[0]}" if len(rank) == 1 else f"rank ({', '.join(map(str, rank))})"


def on_rank(spot: Spot) -> str:
    """Where an instance is, to be put behind other words: `` on rank 1``; nothing in a program without ranks."""
    return on_that_rank(spot.rank) if spot.touch.ranks else ""


def on_that_rank(rank: tuple[int, ...]) -> str:
    """`` on rank 1``, to be put behind other words; nothing for no rank."""
    return f" on {rank_words(rank)}" if rank else ""


def words(named: Named) -> str:
    """A value or an element as the user writes it."""
    return indexed(*named)
