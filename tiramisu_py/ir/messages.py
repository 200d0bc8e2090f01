"""Messages between ranks.

A message is a sequence of elements of one type. Code gives its elements as boxes, `Piece` by `Piece`; within a box the
last side runs fastest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.program.statement import SendMode
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.ir import Node


@dataclass(frozen=True)
class Side:
    """One side of a box: its number of elements, and the step of each index from one element to the next."""

    roles: ClassVar[Roles] = roles(operands="extent", data="steps")

    extent: Expr
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """A box of elements of the message's array, starting at index `first`; a box without sides is one element.

    In a `Collective` it goes to, or comes from, rank `peer`.
    """

    roles: ClassVar[Roles] = roles(operands="first sides peer")

    first: tuple[Expr, ...]
    sides: tuple[Side, ...]
    peer: Expr | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """Element `index` of an array of requests, by which a nonblocking message is waited for."""

    roles: ClassVar[Roles] = roles(names="requests", operands="index")

    requests: str
    index: Expr


@dataclass(frozen=True, eq=False)
class Post:
    """Send elements of `array` to rank `peer`, or receive them from it, with a `tag`.

    `elements` is code whose `Piece` nodes, in the order of execution, are the elements. With a `request` the call is
    nonblocking, and a `Complete` waits; without one it returns when the message is complete. `persistent` requests are
    set up once, by the first `Post` that uses them. `statement` names its origin.
    """

    roles: ClassVar[Roles] = roles(
        operands="peer request", inside="elements", reads="array", data="sends dtype tag mode persistent statement"
    )

    sends: bool
    array: str
    dtype: DType
    elements: Node
    peer: Expr
    tag: int
    mode: SendMode
    request: Request | None
    persistent: bool
    statement: str


@dataclass(frozen=True, eq=False)
class Requests:
    """An array of `count` requests that exists during `body`; at first none is in use."""

    roles: ClassVar[Roles] = roles(names="name", operands="count", inside="body")

    name: str
    count: Expr
    body: Node


@dataclass(frozen=True, eq=False)
class Complete:
    """Wait for `count` requests of an array, from element `first` on.

    A request that is not in use is complete. `statement` names its origin.
    """

    roles: ClassVar[Roles] = roles(names="requests", operands="first count", data="statement")

    requests: str
    first: Expr
    count: Expr
    statement: str


@dataclass(frozen=True, eq=False)
class Collective:
    """A call in which all ranks of the process grid take part: each sends elements of `source` to others, and receives
    elements of `target` from others.

    `sends` and `receives` are code whose `Piece` nodes name the rank at the other end; for each such rank they are in
    the order of execution. With a `root` only that rank sends, the same elements to all others; `sends` then names
    the elements for one of them. `statement` names its origin.
    """

    roles: ClassVar[Roles] = roles(
        operands="root", inside="sends receives", reads="source target", data="dtype statement"
    )

    source: str
    target: str
    dtype: DType
    sends: Node
    receives: Node
    root: Expr | None
    statement: str


@dataclass(frozen=True, eq=False)
class AllReduce:
    """Combine an array of partial results over the ranks that differ from this one only along some `axes` of the grid.

    All elements of the array are combined, each with the `operator`, in an order that MPI chooses, or by halves of the
    ranks' numbers in a `tree`. When all of these ranks have reached the call, each gets the result in place. There are
    several `arrays` if values of `dtype` have several components. `statement` names its origin.
    """

    roles: ClassVar[Roles] = roles(reads="arrays", data="dtype operator axes statement tree")

    arrays: tuple[str, ...]
    dtype: DType
    operator: Operator
    axes: tuple[int, ...]
    statement: str
    tree: bool = False
