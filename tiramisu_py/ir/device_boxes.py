"""The box of a buffer that a GPU holds, where it needs only a part of the buffer."""

from __future__ import annotations

from dataclasses import dataclass

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.program.storage import Buffer


@dataclass(frozen=True, eq=False)
class Side:
    """One dimension of a box, as expressions of the parameters: its first index, and its extent."""

    origin: Expr
    extent: Expr


@dataclass(frozen=True, eq=False)
class DeviceBox:
    """What GPU `device` holds of a buffer; None for a dimension that is whole."""

    buffer: Buffer
    device: int
    sides: tuple[Side | None, ...]

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The extents of the array on the GPU."""
        pairs = zip(self.buffer.extents, self.sides, strict=True)
        return tuple(whole if side is None else side.extent for whole, side in pairs)

    @property
    def origins(self) -> tuple[Expr, ...]:
        """The indices of its first element."""
        return tuple(arithmetic.number(0) if side is None else side.origin for side in self.sides)

    def at(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Where the box has the element with these indices."""
        pairs = zip(indices, self.sides, strict=True)
        return tuple(i if side is None else simplified(arithmetic.subtracted(i, side.origin)) for i, side in pairs)
