"""The scheduled program: one immutable value. A command is a function from a program to a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, value_names
from tiramisu_py.algorithm.domains.specializations import Specialization
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.program.command import Entry
from tiramisu_py.program.declared_orders import suggested
from tiramisu_py.program.kept_operands import KeptOperand
from tiramisu_py.program.loops import Bulk, GpuBlock, Loop, LoopId, Rank
from tiramisu_py.program.machine.distribution import Blocks, Distribution
from tiramisu_py.program.machine.gpu_target import CUDA, GpuTarget
from tiramisu_py.program.ordering import Order, static_positions
from tiramisu_py.program.statement import Device, Role, Statement
from tiramisu_py.program.storage import Buffer, Storage, home_of
from tiramisu_py.program.targets import Partition
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class ProgramRanks:
    """How the ranks of a program share its work and its arrays.

    `grid` are the extents of the process grid, where they were declared, and `distributions` say how ranks hold the
    caller's arrays (an array without one is held in full by every rank). A program that `is_spread` has the coordinates
    of its rank in every instance: there are so many `axes`, and these coordinates are those of `everyone`. With
    `blocks` it describes one rank; with a `window` (parameters whose values differ by rank) it describes a rank and its
    neighbours (see `program.ranks.block_windows`).
    """

    grid: tuple[Expr, ...] = ()
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    is_spread: bool = False
    axes: int = 0
    everyone: isl.Set | None = None
    blocks: Blocks | None = None
    window: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ProgramCalls:
    """What is known of the calls of a program.

    `asserted` are facts that the user vouches for where isl gives up. `narrowed` is the context, where it is narrower
    than that of the algorithm: on one rank, or in one version. `specialized` are the calls for which the function has
    versions, and `kept` the operands that the caller passes packed.
    """

    asserted: tuple[str, ...] = ()
    narrowed: isl.Set | None = None
    specialized: tuple[Specialization, ...] = ()
    kept: tuple[KeptOperand, ...] = ()


@dataclass(frozen=True, eq=False)
class ProgramTargets:
    """The processors of a program: kernels are for GPUs of this kind; `partitions` tell who computes which part."""

    gpu: GpuTarget = CUDA
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, eq=False)
class ProgramOrigin:
    """How a program came to be: by a `command` from its `parent` (None at first).

    So undo and blame need nothing else. `turned` says which loops were turned before any command, so that values are
    computed before they are read.
    """

    turned: tuple[str, ...] = ()
    command: Entry | None = None
    parent: Program | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """Layers II and III of one function: who computes what, when, and where it is kept.

    `statements` and `loops` say who and when, together with the `orders` that were asked for; `storages` in `buffers`
    say where. The other parts are of ranks, of calls, of processors, and of the commands that made the program.
    """

    algorithm: Algorithm
    statements: Mapping[str, Statement] = field(default_factory=dict)
    loops: Mapping[LoopId, Loop] = field(default_factory=dict)
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    storages: Mapping[str, Storage] = field(default_factory=dict)
    orders: tuple[Order, ...] = ()
    ranks: ProgramRanks = ProgramRanks()
    calls: ProgramCalls = ProgramCalls()
    targets: ProgramTargets = ProgramTargets()
    origin: ProgramOrigin = ProgramOrigin()

    # -- changes

    def with_(self, **changes: Any) -> Program:
        """The program with some fields replaced (its log unchanged)."""
        return replace(self, **changes)

    def with_statement(self, *changed: Statement) -> Program:
        """The program with statements added or replaced, by name; replaced ones keep their position."""
        return replace(self, statements={**self.statements, **{s.name: s for s in changed}})

    def with_statement_before(self, statement: Statement, others: Iterable[str]) -> Program:
        """The program with an additional statement, declared just before the first of `others`."""
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

    def after(self, parent: Program, command: Entry) -> Program:
        """This program as the result of `command` applied to `parent`."""
        return replace(self, origin=replace(self.origin, parent=parent, command=command))

    # -- queries

    @property
    def history(self) -> tuple[Program, ...]:
        """The programs from the first to this one, one per command."""
        states: list[Program] = []
        state: Program | None = self
        while state is not None:
            states.append(state)
            state = state.origin.parent
        return tuple(reversed(states))

    @property
    def log(self) -> tuple[Entry, ...]:
        """The commands that made this program."""
        return tuple(state.origin.command for state in self.history if state.origin.command is not None)

    def next_loop(self) -> LoopId:
        """An unused loop number."""
        return max(self.loops, default=-1) + 1

    @cached_property
    def storing(self) -> tuple[Statement, ...]:
        """The statements that store values: all but sends, waits and barriers."""
        return tuple(s for s in self.statements.values() if s.stores)

    @cached_property
    def acting(self) -> tuple[Statement, ...]:
        """The statements that store values or take them: all but waits and barriers."""
        return tuple(s for s in self.statements.values() if s.acts)

    @property
    def runs_on_ranks(self) -> bool:
        """Whether it says what ranks do: all of them, or one with blocks of its own."""
        return self.ranks.axes > 0 or self.ranks.blocks is not None

    @property
    def meets_ranks(self) -> bool:
        """Whether it runs on ranks, or is what one of them runs, in which messages have no places of their own."""
        return self.runs_on_ranks or any(each.meets_ranks for each in self.statements.values())

    def statements_of(self, source: str) -> tuple[Statement, ...]:
        """The statements that compute values of a computation (copies and combinations are not among them)."""
        return tuple(s for s in self.storing if s.source == source and s.role not in (Role.COPY, Role.COMBINE))

    def with_this_loop(self, loop: LoopId) -> tuple[Statement, ...]:
        """The statements inside a loop."""
        return tuple(s for s in self.statements.values() if loop in s.loops)

    def loop_names(self, statement: Statement) -> tuple[str, ...]:
        """The names of a statement's loops, outermost first."""
        return tuple(self.loops[loop].name for loop in statement.loops)

    def storage_for(self, statement: Statement, source: str) -> Storage:
        """The storage from which a statement loads the values of `source`."""
        return self.storages[statement.memory.sources.get(source, source)]

    def storage_loaded(self, statement: Statement, source: str) -> Storage:
        """The storage of a load; what an update adds to is loaded from where it is stored."""
        own = statement.role is Role.UPDATE and source == statement.source
        return self.storages[statement.memory.target] if own else self.storage_for(statement, source)

    def storages_in(self, buffer: str) -> Iterator[Storage]:
        """The storages that share a buffer."""
        return (s for s in self.storages.values() if s.buffer == buffer)

    @property
    def context(self) -> isl.Set:
        """The parameter values for which the function is defined, or those `narrowed` to the values on a rank."""
        return self.algorithm.context if self.calls.narrowed is None else self.calls.narrowed

    # -- devices

    def kernel_of(self, statement: Statement) -> LoopId | None:
        """The outermost block loop around a statement, which identifies its kernel; None outside of kernels."""
        return next((loop for loop in statement.loops if isinstance(self.loops[loop].tag, GpuBlock)), None)

    def device_of(self, statement: Statement) -> Device:
        """The GPU on which a statement runs; None for the host (which also starts transfers, and waits)."""
        loop = self.kernel_of(statement)
        tag = None if loop is None else self.loops[loop].tag
        return tag.launch.device if isinstance(tag, GpuBlock) else None

    def loads_at(self, statement: Statement, source: str | None = None) -> Device:
        """The device whose instances of buffers a statement loads from; `source` is what it loads, if not its own.

        The host evaluates the conditions of a transfer.
        """
        if statement.link.transfer is not None:
            return statement.link.transfer.source if source in (None, statement.source) else None
        return self.device_of(statement)

    def stores_at(self, statement: Statement) -> Device:
        """The device whose instances of buffers a statement stores to."""
        return statement.link.transfer.target if statement.link.transfer else self.device_of(statement)

    def queue_of(self, statement: Statement) -> tuple[int, int] | None:
        """The GPU and the operation sequence that a kernel or a transfer is put on; None for work of the host."""
        if statement.link.transfer is not None:
            return (statement.link.transfer.device, statement.link.transfer.stream)
        loop = self.kernel_of(statement)
        tag = None if loop is None else self.loops[loop].tag
        return (tag.launch.device, tag.launch.stream) if isinstance(tag, GpuBlock) else None

    def host_depth(self, statement: Statement) -> int:
        """The number of a statement's loops that the host runs: those outside of a kernel, or of one bulk transfer."""
        for depth, loop in enumerate(statement.loops):
            if isinstance(self.loops[loop].tag, GpuBlock | Bulk):
                return depth
        return len(statement.loops)

    def awaited(self, statement: Statement) -> tuple[Statement, ...]:
        """The statements whose operations a WAIT waits for."""
        assert statement.link.waits is not None
        of = statement.link.waits.of
        named = (s for s in self.statements.values() if of in (s.name, *s.origin.part_of))
        return tuple(s for s in named if s.acts) or self.statements_of(of)

    def told_apart(self, wait: Statement, operation: Statement) -> list[isl.Aff]:
        """The forms by which a WAIT identifies an instance of an operation: value indices, iterators, or loops."""
        assert wait.link.waits is not None
        if wait.link.waits.by_loop:
            forms = sets.outputs(operation.coords)
        elif wait.link.waits.by_iterator:
            forms = sets.variables(operation.frame)
        else:
            forms = sets.outputs(self.value_of(operation))
        return [forms[position] for position in wait.link.waits.positions]

    # -- time

    @cached_property
    def positions(self) -> dict[str, tuple[int, ...]]:
        """The static dimensions of each statement's time map."""
        return static_positions(self.statements, self.orders, suggested(self.statements, self.storages))

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

    def place(self, statement: Statement, storage: Storage, value: isl.MultiAff, stored: bool = True) -> isl.MultiAff:
        """The place of a value: ``instance -> buffer[scope coordinates..., index...]``, named by the buffer's instance.

        In a program that is spread the coordinates of the rank come first. `value` maps the statement's instances to
        indices of the storage's source; `stored` says whether the statement stores it there or loads it. The statement
        must be inside the loops of the storage's frame (the proof refuses it otherwise, before this is asked).
        """
        buffer = self.buffers[storage.buffer]
        frame = statement.prefix(len(self.frame(storage)))
        index = sets.compose(sets.joined(frame, value), storage.index)
        device = self.stores_at(statement) if stored else self.loads_at(statement, storage.source)
        rank = self.stores_on(statement) if stored else self.rank_of(statement)
        owner = sets.joined(rank, sets.prefix(frame, len(buffer.scope)))
        return sets.renamed(sets.joined(owner, index), str(home_of(buffer, device)))

    def rank_of(self, statement: Statement) -> isl.MultiAff:
        """``instance -> coordinates of the rank`` that executes it; no outputs in a program that is not spread."""
        forms = sets.outputs(statement.coords)
        return sets.function(statement.frame, None, [forms[depth] for depth in self.rank_depths(statement)])

    def stores_on(self, statement: Statement) -> isl.MultiAff:
        """``instance -> coordinates of the rank`` in whose memory it stores."""
        return self.rank_of(statement) if statement.memory.onto is None else statement.memory.onto

    def rank_depths(self, statement: Statement) -> tuple[int, ...]:
        """The depths of the loops whose iterations are the ranks, by axis; none in a program that is not spread."""
        found: dict[int, int] = {}
        for depth, number in enumerate(statement.loops if self.ranks.is_spread else ()):
            tag = self.loops[number].tag
            if isinstance(tag, Rank):
                found.setdefault(tag.axis, depth)
        return tuple(found[axis] for axis in sorted(found))

    def frame(self, storage: Storage) -> tuple[LoopId, ...]:
        """The loops whose coordinates a storage's index takes: the scope of its buffer, and those inside."""
        return self.buffers[storage.buffer].scope + storage.inner

    def in_scope(self, statement: Statement, storage: Storage) -> bool:
        """Whether a statement is inside the loops that a storage's index takes."""
        frame = self.frame(storage)
        return statement.loops[: len(frame)] == frame

    def value_of(self, statement: Statement) -> isl.MultiAff:
        """``instance -> value indices`` of the source whose values the statement stores."""
        return sets.prefix(statement.point, len(value_names(self.algorithm.source(statement.source))))

    def point_names(self, statement: Statement) -> tuple[str, ...]:
        """The names that a statement's body uses for the dimensions of its point."""
        source = self.algorithm.source(statement.source)
        if isinstance(source, Computation) and statement.role is Role.UPDATE:
            return source.point_iterators
        return value_names(source)


def nest(program: Program, statement: Statement) -> str:
    """A statement's loops in words."""
    loops = ", ".join(program.loop_names(statement))
    if isinstance(statement.body, StageCall) and statement.is_call:
        around = f"{statement.handle} has the loops {loops}, and each iteration" if loops else statement.handle
        return f"{around} is a call of {statement.body.function}: calls have no loops of their own"
    return f"{statement.handle} has the loops {loops}" if loops else f"{statement.handle} has no loop"


def adds_up(program: Program, statement: Statement, loop: LoopId) -> bool:
    """Whether different iterations of a loop add terms to the same value."""
    if statement.role is not Role.UPDATE:
        return False
    iterations = sets.component(statement.coords_map, statement.depth(loop))
    by_value = sets.graph(program.value_of(statement), statement.instances).reverse().apply_range(iterations)
    return not by_value.is_single_valued()
