"""The loop IR: everything that a generated function consists of, on one screen.

Expressions are those of Layer I, fully typed (no weak types: conversions are explicit `Cast` nodes, index
arithmetic is int64), with loop variables as `Iter`, and with `Load` in place of `Access`. An expression has one lane
unless it contains a `Ramp`, a vector `Load` or a vector variable; a scalar operand of a vector operation is broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tiramisu_py.algorithm.declarations import Operator
from tiramisu_py.algorithm.expressions import Expr, ExternFunction, Iter
from tiramisu_py.algorithm.types import DType, int64
from tiramisu_py.program.loops import Combine, Tag
from tiramisu_py.program.storage import Memory

# -- expressions that only the loop IR has


@dataclass(frozen=True, eq=False, repr=False)
class Load(Expr):
    """An element of a buffer, or one for each lane where an index has lanes."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("load", self.buffer, *(i.key() for i in self.indices))

    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Load(self.buffer, children, self.dtype)

    def __str__(self) -> str:
        return f"{self.buffer}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True, eq=False, repr=False)
class Scalar(Expr):
    """A scalar argument of the function."""

    name: str
    dtype: DType

    def __str__(self) -> str:
        return self.name

    def key(self) -> tuple[Any, ...]:
        return ("scalar", self.name)


@dataclass(frozen=True, eq=False, repr=False)
class Variable(Iter):
    """A variable of `Declare`, which holds a value; other `Iter` nodes are loop variables and bounds."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class Ramp(Expr):
    """``base + lane`` for each of `lanes` lanes: what a vectorised loop variable becomes."""

    base: Expr
    lanes: int
    dtype: DType = field(default=int64)

    def key(self) -> tuple[Any, ...]:
        return ("ramp", self.lanes, self.base.key())

    def children(self) -> tuple[Expr, ...]:
        return (self.base,)

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Ramp(children[0], self.lanes, self.dtype)

    def __str__(self) -> str:
        return f"{self.base} : {self.base} + {self.lanes}"


@dataclass(frozen=True, eq=False, repr=False)
class Lane(Expr):
    """One lane of a vector variable."""

    vector: Expr
    lane: Expr
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("lane", self.vector.key(), self.lane.key())

    def children(self) -> tuple[Expr, ...]:
        return (self.vector, self.lane)

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Lane(children[0], children[1], self.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class GpuIndex(Expr):
    """The number of this block in the grid, or of this thread in its block, along an axis (0 is x).

    Of the unit "grid", the number of blocks that were launched along the axis.
    """

    unit: str  # "block", "thread" or "grid"
    axis: int
    dtype: DType = field(default=int64)

    def key(self) -> tuple[Any, ...]:
        return ("gpu", self.unit, self.axis)

    def __str__(self) -> str:
        return f"{self.unit}{'Dim' if self.unit == 'grid' else 'Idx'}.{'xyz'[self.axis]}"


# -- statements


@dataclass(frozen=True, eq=False)
class Block:
    """Statements in sequence."""

    body: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Comment:
    """A line for the reader."""

    text: str


@dataclass(frozen=True, eq=False)
class For:
    """``for (variable = lower; variable < upper; variable += step)``; `tag` says how iterations run.

    `reductions` are the buffers of which a parallel (or vector) loop keeps private copies, see `Private`.
    """

    variable: str
    lower: Expr
    upper: Expr
    body: Node
    step: int = 1
    tag: Tag | None = None
    reductions: tuple[Private, ...] = ()


@dataclass(frozen=True, eq=False)
class Private:
    """A buffer that a loop's iterations only update with one operator: combined from private copies, or atomically."""

    buffer: str
    operator: Operator
    combine: Combine


@dataclass(frozen=True, eq=False)
class If:
    """``if (condition) then else otherwise``."""

    condition: Expr
    then: Node
    otherwise: Node | None = None


@dataclass(frozen=True, eq=False)
class Let:
    """``const dtype variable = value``, visible in `body`."""

    variable: str
    value: Expr
    body: Node


@dataclass(frozen=True, eq=False)
class Declare:
    """``dtype variable = value``, visible in the rest of the block. With `lanes` > 1 it is a vector.

    `Assign` changes it, unless it is `constant`. Declared names are unique in a function.
    """

    variable: str
    value: Expr
    lanes: int = 1
    constant: bool = False


@dataclass(frozen=True, eq=False)
class Assign:
    """``variable = value``, of a variable of `Declare`. `statement` names its origin."""

    variable: str
    value: Expr
    statement: str


@dataclass(frozen=True, eq=False)
class Store:
    """``buffer[indices] = value``; with lanes, to as many elements at once. `statement` names its origin.

    With `update`, the value is ``update(buffer[indices], term)`` already; the operator is kept so that parallel
    loops can make it atomic. In a kernel, `atomic` says that other threads or blocks update the same element.
    """

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    statement: str
    update: Operator | None = None
    atomic: bool = False


