"""Statements on the matrix registers of cores: tiles, of which a thread has eight while it is inside `Tiles`.

A tile has `rows` rows, each of whole elements that are neighbours in memory. The factors of a product lie in two ways::

    left[i, k]     row i has the terms k of row i of the sums
    right[k, j]    row k // g has, for each column j, the g terms k of one group: 4 bytes (VNNI)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.ir import Node

#: The tiles of a thread.
TILES = 8
#: The bytes of the terms in one group of the right factor.
GROUP_BYTES = 4


@dataclass(frozen=True, eq=False)
class Tiles:
    """The thread has tiles during `body`: they are configured before it, and released after it."""

    roles: ClassVar[Roles] = roles(inside="body")

    body: Node


@dataclass(frozen=True, eq=False)
class LoadTile:
    """Load a tile of `rows` times `columns` elements of a buffer: the first one is at `first`, that of row 1 at
    `second`.

    The elements of a row follow each other in memory, and rows are as far from each other as `second` is from `first`.
    """

    roles: ClassVar[Roles] = roles(reads="buffer", operands="first second", data="tile dtype rows columns statement")

    tile: int
    buffer: str
    first: tuple[Expr, ...]
    second: tuple[Expr, ...]
    dtype: DType
    rows: int
    columns: int
    statement: str


@dataclass(frozen=True, eq=False)
class StoreTile:
    """Store a tile to the places from which `LoadTile` would load it."""

    roles: ClassVar[Roles] = roles(names="buffer", operands="first second", data="tile dtype rows columns statement")

    tile: int
    buffer: str
    first: tuple[Expr, ...]
    second: tuple[Expr, ...]
    dtype: DType
    rows: int
    columns: int
    statement: str


@dataclass(frozen=True, eq=False)
class MultiplyTiles:
    """Add the product of two tiles, of elements of the types `of`, to the tile `sums`."""

    roles: ClassVar[Roles] = roles(data="sums left right of statement")

    sums: int
    left: int
    right: int
    of: tuple[DType, DType]
    statement: str
