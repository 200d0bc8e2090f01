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
