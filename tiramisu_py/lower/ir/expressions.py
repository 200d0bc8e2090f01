"""Expressions that only the loop IR has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.types import DType, int64


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
class Shifted(Expr):
    """The lanes of `low` from lane `by` on, and after them the first `by` lanes of `high`: elements read unaligned."""

    low: Expr
    high: Expr
    by: int
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("shifted", self.by, self.low.key(), self.high.key())

    def children(self) -> tuple[Expr, ...]:
        return (self.low, self.high)

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Shifted(children[0], children[1], self.by, self.dtype)

    def __str__(self) -> str:
        return f"shifted({self.low}, {self.high}, {self.by})"


@dataclass(frozen=True, eq=False, repr=False)
class Idiom(Expr):
    """An operation of integers, lane by lane, that processors have an instruction for.

    ``distance``: the larger less the smaller; ``add_saturated``, ``subtract_saturated``: the end of the type where the
    result is beyond it; ``average``: (x + y + 1) >> 1, of unsigned x and y, the sum not limited to the type.
    """

    name: str
    operands: tuple[Expr, ...]
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("idiom", self.name, self.dtype.name, *(e.key() for e in self.operands))

    def children(self) -> tuple[Expr, ...]:
        return self.operands

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Idiom(self.name, children, self.dtype)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Expr):
    """The lanes of vectors, one after another."""

    parts: tuple[Expr, ...]
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return ("joined", *(e.key() for e in self.parts))

    def children(self) -> tuple[Expr, ...]:
        return self.parts

    def rebuilt(self, children: tuple[Expr, ...]) -> Expr:
        return Joined(children, self.dtype)


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