@dataclass(frozen=True, eq=False)
class Allocate:
    """A buffer that exists during `body`. `lanes` > 1: each element is a vector (one more index names a lane of it).
    In a register: named variables. `memory` and `device` say where it is: HOST, PINNED or HOST_MAPPED memory of the
    host, GPU memory of a device, SHARED memory of the block that runs the body (constant extents).
    """

    buffer: str
    extents: tuple[Expr, ...]
    dtype: DType
    body: Node
    register: bool = False
    lanes: int = 1
    memory: Memory = Memory.HOST
    device: int | None = None


# -- what the host tells GPUs. Devices are numbers; None is the host.


@dataclass(frozen=True, eq=False)
class Launch:
    """Start a kernel (of `LoopFunction.kernels`) on a grid (x, y, z) of blocks, on an operation sequence of a device.

    `values` are passed for the kernel's scalar parameters, in order; its arrays are the instances that `arrays` names.
    """

    kernel: str
    grid: tuple[Expr, Expr, Expr]
    values: tuple[Expr, ...]
    arrays: tuple[str, ...]
    device: int
    stream: int


@dataclass(frozen=True, eq=False)
class Copy:
    """Copy a box of elements between devices: of `extents`, from index `first` of `source` to `into` of `target`.

    Put on operation sequence `stream` of device `device`; unless `asynchronous`, the host goes on when it is complete.
    `statement` names its origin.
    """

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
    """An array of events of a device, none of which has been recorded, which exists during `body`."""

    name: str
    extents: tuple[Expr, ...]
    device: int
    body: Node


@dataclass(frozen=True, eq=False)
class Record:
    """An event happens when everything on an operation sequence up to now is complete."""

    event: str
    indices: tuple[Expr, ...]
    device: int
    stream: int


@dataclass(frozen=True, eq=False)
class Await:
    """What comes after on an operation sequence (`stream` None: on the host) waits for an event.

    One that was never recorded has happened.
    """

    event: str
    indices: tuple[Expr, ...]
    device: int
    stream: int | None
    statement: str


# -- what only kernels do


@dataclass(frozen=True, eq=False)
class Barrier:
    """All threads of the block come here before any of them goes on. `statement` names its origin."""

    statement: str


@dataclass(frozen=True, eq=False)
class Deferred:
    """A store into shared memory of what is loaded from global memory, which has happened only at the next barrier."""

    store: Store


@dataclass(frozen=True, eq=False)
class TreeReduce:
    """Combine each thread's `value` over the block; one of them then combines the result
    into ``buffer[indices]``, atomically.

    All threads of the block come here, and for all of them `indices` are the same.
    """

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    operator: Operator
    statement: str


Node = (
    Block
    | Comment
    | For
    | If
    | Let
    | Declare
    | Assign
    | Store
    | Allocate
    | Launch
    | Copy
    | Events
    | Record
    | Await
    | Barrier
    | Deferred
    | TreeReduce
)

# -- the function


@dataclass(frozen=True)
class ArrayArgument:
    """An array argument: row-major, of the given extents (expressions of the parameters).

    An in-place array is both input and output. `covered`: the function writes every element of an output, so that
    what the array held before does not matter. `device` is the GPU in whose memory it is; None for the host's.
    """

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    is_input: bool
    is_output: bool
    covered: bool = True
    device: int | None = None


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar argument."""

    name: str
    dtype: DType


@dataclass(frozen=True, eq=False)
class KernelArray:
    """An array parameter of a kernel, by the name that its body uses: row-major, of the given extents."""

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    is_constant: bool
    memory: Memory = Memory.GPU


@dataclass(frozen=True, eq=False)
class KernelFunction:
    """What each thread of a kernel executes.

    `params` are int64 parameters (sizes, and coordinates of the host's loops), `scalars` those of other types; then
    come the arrays. `threads` is the shape of a block (x, y, z). `nonnegative` are parameters that are at least 0,
    beside sizes.
    """

    name: str
    params: tuple[str, ...]
    scalars: tuple[ScalarArgument, ...]
    arrays: tuple[KernelArray, ...]
    threads: tuple[int, int, int]
    body: Node
    minimum_blocks: int | None = None
    device: int = 0
    documentation: tuple[str, ...] = ()
    nonnegative: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LoopFunction:
    """A generated function: parameters (int64), then the arguments in order, then the body.

    `preconditions` are conditions on the parameters, each with the words that say what it means when it fails.
    `outputs` names the array argument that holds each output of the algorithm, in the order of the outputs. `kernels`
    are what its launches start; `devices` is the number of GPUs that it uses.
    """

    name: str
    params: tuple[str, ...]
    arguments: tuple[ArrayArgument | ScalarArgument, ...]
    preconditions: tuple[tuple[Expr, str], ...]
    body: Node
    externs: tuple[ExternFunction, ...] = ()
    documentation: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    kernels: tuple[KernelFunction, ...] = ()
    devices: int = 0
