"""Tiles of cores: the matrix registers of a thread, filled, multiplied and stored."""

from __future__ import annotations

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Cell, Evaluator, Frame
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.strands import Steps
from tiramisu_py.ir import LoadTile, MultiplyTiles, StoreTile
from tiramisu_py.ir.tile_statements import GROUP_BYTES, TILES

#: Floats below this are zero for products in tiles.
_LEAST = np.float32(2.0**-126)


def with_tiles(frame: Frame) -> Frame:
    """A frame with tiles, in which there is nothing yet."""
    inner = frame.branch()
    inner.variables |= {_named(tile): Cell(np.empty((0, 0))) for tile in range(TILES)}
    return inner


def loaded(node: LoadTile, frame: Frame) -> Steps:
    """The steps that load a tile."""
    array, indices = frame.array(node.buffer), _elements(node, frame)
    value = np.array(array.read(indices, node.statement))
    yield None
    _tile(node.tile, node.statement, frame).value = value
    yield None


def stored(node: StoreTile, frame: Frame) -> Steps:
    """The steps that store a tile."""
    value = _full(node.tile, node.statement, frame)
    yield None
    frame.array(node.buffer).write(_elements(node, frame), value, node.statement)
    yield None


def multiplied(node: MultiplyTiles, frame: Frame) -> Steps:
    """The steps that add a product to a tile."""
    left, right = (_full(tile, node.statement, frame) for tile in (node.left, node.right))
    sums = _tile(node.sums, node.statement, frame)
    group = GROUP_BYTES // node.of[1].bytes
    terms = right.reshape(right.shape[0], -1, group).transpose(0, 2, 1).reshape(left.shape[1], -1)
    added = _floats if node.of[0].is_float else _integers
    value = added(_full(node.sums, node.statement, frame), left, terms)
    yield None
    sums.value = value
    yield None


def _integers(sums: Value, left: Value, right: Value) -> Value:
    """Sums of 32 bits, which wrap."""
    return np.asarray(sums.astype(np.int64) + left.astype(np.int64) @ right.astype(np.int64)).astype(sums.dtype)


def _floats(sums: Value, left: Value, right: Value) -> Value:
    """Even and odd terms are added apart, then together, then to the sums; numbers near zero are zero.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS.
    """
    halves = []
    with np.errstate(all="ignore"):
        for first in range(2):
            half = np.zeros(sums.shape, np.float32)
            for k in range(first, left.shape[1], 2):
                a, b = (_flushed(each.astype(np.float32)).astype(np.float64) for each in (left[:, k], right[k]))
                half = _flushed((half + np.outer(a, b)).astype(np.float32))  # fused: products are not rounded
            halves.append(half)
        return _flushed(_flushed(sums) + _flushed(halves[0] + halves[1]))


def _flushed(values: Value) -> Value:
    return np.where(np.abs(values) < _LEAST, np.copysign(np.float32(0), values), values)


def _elements(node: LoadTile | StoreTile, frame: Frame) -> tuple[Value, ...]:
    """The indices of a tile's elements: rows as far apart as the first two, each of neighbours in memory."""
    frame.where = node.statement
    evaluate, shape = Evaluator(frame), frame.array(node.buffer).data.shape
    corners = ([evaluate.integer(e) for e in indices] for indices in (node.first, node.second))
    first, second = (int(np.ravel_multi_index(corner, shape)) for corner in corners)
    places = first + (second - first) * np.arange(node.rows)[:, None] + np.arange(node.columns)
    if places.min() < 0 or places.max() >= int(np.prod(shape)):
        raise InterpretError(f"{node.statement} uses a tile of {node.buffer} that goes beyond the array")
    return tuple(np.unravel_index(places, shape))


def _named(tile: int) -> str:
    return f"<tile {tile}>"


def _tile(tile: int, statement: str, frame: Frame) -> Cell:
    found = frame.variables.get(_named(tile))
    if not isinstance(found, Cell):
        raise InterpretError(f"{statement} uses tile {tile}, and its thread has none there")
    return found


def _full(tile: int, statement: str, frame: Frame) -> Value:
    found = _tile(tile, statement, frame).value
    if found.size == 0:
        raise InterpretError(f"{statement} uses tile {tile}, which nothing has filled")
    return found
