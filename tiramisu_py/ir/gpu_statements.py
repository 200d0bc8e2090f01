"""Statements by which the host commands GPUs, and statements that only kernels have."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.ir.statements import Store
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.ir import Node


# -- commands of the host to GPUs. Devices are numbers; None is the host.


@dataclass(frozen=True, eq=False)
class Launch:
    """Start a kernel (of `LoopFunction.kernels`) on a grid (x, y, z) of blocks, on an operation sequence of a device.

    `values` are passed for the kernel's scalar parameters, in order, and `arrays` for its array parameters.
    """

    roles: ClassVar[Roles] = roles(operands="grid values", reads="arrays", data="kernel device stream")

    kernel: str
    grid: tuple[Expr, Expr, Expr]
    values: tuple[Expr, ...]
    arrays: tuple[str, ...]
    device: int
    stream: int


@dataclass(frozen=True, eq=False)
class Copy:
    """Copy a box of `extents` between devices: from index `first` of `source` to index `into` of `target`.

    The copy is put on operation sequence `stream` of `device`; unless `asynchronous`, the host waits for its end.
    `statement` names its origin.
    """

    roles: ClassVar[Roles] = roles(
        operands="into first extents",
        reads="target source",
        data="target_device source_device dtype device stream asynchronous statement",
    )

    target: str
    target_device: int | None
    into: tuple[Expr, ...]
    source: str
    source_device: int | None
    first: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    dtype: DType
    device: int
    stream: int
    asynchronous: bool
    statement: str


@dataclass(frozen=True, eq=False)
class Events:
    """An array of events of a device that exists during `body`; at first none has been recorded."""

    roles: ClassVar[Roles] = roles(names="name", operands="extents", inside="body", data="device")

    name: str
    extents: tuple[Expr, ...]
    device: int
    body: Node


@dataclass(frozen=True, eq=False)
class Record:
    """Record an event: it happens when everything put on an operation sequence so far is complete."""

    roles: ClassVar[Roles] = roles(names="event", operands="indices", data="device stream")

    event: str
    indices: tuple[Expr, ...]
    device: int
    stream: int


@dataclass(frozen=True, eq=False)
class Await:
    """Make all later work on an operation sequence wait for an event (`stream` None: make the host wait).

    An event that was never recorded counts as having happened.
    """

    roles: ClassVar[Roles] = roles(names="event", operands="indices", data="device stream statement")

    event: str
    indices: tuple[Expr, ...]
    device: int
    stream: int | None
    statement: str


# -- statements of kernels only


@dataclass(frozen=True, eq=False)
class Barrier:
    """A barrier: all threads of the block reach it before any of them goes on. `statement` names its origin."""

    roles: ClassVar[Roles] = roles(data="statement")

    statement: str


@dataclass(frozen=True, eq=False)
class Deferred:
    """A store of loaded global memory into shared memory that is complete only at the next barrier, or a later one."""

    roles: ClassVar[Roles] = roles(operands="store", data="barriers")

    store: Store
    barriers: int = 1


@dataclass(frozen=True, eq=False)
class TreeReduce:
    """Combine each thread's value with those of the threads that differ along `axes` of the block only, in a tree.

    A value of `dtype` has several components if that is a tuple: `values`, of which the result is stored in
    ``buffer[indices]`` of as many `buffers`; else there is one of each. That is an element that each thread has of its
    own: by the first thread of each tree, or with `everyone` by all of them; other threads have any value there. All
    threads of the block reach it.
    """

    roles: ClassVar[Roles] = roles(
        names="buffers", operands="indices values", data="dtype operator statement axes everyone"
    )

    buffers: tuple[str, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    dtype: DType
    operator: Operator
    statement: str
    axes: tuple[int, ...] = (0, 1, 2)
    everyone: bool = False


@dataclass(frozen=True, eq=False)
class Mma:
    """Add a product of small matrices to the sums of a warp, in its tensor cores; all threads of the warp reach it.

    Each thread (x, y) of a warp has four elements of `buffer` of its own, the sums of rows y and y + 8 and of columns
    2x and 2x + 1: `indices` are those of each of them, row by row. It loads `left`, of its rows, and `right`, of column
    y, of the terms that begin at the group x, 4 bytes of terms each: of the first 4 groups for both rows, then of the
    next ones.
    """

    roles: ClassVar[Roles] = roles(names="buffer", operands="indices left right", data="instruction statement")

    buffer: str
    indices: tuple[Expr, ...]
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    instruction: str
    statement: str

    @property
    def places(self) -> tuple[tuple[Expr, ...], ...]:
        """The indices of the four sums."""
        rank = len(self.indices) // 4
        return tuple(self.indices[k * rank : (k + 1) * rank] for k in range(4))


@dataclass(frozen=True, eq=False)
class LoadMatrices:
    """Load small matrices of shared memory into elements that each thread of a warp has of its own; all of it reach it.

    A matrix has 8 rows of 16 bytes. Thread (x, y) has 4 bytes of each one, those from 4x on of row y; of `transposed`
    ones, whose elements have 2 bytes, the elements y of the rows 2x and 2x + 1. Matrix k is for ``buffer[first + k]``.
    `row` is what the thread says for all: thread ``n = 4y + x`` has the place of row ``n % 8`` of matrix ``n // 8``,
    modulo `count`.
    """

    roles: ClassVar[Roles] = roles(names="buffer", operands="first row", data="count transposed statement")

    buffer: str
    first: Expr
    row: Expr
    count: int
    transposed: bool
    statement: str


@dataclass(frozen=True, eq=False)
class Locked:
    """One block after another runs `body`, of those with the same lock: all threads of the block come here.

    ``locks[index]`` is 1 while a block has the lock, and 0 before the first and after the last. With a `number` of the
    block, of `count`, blocks go in the order of these numbers: ``locks[index]`` is that of the block whose turn it is,
    and 0 again after the last. What a block has stored in its turn is seen by the next ones.
    """

    roles: ClassVar[Roles] = roles(names="locks", operands="index number count", inside="body", data="statement")

    locks: str
    index: Expr
    body: Node
    statement: str
    number: Expr | None = None
    count: Expr | None = None


@dataclass(frozen=True, eq=False)
class LastBlock:
    """The last of some blocks runs `body`: the one that takes the last of `count` tickets.

    Each block takes one, once all of its threads have come here; then all of its stores are seen by the block that
    takes the last ticket. ``tickets[index]`` has the number that these blocks have taken: 0 before the first, and 0
    again after the last.
    """

    roles: ClassVar[Roles] = roles(names="tickets", operands="index count", inside="body", data="statement")

    tickets: str
    index: Expr
    count: Expr
    body: Node
    statement: str
