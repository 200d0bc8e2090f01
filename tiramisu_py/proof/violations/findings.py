"""Findings of a condition of the theorem: a violation, and the key under which it is looked up in other states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from functools import cached_property

from tiramisu_py.algorithm.declare.soundness import indexed
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, Device, Role, Statement, sequence_words
from tiramisu_py.records import dataclass
from tiramisu_py.sets import smallest

#: A value with its indices, as the user writes it.
Named = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Key:
    """The identity of a finding in all states of a program, whatever loops, times and places they have.

    `sort` names a sort of findings of one condition, and `about` what it is about: a computation, an access, a pair of
    these. `at` are sizes at which it was found, given if a search there first is quick; they are not compared.
    """

    sort: str
    about: tuple[Hashable, ...]
    at: Mapping[str, int] | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class Finding:
    """A fault, without the command to blame; to find it may be much cheaper than to explain it."""

    key: Key
    explain: Callable[[], Violation]

    @cached_property
    def violation(self) -> Violation:
        """The violation, at the smallest counterexample."""
        return self.explain()

    @classmethod
    def of(cls, key: Key, violation: Violation) -> Finding:
        """A finding that has its words already."""
        return cls(key, lambda: violation)


def fault(kind: str, sort: str, statement: Statement, message: str, repair: str = "") -> Finding:
    """A fault of one statement at every size."""
    witness = Witness({}, reader=(statement.source or statement.name, ()))
    return Finding.of(Key(sort, (statement.name,)), Violation(kind, message, witness, repair=repair))


def wanted(key: Key, sought: Key | None) -> bool:
    """Whether a finding is asked for: any, or the one with the key that is sought."""
    return sought is None or key == sought


@dataclass(frozen=True, eq=False)
class Spot:
    """One element of an access's domain at given parameters, and what it stands for in the user's words."""

    access: MemoryAccess
    params: dict[str, int]
    at: tuple[int, ...]

    @property
    def named(self) -> Named:
        """The value that is read or written there."""
        return (self.access.source, smallest.evaluated(self.access.value, self.at, self.params))

    @property
    def element(self) -> Named:
        """The element of the buffer that is touched."""
        return (self.access.array, smallest.evaluated(self.access.element, self.at, self.params))

    @property
    def rank(self) -> tuple[int, ...]:
        """The coordinates of its rank; none in a program without ranks."""
        return smallest.evaluated(self.access.rank, self.at, self.params)

    def computed(self, program: Program) -> Named:
        """The value that the instance computes; for the caller, the value that is asked for."""
        statement = self.access.actor.statement
        if statement is None:
            return self.named
        instance = smallest.evaluated(self.access.instance, self.at, self.params)
        return (statement.source, smallest.evaluated(program.value_of(statement), instance, self.params))


def work(statement: Statement | None) -> tuple[Hashable, ...]:
    """A key for the work of a statement: the same in all states of a program, and for all parts that it is cut into.

    Work is to compute values of one computation, or partial results of it, in one role; a copy or a send is identified
    by its name. None stands for the caller.
    """
    if statement is None:
        return ()
    name = statement.name if statement.role in (Role.COPY, Role.SEND) else ""
    return (statement.source, statement.role, name, statement.link.combination is None)


def access_key(access: MemoryAccess) -> tuple[Hashable, ...]:
    """A key for the access of the algorithm that this one stands for: who reads or stores values of which source."""
    return (work(access.actor.statement), access.source, access.is_write)


def accesses_alike(flow: Flow, about: tuple[Hashable, ...]) -> list[MemoryAccess]:
    """The accesses of a state of the program that have the key `about`."""
    _, source, _ = about
    kept = dict.fromkeys(s.buffer for s in flow.accesses.program.storages.values() if s.source == source)
    return [access for buffer in kept for access in flow.accesses.of_buffer(buffer) if access_key(access) == about]


def reading(program: Program, spot: Spot) -> str:
    """Who reads, in words: a send, a copy or a transfer, by its name, or else the value that is computed."""
    statement = spot.access.actor.statement
    if statement is not None and statement.link.message is not None:
        return statement.handle
    if statement is not None and statement.role is Role.COPY:
        return f"the {'transfer' if statement.link.transfer is not None else 'copy'} {statement.name}"
    return words(spot.computed(program))


def queue_words(program: Program, statement: Statement) -> str:
    """Where a statement runs: the host, or an operation sequence."""
    queue = program.queue_of(statement)
    if queue is None:
        return "the host"
    return sequence_in_words(program, *queue)


def sequence_in_words(program: Program, device: int, stream: int) -> str:
    """An operation sequence, with its GPU where the program uses several."""
    queues = {program.queue_of(s) for s in program.storing}
    return sequence_words(device, stream, len({queue[0] for queue in queues if queue is not None}) > 1)


def memory_words(device: Device) -> str:
    """The memory of a device."""
    if device == FILES:
        return "a file"
    return "host memory" if device is None else f"the memory of GPU {device}"


def rank_words(rank: tuple[int, ...]) -> str:
    """A rank by its coordinates: ``rank 1``, or ``rank (0, 1)`` on a grid of several axes."""
    return f"rank {rank[0]}" if len(rank) == 1 else f"rank ({', '.join(map(str, rank))})"


def on_rank(spot: Spot) -> str:
    """The rank of an instance as a suffix: `` on rank 1``; empty in a program without ranks."""
    return on_that_rank(spot.rank) if spot.access.ranks else ""


def on_that_rank(rank: tuple[int, ...]) -> str:
    """A rank as a suffix: `` on rank 1``; empty for no rank."""
    return f" on {rank_words(rank)}" if rank else ""


def words(named: Named) -> str:
    """A value or an element as the user writes it."""
    return indexed(*named)
