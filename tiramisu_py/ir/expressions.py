"""Expressions that only the loop IR has."""

from __future__ import annotations

from dataclasses import field

from tiramisu_py.algorithm.expression_text import Pieces, listed
from tiramisu_py.algorithm.expressions import Expr, Iter, Select
from tiramisu_py.algorithm.types import DType, int64
from tiramisu_py.program.machine.asynchronous_copies import is_zero
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Load(Expr, kind="load", own="buffer", operands="*indices"):
    """An element of a buffer, or one for each lane where an index has lanes."""

    buffer: str
    indices: tuple[Expr, ...]
    dtype: DType

    def pieces(self) -> Pieces:
        return [f"{self.buffer}[", *listed(self.indices), "]"]


@dataclass(frozen=True, eq=False, repr=False)
class Scalar(Expr, kind="scalar", own="name"):
    """A scalar argument of the function."""

    name: str
    dtype: DType

    def pieces(self) -> Pieces:
        return [self.name]


@dataclass(frozen=True, eq=False, repr=False)
class Variable(Iter):
    """A variable of `Declare`, which holds a value; other `Iter` nodes are loop variables and bounds."""

    def pieces(self) -> Pieces:
        return [self.name]


@dataclass(frozen=True, eq=False, repr=False)
class Ramp(Expr, kind="ramp", own="lanes", operands="base"):
    """``base + lane`` for each of `lanes` lanes: the value of a vectorised loop variable."""

    base: Expr
    lanes: int
    dtype: DType = field(default=int64)

    def pieces(self) -> Pieces:
        return [(self.base, 0), " : ", (self.base, 0), f" + {self.lanes}"]


@dataclass(frozen=True, eq=False, repr=False)
class Lane(Expr, kind="lane", operands="vector lane"):
    """One lane of a vector variable."""

    vector: Expr
    lane: Expr
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class Shifted(Expr, kind="shifted", own="by", operands="low high"):
    """The lanes of `low` from lane `by` on, then the first `by` lanes of `high`: an unaligned read."""

    low: Expr
    high: Expr
    by: int
    dtype: DType

    def pieces(self) -> Pieces:
        return ["shifted(", *listed(self.children()), f", {self.by})"]


@dataclass(frozen=True, eq=False, repr=False)
class Idiom(Expr, kind="idiom", own="name dtype", operands="*operands"):
    """An operation on integers, lane by lane, for which processors have an instruction.

    ``distance``: the larger minus the smaller; ``add_saturated``, ``subtract_saturated``: clamped to the range of the
    type; ``average``: (x + y + 1) >> 1 of unsigned x and y, computed without wrapping;
    ``narrowed``, of one operand: its low bits, where that is twice as wide and made of widened ones
    (`ir.arithmetic.pairs`).
    """

    name: str
    operands: tuple[Expr, ...]
    dtype: DType

    def pieces(self) -> Pieces:
        return [f"{self.name}(", *listed(self.operands), ")"]


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Expr, kind="joined", operands="*parts"):
    """The lanes of vectors, one after another."""

    parts: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, repr=False)
class GpuIndex(Expr, kind="gpu", own="unit axis"):
    """The number of this block in the grid, or of this thread in its block, along an axis (0 is x).

    With the unit "grid", it is the number of blocks launched along the axis.
    """

    unit: str  # "block", "thread" or "grid"
    axis: int
    dtype: DType = field(default=int64)

    def pieces(self) -> Pieces:
        return [f"{self.unit}{'Dim' if self.unit == 'grid' else 'Idx'}.{'xyz'[self.axis]}"]


def filled_load(value: Expr) -> Load | None:
    """The load that a value is, or is under a condition with zero elsewhere, all bits of it; None for other values."""
    if isinstance(value, Select) and is_zero(value.no):
        value = value.yes
    return value if isinstance(value, Load) else None
