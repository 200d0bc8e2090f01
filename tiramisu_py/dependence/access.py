"""One read or write of a program, by an actor, with the value that it names and the place that it accesses."""

from __future__ import annotations

from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.statement import Device, Role, Statement
from tiramisu_py.program.storage import Buffer, Home, Storage, home_of
from tiramisu_py.records import dataclass

#: When an actor acts: before all statements, at its time, after all statements.
ENTRY, WITHIN, EXIT = -1, 0, 1


@dataclass(frozen=True, eq=False)
class Actor:
    """The origin of an access: a statement, or the caller (the virtual entry and exit)."""

    name: str
    statement: Statement | None = None
    moment: int = WITHIN


@dataclass(frozen=True, eq=False)
class MemoryAccess:
    """A read or a write.

    `source` is the computation or the input whose value is named. `domain` holds the instances (of a write), or the
    pairs (of a read); `instance`, `value`, `place` and `coords` are functions on it: the instance, the value that is
    named, the place (coordinates of the rank, scope coordinates, the thread of a register that each of them has, then
    the element of the buffer), and the iterations of the statement's loops. `when` are these too, but those of the rank
    last: what is first on its rank comes first. `device` is the one whose instance of the buffer is accessed: accesses
    to different instances never meet. `ranks` is how many coordinates of the rank the place begins with.
    """

    actor: Actor
    source: str
    storage: Storage
    buffer: Buffer
    is_write: bool
    domain: isl.Set
    instance: isl.MultiAff
    value: isl.MultiAff
    place: isl.MultiAff
    coords: isl.MultiAff | None = None
    device: Device = None
    ranks: int = 0
    when: isl.MultiAff | None = None

    @property
    def owners(self) -> int:
        """How many coordinates of the place say whose memory it is: of the rank, the scope, and the thread."""
        return self.ranks + len(self.buffer.scope) + (3 if self.buffer.per_thread else 0)

    @property
    def home(self) -> Home:
        """The instance of the buffer that is accessed."""
        return home_of(self.buffer, self.device)

    @property
    def array(self) -> str:
        """The word of messages for the buffer: its name, or what it is if the user has not declared it."""
        return self.storage.words or self.buffer.name

    @property
    def role(self) -> Role | None:
        """The role of the statement; None for the caller."""
        return self.actor.statement.role if self.actor.statement is not None else None

    @property
    def adds(self) -> bool:
        """Whether it belongs to a statement that combines something into a partial result."""
        return self.actor.statement is not None and self.actor.statement.adds

    @property
    def is_merged(self) -> bool:
        """Whether it is the read of a partial result that is combined into another one."""
        return self.role is Role.MERGE and not self.is_write and self.storage.name != self._target

    @property
    def _target(self) -> str:
        return "" if self.actor.statement is None else self.actor.statement.memory.target

    @cached_property
    def places(self) -> isl.Map:
        """`place` on the domain."""
        return sets.graph(self.place, self.domain)

    @cached_property
    def values(self) -> isl.Map:
        """`value` on the domain."""
        return sets.graph(self.value, self.domain)

    @cached_property
    def accessed(self) -> isl.Set:
        """The places that are accessed."""
        return self.domain.apply(self.places)

    @cached_property
    def element(self) -> isl.MultiAff:
        """The element of the buffer, without the coordinates of the rank, of the scope and of the thread."""
        kept = sets.outputs(self.place)[self.owners :]
        return sets.function(self.domain.get_space(), self.buffer.name, kept)

    @cached_property
    def rank(self) -> isl.MultiAff:
        """The coordinates of the rank whose memory is accessed, on the domain."""
        return sets.prefix(self.place, self.ranks)

    @cached_property
    def on_ranks(self) -> isl.Map:
        """`rank` on the domain."""
        return sets.graph(self.rank, self.domain)

    def prefix(self, count: int) -> isl.Map:
        """The iterations of the outermost `count` loops, on the domain."""
        assert self.coords is not None
        return sets.graph(sets.prefix(self.coords, count), self.domain)
