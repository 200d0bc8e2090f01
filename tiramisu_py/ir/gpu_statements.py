"""What the host tells GPUs, and what only kernels do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.declarations import Operator
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.ir.statements import Store

if TYPE_CHECKING:
    from tiramisu_py.ir import Node


# -- what the host tells GPUs. Devices are numbers; None is the host.


@dataclass(frozen=True, eq=False)
class Launch:
    """Start a kernel (of `LoopFunction.kernels`) on a grid (x, y, z) of blocks, on an operation sequence of a device.

    `values` are passed for the kernel's scalar parameters, in order; its arrays are the instances that `arrays` names.
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
    """Copy a box of elements between devices: of `extents`, from index `first` of `source` to `into` of `target`.

    Put on operation sequence `stream` of device `device`; unless `asynchronous`, the host goes on when it is complete.
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
    """An array of events of a device, none of which has been recorded, which exists during `body`."""

    roles: ClassVar[Roles] = roles(names="name", operands="extents", inside="body", data="device")

    name: str
    extents: tuple[Expr, ...]
    device: int
    body: Node


@dataclass(frozen=True, eq=False)
class Record:
    """An event happens when everything on an operation sequence up to now is complete."""

    roles: ClassVar[Roles] = roles(names="event", operands="indices", data="device stream")

    event: str
    indices: tuple[Expr, ...]
    device: int
    stream: int


@dataclass(frozen=True, eq=False)
class Await:
    """What comes after on an operation sequence (`stream` None: on the host) waits for an event.

    One that was never recorded has happened.
    """

    roles: ClassVar[Roles] = roles(names="event", operands="indices", data="device stream statement")

    event: str
    indices: tuple[Expr, ...]
    device: int
    stream: int | None
    statement: str


# -- what only kernels do


@dataclass(frozen=True, eq=False)
class Barrier:
    """All threads of the block come here before any of them goes on. `statement` names its origin."""

    roles: ClassVar[Roles] = roles(data="statement")

    statement: str


@dataclass(frozen=True, eq=False)
class Deferred:
    """A store into shared memory of what is loaded from global memory, which has happened only at the next barrier."""

    roles: ClassVar[Roles] = roles(operands="store")

    store: Store


@dataclass(frozen=True, eq=False)
class TreeReduce:
    """Combine each thread's `value` over the block; one of them then combines the result
    into ``buffer[indices]``, atomically.

    All threads of the block come here, and for all of them `indices` are the same.
    """

    roles: ClassVar[Roles] = roles(names="buffer", operands="indices value", data="operator statement")

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    operator: Operator
    statement: str
