"""The box of a buffer that a GPU holds if it needs only a part of the buffer."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.program.storage import Buffer
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class BoxSide:
    """One dimension of a box, as expressions of the parameters: its first index, and its extent."""

    origin: Expr
    extent: Expr


@dataclass(frozen=True, eq=False)
class DeviceBox:
    """The part of a buffer that GPU `device` holds; a side that is None is a whole dimension."""

    buffer: Buffer
    device: int
    sides: tuple[BoxSide | None, ...]

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The extents of the array on the GPU."""
        pairs = zip(self.buffer.extents, self.sides, strict=True)
        return tuple(whole if side is None else side.extent for whole, side in pairs)
