"""BlockLayout: which blocks of a matrix there are, for one head or several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError
from tiramisu_py.patterns.row_segments import Segment, row_segments
from tiramisu_py.patterns.super_blocks import SuperBlock, super_blocks

Array = npt.NDArray[Any]

#: The sizes of super-blocks: 128 elements of a row, for blocks of 16, down to one block.
SIZES = (8, 4, 2, 1)
#: The dimensions of one map.
PLANE = 2


class BlockLayout:
    """The blocks of a sparse matrix: a map of zeros and ones, and how many rows and columns a block has.

    ::

        row, column = np.indices((64, 64))
        layout = tm.patterns.BlockLayout(row >= column, block=16)   # 1024 x 1024 elements, all heads alike
        layout.tables()["start"]                                    # where the blocks of each row begin

    A map of three dimensions has one layer for each head. Blocks are numbered by head, row and column, and their values
    are stored in this order, ``[count, block, block]``; `pack` and `unpack` turn whole matrices into that and back.
    Layouts of the same form are combined by ``&`` and ``|``. Raises `ArgumentError` for a map that has other elements
    than zeros and ones.
    """

    def __init__(self, mask: Any, block: int = 16) -> None:
        given = np.asarray(mask)
        if given.ndim not in (2, 3):
            raise ArgumentError(
                f"mask has {given.ndim} dimensions: give rows and columns of blocks, or heads before them"
            )
        if isinstance(block, bool) or not isinstance(block, int) or block < 1:
            raise ArgumentError(f"block={block!r}: give the rows of a block, at least 1")
        if given.dtype != bool:
            if given.dtype.kind not in "iuf":
                raise ArgumentError(f"mask has elements of type {given.dtype}: give zeros and ones")
            wrong = np.argwhere((given != 0) & (given != 1))
            if len(wrong):
                at = tuple(int(k) for k in wrong[0])
                raise ArgumentError(f"mask[{', '.join(map(str, at))}] is {given[at]}: give zeros and ones")
        self._mask = given.astype(bool)
        self._mask.flags.writeable = False
        self._block = block

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """The map, read-only: ``[rows, columns]``, or ``[heads, rows, columns]``."""
        return self._mask

    @property
    def block(self) -> int:
        """The rows and columns of a block."""
        return self._block

    @property
    def heads(self) -> int:
        """The number of maps: 1 where heads are alike."""
        return len(self._layers)

    @property
    def shape(self) -> tuple[int, int]:
        """The elements of a row and of a column of one head."""
        rows, columns = self._mask.shape[-2:]
        return rows * self._block, columns * self._block

    @cached_property
    def count(self) -> int:
        """The number of blocks, of all heads."""
        return int(self._mask.sum())

    @property
    def density(self) -> float:
        """The share of blocks that there are, from 0 to 1."""
        return self.count / self._mask.size if self._mask.size else 0.0

    @property
    def _layers(self) -> npt.NDArray[np.bool_]:
        return self._mask if self._mask.ndim > PLANE else self._mask[None]

    @cached_property
    def _places(self) -> tuple[Array, Array, Array]:
        head, row, column = np.nonzero(self._layers)
        return head, row, column

    def tables(self, dtype: Any = np.int32) -> dict[str, Array]:
        """The blocks as integer arrays, to be inputs of a program.

        ::

            start = f.input("start", tm.int32, [R + 1], values=(0, B + 1), monotone=True)
            row = f.input("row", tm.int32, [B], values=(0, R))
            column = f.input("column", tm.int32, [B], values=(0, C))
            order = f.input("order", tm.int32, [B], permutation=True)

        `head`, `row` and `column` of each block; `start`, where the blocks of each row of each head begin, and their
        end. For the transposed matrix, `order` has the blocks by head, column and row, `start_of_column` where each
        column begins. With B blocks, R rows and C columns of blocks, these are the facts that a proof may use, as
        declared above.
        """
        head, row, column = self._places
        heads, rows, columns = self._layers.shape
        order = np.lexsort((row, column, head))
        found = {
            "head": head,
            "row": row,
            "column": column,
            "start": _starts(head * rows + row, heads * rows),
            "order": order,
            "start_of_column": _starts(head * columns + column, heads * columns),
        }
        if self.count > np.iinfo(dtype).max:
            raise ArgumentError(f"{self.count} blocks have no numbers in {np.dtype(dtype)}: give tables(np.int64)")
        return {name: np.ascontiguousarray(array, dtype) for name, array in found.items()}

    def superblocks(self, sizes: Sequence[int] = SIZES) -> tuple[SuperBlock, ...]:
        """The blocks, gathered into products of as many rows and columns: each block once, and nothing else.

        ::

            for part in layout.superblocks(sizes=(8, 4, 2, 1)):
                part.rows, part.columns                         # lists that need not touch

        Larger `sizes` come first, by dynamic programming over the nearest neighbours; the last one must be 1. Raises
        `ArgumentError` for other sizes.
        """
        listed = list(sizes)
        whole = all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in listed)
        if not listed or not whole or listed[-1] != 1 or sorted(set(listed), reverse=True) != listed:
            raise ArgumentError(f"sizes={sizes!r}: give decreasing numbers of blocks that end with 1, (8, 4, 2, 1)")
        return tuple(part for head, layer in enumerate(self._layers) for part in super_blocks(layer, listed, head))

    def segments(self, most: int) -> tuple[Segment, ...]:
        """Parts of rows with at most so many blocks each, nearly equal ones of each row: work for programs.

        Blocks are those of `tables`, from ``part.first`` on. Raises `ArgumentError` for a number below 1.
        """
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ArgumentError(f"most={most!r}: give the number of blocks of a segment, at least 1")
        return tuple(row_segments(self.tables(np.int64)["start"].tolist(), self._mask.shape[-2], most))

    def pack(self, matrix: Any) -> Array:
        """The blocks of a whole matrix, ``[count, block, block]``; of ``[heads, ...]`` matrices where heads differ.

        Raises `ArgumentError` for a matrix of another form.
        """
        given = np.asarray(matrix)
        expected = (*self._mask.shape[:-2], *self.shape)
        if given.shape != expected:
            raise ArgumentError(f"matrix has the shape {given.shape}: this layout is of {expected}")
        b = self._block
        parts = given.reshape(self.heads, self.shape[0] // b, b, self.shape[1] // b, b).transpose(0, 1, 3, 2, 4)
        return np.ascontiguousarray(parts[self._places])

    def unpack(self, values: Any, fill: Any = 0) -> Array:
        """The whole matrix of packed blocks, with `fill` where there is none: the inverse of `pack`."""
        given, b = np.asarray(values), self._block
        if given.shape != (self.count, b, b):
            raise ArgumentError(f"values has the shape {given.shape}: this layout has {self.count} blocks of {b} x {b}")
        heads, rows, columns = self._layers.shape
        parts = np.full((heads, rows, columns, b, b), fill, given.dtype)
        parts[self._places] = given
        return parts.transpose(0, 1, 3, 2, 4).reshape(*self._mask.shape[:-2], rows * b, columns * b)

    def elements(self) -> npt.NDArray[np.bool_]:
        """The map of elements."""
        return np.repeat(np.repeat(self._mask, self._block, axis=-2), self._block, axis=-1)

    def __and__(self, other: object) -> BlockLayout:
        """The blocks that both have."""
        return BlockLayout(self._mask & self._like(other), self._block)

    def __or__(self, other: object) -> BlockLayout:
        """The blocks that one of them has."""
        return BlockLayout(self._mask | self._like(other), self._block)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BlockLayout) and self._block == other._block and np.array_equal(self._mask, other._mask)
        )

    def __hash__(self) -> int:
        return hash((self._block, self._mask.shape, self._mask.tobytes()))

    def __repr__(self) -> str:
        form = f"{self._block} x {self._block}, {self.density:.1%} of {self._mask.shape}"
        return f"<BlockLayout {self.count} blocks of {form}>"

    def _like(self, other: object) -> npt.NDArray[np.bool_]:
        if not isinstance(other, BlockLayout):
            raise ArgumentError(f"{other!r:.60} is no layout: combine layouts, tm.patterns.BlockLayout(mask, block=16)")
        if other._block != self._block or other._mask.shape[-2:] != self._mask.shape[-2:]:
            raise ArgumentError(f"{self!r} and {other!r} differ in their form: combine layouts of equal blocks")
        return other._mask


def _starts(keys: Array, count: int) -> Array:
    """Where each of so many keys begins in a sorted list of them, and the end; the list need not be sorted."""
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])
