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
    loops can make it atomic.
    """

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    statement: str
    update: Operator | None = None


@dataclass(frozen=True, eq=False)
class Allocate:
    """A buffer that exists during `body`. `lanes` > 1: each element is a vector (one more index names a lane of it).
    In a register: named variables.

    `zero`: elements start as 0.
    """

    buffer: str
    extents: tuple[Expr, ...]
    dtype: DType
    body: Node
    register: bool = False
    lanes: int = 1


Node = Block | Comment | For | If | Let | Declare | Assign | Store | Allocate

# -- the function


@dataclass(frozen=True)
class ArrayArgument:
    """An array argument: row-major, of the given extents (expressions of the parameters).

    An in-place array is both input and output. `covered`: the function writes every element of an output, so that
    what the array held before does not matter.
    """

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    is_input: bool
    is_output: bool
    covered: bool = True


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar argument."""

    name: str
    dtype: DType


@dataclass(frozen=True, eq=False)
class LoopFunction:
    """A generated function: parameters (int64), then the arguments in order, then the body.

    `preconditions` are conditions on the parameters, each with the words that say what it means when it fails.
    `outputs` names the array argument that holds each output of the algorithm, in the order of the outputs.
    """

    name: str
    params: tuple[str, ...]
    arguments: tuple[ArrayArgument | ScalarArgument, ...]
    preconditions: tuple[tuple[Expr, str], ...]
    body: Node
    externs: tuple[ExternFunction, ...] = ()
    documentation: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
