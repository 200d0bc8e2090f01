"""Patterns that are known: local, strided and fixed attention, bands with rows and columns of all, and the triangle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.patterns.block_layout import BlockLayout
from tiramisu_py.public_calls import own_call_of


@own_call_of("tm.patterns")
def causal(blocks: int, *, block: int = 16) -> BlockLayout:
    """The lower triangle: a row has the columns up to its own."""
    row, column = _indices(blocks)
    return BlockLayout(column <= row, block)


@own_call_of("tm.patterns")
def local(blocks: int, size: int, *, block: int = 16) -> BlockLayout:
    """Groups of `size` rows and columns along the diagonal, each whole."""
    row, column = _indices(blocks)
    _require(size=size)
    return BlockLayout(row // size == column // size, block)


@own_call_of("tm.patterns")
def strided(blocks: int, stride: int, *, block: int = 16) -> BlockLayout:
    """The `stride` columns up to the row's own, and every column that is a multiple of the stride before it.

    Source: Child et al., "Generating Long Sequences with Sparse Transformers", 2019, section 4.3.
    """
    row, column = _indices(blocks)
    _require(stride=stride)
    back = row - column
    return BlockLayout((back >= 0) & ((back < stride) | (back % stride == 0)), block)


@own_call_of("tm.patterns")
def fixed(blocks: int, stride: int, *, last: int = 1, block: int = 16) -> BlockLayout:
    """The columns of the row's own group of `stride`, up to the row, and the `last` columns of each group before it.

    Source: Child et al., "Generating Long Sequences with Sparse Transformers", 2019, section 4.3.
    """
    row, column = _indices(blocks)
    _require(stride=stride, last=last)
    if last > stride:
        raise ArgumentError(f"last={last}: a group has {stride} columns")
    group = row // stride == column // stride
    return BlockLayout((column <= row) & (group | (column % stride >= stride - last)), block)


@own_call_of("tm.patterns")
def longformer(blocks: int, window: int, globals: Iterable[int] = (), *, block: int = 16) -> BlockLayout:
    """A band of `window` blocks to each side of the diagonal, and the `globals`, rows and columns that have all.

    Source: Beltagy, Peters, Cohan, "Longformer: The Long-Document Transformer", 2020.
    """
    row, column = _indices(blocks)
    if isinstance(window, bool) or not isinstance(window, int) or window < 0:
        raise ArgumentError(f"window={window!r}: give the blocks to each side of the diagonal, at least 0")
    whole = list(globals)
    for each in whole:
        if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each < blocks:
            raise ArgumentError(f"globals has {each!r}: give rows from 0 to {blocks - 1}")
    mask = np.abs(row - column) <= window
    mask[whole, :] = True
    mask[:, whole] = True
    return BlockLayout(mask, block)


def _indices(blocks: Any) -> Any:
    _require(blocks=blocks)
    return np.indices((blocks, blocks))


def _require(**given: object) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(f"{name}={value!r}: give a number of blocks, at least 1")
