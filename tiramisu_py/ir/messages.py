"""What a rank tells other ranks.

A message is a sequence of elements of one type. Its elements are given as code that names boxes of them, `Piece` by
`Piece`; the order within a box is that of its sides, the last one running fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.declarations import Operator
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.program.statement import SendMode

if TYPE_CHECKING:
    from tiramisu_py.ir import Node


@dataclass(frozen=True)
class Side:
    """One side of a box of elements: how many there are along it, and from each to the next the step of each index."""

    roles: ClassVar[Roles] = roles(operands="extent", data="steps")

    extent: Expr
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """A box of elements of the message's array, from index `first`; one element where it has no sides.

    In a `Collective` it is for, or from, rank `peer`.
    """

    roles: ClassVar[Roles] = roles(operands="first sides peer")

    first: tuple[Expr, ...]
    sides: tuple[Side, ...]
    peer: Expr | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """Element `index` of an array of requests: what a nonblocking message is waited for by."""

    roles: ClassVar[Roles] = roles(names="requests", operands="index")

    requests: str
    index: Expr


@dataclass(frozen=True, eq=False)
class Post:
    """Send elements of `array` to rank `peer`, or receive them from there, with a `tag`.

    `elements` is code whose `Piece` nodes, in the order of execution, are the elements. With a `request` the rank goes
    on at once, and a `Complete` waits; without one it goes on when the message is complete. `persistent` requests are
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
    """An array of `count` requests, none of which is in use, which exists during `body`."""

    roles: ClassVar[Roles] = roles(names="name", operands="count", inside="body")

    name: str
    count: Expr
    body: Node


@dataclass(frozen=True, eq=False)
class Complete:
    """Go on when `count` requests from element `first` of an array of requests on are complete.

    One that is not in use is complete. `statement` names its origin.
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
    the order of execution. With a `root` that rank alone sends, the same elements to all others: those that `sends`
    names for one of them. `statement` names its origin.
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
    """Combine an array of partial results over the ranks that differ from this one along some `axes` of the grid only.

    Each of these ranks gets the outcome, in place, when all of them have come to it: element by element, in an order
    that MPI chooses, by the `operator`. All elements of the array take part. `statement` names its origin.
    """

    roles: ClassVar[Roles] = roles(reads="array", data="dtype operator axes statement")

    array: str
    dtype: DType
    operator: Operator
    axes: tuple[int, ...]
    statement: str
