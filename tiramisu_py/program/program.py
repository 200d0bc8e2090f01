"""The scheduled program: one immutable value. A command is a function from a program to a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Location, value_names
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order, static_positions
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Storage


@dataclass(frozen=True)
class Command:
    """One entry of the log: the command as the user would write it, and where it was written."""

    text: str
    location: Location | None = None

    def __str__(self) -> str:
        return f"{self.text}  ({self.location})" if self.location else self.text


@dataclass(frozen=True, eq=False)
class Program:
    """Layers II and III of one function: who computes what, when, and where it is kept.

    `parent` is the program before the command that made this one (None at first), so that undo and blame need
    nothing else. `asserted` are facts that the user vouches for where isl gives up.
    """

    algorithm: Algorithm
    statements: Mapping[str, Statement] = field(default_factory=dict)
    loops: Mapping[LoopId, Loop] = field(default_factory=dict)
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    storages: Mapping[str, Storage] = field(default_factory=dict)
    orders: tuple[Order, ...] = ()
    asserted: tuple[str, ...] = ()
    command: Command | None = None
    parent: Program | None = None

    # -- changes

    def with_(self, **changes: Any) -> Program:
        """The program with some fields replaced (its log unchanged)."""
        return replace(self, **changes)

    def with_statement(self, *changed: Statement) -> Program:
        """The program with statements added or replaced, by name; replaced ones keep their position."""
        return replace(self, statements={**self.statements, **{s.name: s for s in changed}})

    def with_statement_before(self, statement: Statement, others: Iterable[str]) -> Program:
        """The program with one more statement, declared just before the first of `others`."""
        names = list(self.statements)
        at = min((names.index(name) for name in others), default=len(names))
        items = list(self.statements.items())
        return replace(self, statements=dict([*items[:at], (statement.name, statement), *items[at:]]))

    def with_loop(self, *changed: Loop) -> Program:
        """The program with loops added or replaced, by number."""
        return replace(self, loops={**self.loops, **{loop.id: loop for loop in changed}})

    def with_storage(self, storage: Storage) -> Program:
        """The program with a storage added or replaced, by name."""
        return replace(self, storages={**self.storages, storage.name: storage})

    def with_buffer(self, buffer: Buffer) -> Program:
        """The program with a buffer added or replaced, by name."""
        return replace(self, buffers={**self.buffers, buffer.name: buffer})

    def after(self, parent: Program, command: Command) -> Program:
        """This program as the result of `command` applied to `parent`."""
        return replace(self, parent=parent, command=command)

    # -- queries

    @property
    def history(self) -> tuple[Program, ...]:
        """The programs from the first to this one, one a command."""
        states: list[Program] = []
        state: Program | None = self
        while state is not None:
            states.append(state)
            state = state.parent
        return tuple(reversed(states))

    @property
    def log(self) -> tuple[Command, ...]:
        """The commands that made this program."""
        return tuple(state.command for state in self.history if state.command is not None)

    def next_loop(self) -> LoopId:
        """A number that no loop has had."""
        return max(self.loops, default=-1) + 1

    def statements_of(self, source: str) -> tuple[Statement, ...]:
        """The statements that compute values of a computation (copies are not among them)."""
        return tuple(s for s in self.statements.values() if s.source == source and s.role.name != "COPY")

    def with_this_loop(self, loop: LoopId) -> tuple[Statement, ...]:
        """The statements inside a loop."""
        return tuple(s for s in self.statements.values() if loop in s.loops)

    def loop_names(self, statement: Statement) -> tuple[str, ...]:
        """The names of a statement's loops, outermost first."""
        return tuple(self.loops[loop].name for loop in statement.loops)

    def storage_for(self, statement: Statement, source: str) -> Storage:
        """Where a statement loads the values of `source` from."""
        return self.storages[statement.sources.get(source, source)]

    def storages_in(self, buffer: str) -> Iterator[Storage]:
        """The storages that share a buffer."""
        return (s for s in self.storages.values() if s.buffer == buffer)

    @property
    def context(self) -> isl.Set:
        """The parameter values for which the function is defined."""
        return self.algorithm.context

    # -- time

    @cached_property
    def positions(self) -> dict[str, tuple[int, ...]]:
        """The static dimensions of each statement's time map."""
        return static_positions(self.statements, self.orders)

    @cached_property
    def time_size(self) -> int:
        """The number of dimensions of a time vector ``[s0, d0, s1, ..., sn]``, padded with zeros."""
        return 2 * max((len(s.loops) for s in self.statements.values()), default=0) + 1

    @cached_property
    def times(self) -> dict[str, isl.MultiAff]:
        """The time of each statement's instances, all padded to `time_size`."""
        return {name: self._time(statement) for name, statement in self.statements.items()}

    def _time(self, statement: Statement) -> isl.MultiAff:
        space = statement.frame
        statics = self.positions[statement.name]
        dynamics = sets.outputs(statement.coords)
        vector = [sets.constant(space, statics[0])]
        for dynamic, static in zip(dynamics, statics[1:], strict=True):
            vector += [dynamic, sets.constant(space, static)]
        vector += [sets.constant(space, 0)] * (self.time_size - len(vector))
        return sets.function(space, None, vector)

    # -- places

    def place(self, statement: Statement, storage: Storage, value: isl.MultiAff) -> isl.MultiAff:
        """The place of a value: ``instance -> buffer[scope coordinates..., index...]``.

        `value` maps the statement's instances to indices of the storage's source. The statement must be inside
        the loops of the buffer's scope (the proof refuses it otherwise, before this is asked).
        """
        scope = self.buffers[storage.buffer].scope
        owner = statement.prefix(len(scope))
        index = sets.compose(sets.joined(owner, value), storage.index)
        return sets.renamed(sets.joined(owner, index), storage.buffer)

    def in_scope(self, statement: Statement, buffer: Buffer) -> bool:
        """Whether a statement is inside the loops of whose iterations the buffer has one copy each."""
        return statement.loops[: len(buffer.scope)] == buffer.scope

    def value_of(self, statement: Statement) -> isl.MultiAff:
        """``instance -> value indices`` of the source whose values the statement stores."""
        return sets.prefix(statement.point, len(value_names(self.algorithm.source(statement.source))))

    def point_names(self, statement: Statement) -> tuple[str, ...]:
        """The names that a statement's body uses for the dimensions of its point."""
        source = self.algorithm.source(statement.source)
        if isinstance(source, Computation) and statement.role is Role.UPDATE:
            return source.point_iterators
        return value_names(source)
