"""Where values are kept: buffers, and the maps from values to their elements."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import islpy as isl

from tiramisu_py.algorithm.expressions import Const, Expr, as_expr
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.types import DType, as_dtype
from tiramisu_py.errors import DeclarationError
from tiramisu_py.program.loops import LoopId


class Memory(Enum):
    """Kinds of memory. A register buffer has constant extents; once loops are unrolled, constants alone index it."""

    HOST = "host"
    REGISTER = "register"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Buffer:
    """An array: its extents (affine in the parameters), its scalar type, its memory and its scope.

    ``tm.Buffer("two", [2, C], tm.float32)`` is for `store_in`. `scope` lists the loops of whose iterations each has its
    own copy; empty for one copy a call. `argument` says that the caller passes the array.
    """

    name: str
    extents: tuple[Expr, ...]
    dtype: DType
    memory: Memory = Memory.HOST
    scope: tuple[LoopId, ...] = ()
    argument: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "a buffer")
        if isinstance(self.extents, int | Expr | str):
            raise DeclarationError(f"the extents of buffer {self.name} are a list, not {self.extents!r}")
        extents = tuple(as_expr(extent) for extent in self.extents)
        for extent in extents:
            if not extent.dtype.is_integer:
                raise DeclarationError(f"the extent {extent} of buffer {self.name} is not an integer")
            if isinstance(extent, Const) and extent.value < 0:
                raise DeclarationError(f"the extent {extent} of buffer {self.name} is negative")
        object.__setattr__(self, "extents", extents)
        object.__setattr__(self, "dtype", as_dtype(self.dtype))


@dataclass(frozen=True, eq=False)
class Storage:
    """A place for the values of one source (a computation or an input).

    `index` maps ``[scope coordinates..., value indices...]`` to the element of `buffer`; the place of a value is
    the scope coordinates, the buffer and that element. `chosen` says that the user placed the values (with `store_in`
    or `store_at`), so that `compute_at` leaves them there.
    """

    name: str
    source: str
    buffer: str
    index: isl.MultiAff
    chosen: bool = False
