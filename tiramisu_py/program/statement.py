"""Statements: sets of executions of one computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.machine.line_alignment import LineAlignment
from tiramisu_py.records import dataclass


class Role(Enum):
    """The action of an execution.

    VALUE stores the value of `body`; INIT stores a reduction's identity; UPDATE combines the term `body` into the
    partial result; COPY stores a value that already exists elsewhere: on another rank, if a message brings it. SEND
    takes a value for another rank, and stores nothing. WAIT and BARRIER store nothing either: a wait blocks the host or
    an operation sequence until operations are complete; a barrier blocks the threads of a block until all have reached
    it.

    A TICKET, which stores nothing, comes after the counted block loops of a kernel: each of their blocks takes one, and
    the block that takes the last goes on with what follows.

    If executors (ranks or threads) collect terms separately, COMBINE brings their partial results together when all
    have reached it; each then has the combined result in place of its own. MERGE combines such a result into the
    partial result in which all terms come together, or the complete one.
    """

    VALUE = "value"
    INIT = "init"
    UPDATE = "update"
    COPY = "copy"
    SEND = "send"
    WAIT = "wait"
    BARRIER = "barrier"
    TICKET = "ticket"
    COMBINE = "combine"
    MERGE = "merge"


#: Where something is: a GPU by its number, FILES, or None for the host.
Device = int | None

#: The number of files among devices: their memory, and their two operation sequences.
FILES = -2
#: The operation sequences of files: of the transfers to them, and of those from them.
STORES, LOADS = 0, 1


def is_gpu(device: Device) -> bool:
    """Whether a device is a GPU."""
    return device is not None and device >= 0


def device_words(device: Device) -> str:
    """A device in words."""
    return "the host" if device is None else f"GPU {device}" if device >= 0 else "files"


def sequence_words(device: int, stream: int, several: bool = True) -> str:
    """An operation sequence in words; with its GPU if there are `several`."""
    if device == FILES:
        return "the queue of stores" if stream == STORES else "the queue of loads"
    return f"operation sequence {stream}" + (f" of GPU {device}" if several else "")


@dataclass(frozen=True)
class Transfer:
    """The data of a COPY that is a transfer, from the memory of one device to that of another.

    An asynchronous transfer is only put on operation sequence `stream` (of the device that is not the host; of the
    source, between two GPUs); a synchronous one is put there too, but the host waits until it is complete. Transfers to
    files are on the sequence STORES of FILES, and those from files on LOADS.
    """

    source: Device
    target: Device
    asynchronous: bool = False
    stream: int = 0

    @property
    def device(self) -> int:
        """The device whose operation sequence it is put on: a GPU, or FILES."""
        if self.uses_files:
            return FILES
        found = self.source if self.source is not None else self.target
        assert found is not None
        return found

    @property
    def uses_files(self) -> bool:
        """Whether it stores to a file, or loads from one."""
        return FILES in (self.source, self.target)


@dataclass(frozen=True)
class Waiting:
    """The operations that a WAIT waits for: those of `of` (a computation, a part of it, or a transfer).

    Instance ``W[w]`` waits for the instances of `of` whose values have the indices w at `positions` (all instances
    where there are none). With `by_iterator`, w are instead iterators of `of`, a half of an exchange; with `by_loop`,
    they are iterations of the loops around `of`. `on` is the operation sequence of `device` that waits; None is the
    host.
    """

    of: str
    positions: tuple[int, ...] = ()
    on: int | None = None
    device: int = 0
    by_iterator: bool = False
    by_loop: bool = False


class SendMode(Enum):
    """When a send is complete.

    STANDARD: when the values may be overwritten; that may be before or only after a receive takes them, as MPI decides.
    SYNCHRONOUS: when a receive has begun to take them. BUFFERED: at once; they are copied to a buffer.
    """

    STANDARD = "standard"
    SYNCHRONOUS = "synchronous"
    BUFFERED = "buffered"


@dataclass(frozen=True, eq=False)
class Message:
    """The data of a SEND, or of a COPY that is a receive: one half of an exchange between ranks.

    Both halves name the `exchange`; the messages of one exchange from one rank to another are matched in the order in
    which they are sent and in which their receives are posted. `peer` maps an instance to the coordinates of the rank
    at the other end. An `asynchronous` half (nonblocking, in the terms of MPI) is complete at a wait for it, and the
    rank continues meanwhile; a blocking one is complete when the rank continues. `persistent` requests are set up once.
    `slots` maps an instance to the element of the exchange's array of requests that it uses, where the user chose it. A
    peer that `is_relative` is counted from the rank itself: 1 is the next one. All messages of a `collective` exchange
    in one iteration of the loops that its halves share are one call, in which every rank takes part.
    """

    exchange: str
    peer: isl.MultiAff
    asynchronous: bool = False
    mode: SendMode = SendMode.STANDARD
    persistent: bool = False
    slots: isl.MultiAff | None = None
    is_relative: bool = False
    collective: bool = False


@dataclass(frozen=True)
class Combination:
    """The partial results that an INIT starts, a COMBINE brings together and a MERGE adds.

    They are those of the ranks along some `axes` of the grid, or, without axes, of the threads of a block along
    `threads` (axes, too: 0 is x). `of` names the update (the first of several) that collects them. Threads combine in a
    tree; so do ranks with `tree`, and otherwise in an order that MPI chooses.
    """

    of: str
    axes: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    tree: bool = False


@dataclass(frozen=True)
class NonTemporal:
    """A statement stores past the caches, in calls whose arrays have more than `above` bytes together.

    None means more than most of the last-level cache.
    """

    above: int | None = None


@dataclass(frozen=True)
class Ahead:
    """A statement prefetches the elements of `source` that it will read `distance` iterations of `loop` later."""

    source: str
    loop: str
    distance: int
    locality: int


@dataclass(frozen=True)
class Slides:
    """A statement computes, in each iteration of `loop`, only values that no earlier one has, as `slide` was asked."""

    loop: LoopId
    along: str | None
    by: int | None
    origin: int


@dataclass(frozen=True, eq=False)
class MemoryUse:
    """The memory that a statement stores to and loads from.

    Its values are stored in the storage `target`. `sources` says from which storage the values of a source are loaded,
    where that is not the storage of the source's name. `onto` are the coordinates of the rank in whose memory an update
    stores, if that is not its own (see `program.ranks.combined_reductions`). `nontemporal` says whether, and when, its
    stores go past the caches, and `prefetches` which of its loads are prefetched.
    """

    target: str
    sources: Mapping[str, str] = field(default_factory=dict)
    onto: isl.MultiAff | None = None
    nontemporal: NonTemporal | None = None
    prefetches: tuple[Ahead, ...] = ()


@dataclass(frozen=True, eq=False)
class Link:
    """What ties a statement to other devices, ranks, operations and threads.

    A COPY between devices has a `transfer`; a SEND, and a COPY of what another rank sends, has a `message`. A COPY with
    `deferred` (cp.async, into shared memory) has happened only when its block has passed as many barriers after it.
    A WAIT has `waits`. Statements that start, combine or merge partial results have a `combination`.
    """

    transfer: Transfer | None = None
    message: Message | None = None
    deferred: int = 0
    waits: Waiting | None = None
    combination: Combination | None = None


@dataclass(frozen=True)
class Along:
    """What one loop of a statement does: `aligned`, each iteration computes another value of its row.

    Where it `slides`, it keeps values of earlier iterations.
    """

    aligned: LineAlignment | None = None
    slides: Slides | None = None


@dataclass(frozen=True)
class StatementOrigin:
    """How a statement came to be: `part_of` names the statements that it was cut from.

    Those that were `derived` (transfers, messages and waits) are derived anew by the next derivation.
    """

    part_of: tuple[str, ...] = ()
    derived: bool = False


@dataclass(frozen=True, eq=False)
class Statement:
    """A set of executions of one computation.

    ========== ============================== =====================================================
    map        from                           to
    ========== ============================== =====================================================
    instances                                 the executions ``name[dims]``
    point      ``name[dims]``                 the point of the computation (value, then reduction, iterators)
    coords     ``name[dims]``                 the iterations of `loops`, outermost first
    ========== ============================== =====================================================

    `source` is the computation (or the input, for a COPY) whose values are stored. `guards` are conditions on the point
    that are not affine. WAIT, BARRIER and TICKET statements have no source, no target and no meaningful body; their
    point is empty. The maps stay side by side, since commands change them together; the parts say where values are
    kept, what the executions are tied to, what a loop does, and how the statement came to be.
    """

    name: str
    source: str
    role: Role
    dims: tuple[str, ...]
    instances: isl.Set
    point: isl.MultiAff
    loops: tuple[LoopId, ...]
    coords: isl.MultiAff
    body: Expr
    memory: MemoryUse
    guards: tuple[Expr, ...] = ()
    link: Link = Link()
    along: Along = Along()
    origin: StatementOrigin = StatementOrigin()

    @property
    def stores(self) -> bool:
        """Whether an execution stores a value; sends, waits, barriers and tickets do not."""
        return self.role not in (Role.SEND, Role.WAIT, Role.BARRIER, Role.TICKET)

    @property
    def acts(self) -> bool:
        """Whether an execution stores or takes a value; waits, barriers and tickets do neither."""
        return self.role not in (Role.WAIT, Role.BARRIER, Role.TICKET)

    @property
    def adds(self) -> bool:
        """Whether it combines something into a partial result: a term, or the partial result of others."""
        return self.role in (Role.UPDATE, Role.MERGE)

    @property
    def moves(self) -> bool:
        """Whether it stores, or takes, the value that it loads of its source unchanged."""
        return self.role in (Role.COPY, Role.SEND, Role.COMBINE, Role.MERGE)

    @property
    def calls_ranks(self) -> bool:
        """Whether it is a call of all ranks of a line of the grid, which combines their partial results."""
        return self.role is Role.COMBINE and self.link.combination is not None and bool(self.link.combination.axes)

    @property
    def meets_ranks(self) -> bool:
        """Whether it is a part of a message, or starts, brings together or adds partial results of ranks."""
        made = self.link.combination
        return self.link.message is not None or (made is not None and not made.threads)

    @property
    def receives(self) -> bool:
        """Whether the values that it stores come in a message, so that it loads nothing."""
        return self.role is Role.COPY and self.link.message is not None

    @property
    def is_call(self) -> bool:
        """Whether its executions are the calls of a C function over whole arrays: those at one time are one call."""
        return isinstance(self.body, StageCall) and self.role is Role.VALUE

    @property
    def handle(self) -> str:
        """How the user addresses it: ``C.update``, ``C.init``, ``down.send``, ``down.recv``, or its name."""
        if self.link.message is not None and self.name in (
            f"{self.link.message.exchange}_send",
            f"{self.link.message.exchange}_receive",
        ):
            return f"{self.link.message.exchange}.{'send' if self.role is Role.SEND else 'recv'}"
        name, role = self.name, self.role
        if self.link.combination is not None and role is not Role.MERGE:
            return f"the {'start' if role is Role.INIT else 'combination'} of {self.link.combination.of}"
        if self.link.combination is not None:
            name, role = self.link.combination.of, Role.UPDATE
        return f"{self.source}.{role.value}" if name == f"{self.source}_{role.value}" else name

    @cached_property
    def loads(self) -> frozenset[str]:
        """The names of the storages from which it loads values (and of scalars); not for values in a message."""
        roots = self.guards if self.receives else (self.body, *self.guards)
        read = {access.source for expression in roots for access in accesses(expression)}
        read |= {self.source} if self.moves and not self.receives else set()
        return frozenset(self.memory.sources.get(source, source) for source in read)

    @cached_property
    def frame(self) -> isl.Space:
        """The space of the instances."""
        return self.instances.get_space()

    @cached_property
    def coords_map(self) -> isl.Map:
        """`coords` on the instances."""
        return sets.graph(self.coords, self.instances)

    def loading(self, source: str, storage: str) -> Statement:
        """The statement that loads the values of a source from this storage."""
        return replace(self, memory=replace(self.memory, sources={**self.memory.sources, source: storage}))

    def depth(self, loop: LoopId) -> int:
        """The position of a loop, 0 for the outermost; raises ValueError."""
        return self.loops.index(loop)

    def prefix(self, count: int) -> isl.MultiAff:
        """The iterations of the outermost `count` loops."""
        return sets.prefix(self.coords, count)
