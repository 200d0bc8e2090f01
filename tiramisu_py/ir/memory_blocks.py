"""Blocks of memory that arrays have one after another: their lifetimes in a function, from `BeginArray` to `EndArray`.

::

    block m of the largest of a[N, M], c[N]:     MemoryBlock
        begin a[N, M] in m                       BeginArray
        ...                                      the statements that use a
        end a                                    EndArray
        begin c[N] in m                          what a had there is lost

An `Allocate` is a scope; lifetimes overlap in any way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.ir import Node


@dataclass(frozen=True)
class ArrayRoom:
    """The room that an array needs: `extents` elements, each of `lanes` values of `dtype`."""

    roles: ClassVar[Roles] = roles(operands="extents", data="dtype lanes")

    extents: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1


@dataclass(frozen=True, eq=False)
class MemoryBlock:
    """Memory that is known as `name` in `body`, of the size of the largest of `rooms`: of the host, or of a `device`.

    `arrays` are the arrays that have it in turns, in their order. A `lasting` block is allocated before the body, and
    freed after it; another one by the first `BeginArray` in it, and freed by an `EndArray` that says so, or else after
    the body.
    """

    roles: ClassVar[Roles] = roles(names="name", operands="rooms", inside="body", data="arrays device lasting")

    name: str
    rooms: tuple[ArrayRoom, ...]
    arrays: tuple[str, ...]
    body: Node
    device: int | None = None
    lasting: bool = False


@dataclass(frozen=True, eq=False)
class BeginArray:
    """From here on a block's memory is that of `buffer`, whose elements have no values yet; visible in the rest of the
    `Block`. The array that had the memory before is not used any more. `ring` and `padded` are those of `Allocate`.
    """

    roles: ClassVar[Roles] = roles(names="buffer block", operands="extents", data="dtype lanes device ring padded")

    buffer: str
    block: str
    extents: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1
    device: int | None = None
    ring: bool = False
    padded: bool = False


@dataclass(frozen=True, eq=False)
class EndArray:
    """An array is not used any more, by nothing that still runs; with `frees`, its block has no memory from here on."""

    roles: ClassVar[Roles] = roles(names="buffer block", data="frees")

    buffer: str
    block: str
    frees: bool = False
