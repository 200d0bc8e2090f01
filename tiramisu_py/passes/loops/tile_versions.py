"""Versions of a partial tile: one for each extent that it may have, by iterations or by whole vectors.

Before: ``if (R - 8*r0 >= 8) ... else for r1 in 0 .. min(8, R - 8*r0): ...``. After, by iterations: ``else if (R -
8*r0 >= 7) for r1 in 0 .. 7: ... else if (R - 8*r0 >= 6) for r1 in 0 .. 6: ...`` and so on, down to one iteration, so
that partial tiles are unrolled, too.

By vectors, of a loop of 16 lanes: ``if (M - 64*j0 >= 49) for j in 0 .. 48: S, for j in 48 .. min(64, M - 64*j0): S
else if (M - 64*j0 >= 33) for j in 0 .. 32: S, for j in 32 .. min(48, M - 64*j0): S`` and so on, down to one vector, so
that no vector is computed that is not there, and only the last one has a mask. A loop padded to whole vectors has a
constant trip count in each version: 64, 48, 32, 16.

Versions have no prefetches: a partial tile is mostly the last of its row, and they would be a sixth of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Assign, Deferred, For, Node, Store
from tiramisu_py.ir.arithmetic.linear import Key, difference, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import children, walk, with_children, without_prefetches
from tiramisu_py.passes.loops.full_tile import at_least, full_tile
from tiramisu_py.passes.loops.strip_tile import StripTile, strip_tile, strip_tiles
from tiramisu_py.program.loops import MOST_COPIES, Unroll, Vector
from tiramisu_py.records import dataclass

#: A test, and the statement where it holds and those of larger extents do not.
Version = tuple[Expr, Node]
Conditions = Mapping[Key, Expr]


@dataclass(frozen=True, eq=False)
class TileVersions:
    """The versions of a statement where the `conditions` of its full tiles do not hold.

    `partial` are those of each extent, the smallest first; `empty` is the statement where none of their tests holds.
    """

    conditions: Conditions
    partial: Sequence[Version]
    empty: Node


# -- by iterations


def is_special(loop: Node) -> bool:
    """Whether a loop is to have a version for each number of iterations."""
    return isinstance(loop, For) and isinstance(loop.tag, Unroll) and loop.tag.remainder == "specialize"


def special(node: Node, keys: Iterator[Key]) -> Key | None:
    """The first of `keys` that is a full-tile condition of a loop with a version for each number of iterations."""
    known = [tile.conditions for loop in _special_loops(node) if (tile := full_tile(loop)) is not None]
    return next((key for key in keys if any(key in conditions for conditions in known)), None)


def by_iterations(node: Node, condition: Expr) -> TileVersions:
    """A version for each partial extent of the tiles that `condition`, which does not hold, would make full."""
    made = list(_by_iterations(node, condition))
    return TileVersions({condition.key(): condition}, made[::-1], _no_version(node, condition, len(made)))


def _by_iterations(node: Node, condition: Expr) -> Iterator[Version]:
    """The versions, the largest first, as many as are not too long together."""
    assert isinstance(condition, Binary)
    key, most = condition.key(), constant(condition.right)
    assert most is not None
    count = 0
    for short in range(1, min(_extents(node, condition))):
        test = simplified(Binary(">=", condition.left, number(most - short), bool_))
        version = simplify(without_prefetches(_shortened(node, key, short)))
        count += _statements(version)
        if count > MOST_COPIES:
            return
        yield test, version


def without_versions(node: Node) -> Node:
    """The statement with plain loops for partial tiles that would have a version for each number of iterations."""
    node = with_children(node, without_versions)
    if not is_special(node) or not isinstance(node, For) or full_tile(node) is None:
        return node
    return replace(node, tag=None)


def _no_version(node: Node, condition: Expr, made: int) -> Node:
    """The statement where none of the `made` versions is chosen: without its tiles, if those have no iterations there.

    Otherwise as it is: some extents may have no version, since there would be too many or the tiles differ.
    """
    extents = _extents(node, condition)
    key, extent = condition.key(), extents[0]
    return simplify(_shortened(node, key, extent)) if set(extents) == {extent} and made == extent - 1 else node


def is_too_long(node: Node) -> bool:
    """Whether the unrolled code is too long; the proof has refused loops that are too long by themselves."""
    return _statements(node) > MOST_COPIES


def _extents(node: Node, condition: Expr) -> list[int]:
    """The extents of the tiles that a condition makes full."""
    tiles = (tile for loop in _special_loops(node) if (tile := full_tile(loop)) is not None)
    return [difference(tile.upper, tile.lower) or 1 for tile in tiles if condition.key() in tile.conditions]


def _special_loops(node: Node) -> Iterator[For]:
    return (loop for loop in walk(node) if isinstance(loop, For) and is_special(loop))


def _shortened(node: Node, key: Key, by: int) -> Node:
    """The statement with the tiles of a condition `by` iterations shorter than full."""
    node = with_children(node, lambda child: _shortened(child, key, by))
    tile = full_tile(node) if isinstance(node, For) else None
    if tile is None or key not in tile.conditions or not isinstance(node, For):
        return node
    low, high = tile.lower, tile.upper
    lowers = [other for other in operands("max", node.lower) if other.key() != low.key()]
    uppers = [other for other in operands("min", node.upper) if other.key() != high.key()]
    kept_low = [other for other in lowers if at_least(low, other).key() != key]
    kept_high = [other for other in uppers if at_least(other, high).key() != key]
    low = Binary("+", low, number(by), int64) if len(kept_low) < len(lowers) else low
    high = Binary("-", high, number(by), int64) if len(kept_high) < len(uppers) else high
    for other in kept_low:
        low = Binary("max", low, other, int64)
    for other in kept_high:
        high = Binary("min", high, other, int64)
    return replace(node, lower=simplified(low), upper=simplified(high))


@deep
def _statements(node: Node) -> int:
    """The number of statements after unrolling."""
    if isinstance(node, Store | Assign | Deferred):
        return 1
    inside = sum(map(_statements, children(node)))
    if not isinstance(node, For) or not isinstance(node.tag, Unroll | Vector):
        return inside
    trip = difference(node.upper, node.lower)
    if isinstance(node.tag, Vector):
        return inside * max(1, (trip or 0) // node.tag.width)
    return inside * (node.tag.factor or trip or 1)


# -- by vectors


def by_vectors(node: Node, conditions: Conditions) -> TileVersions | None:
    """The versions by the number of strips of some loops, which is the same for all of them.

    None if none of the conditions is that of such a loop. With all strips a padded loop is full: that is a version if a
    loop beside it is masked.
    """
    tiles = [tile for tile in strip_tiles(node) if tile.full.key() in conditions]
    if not tiles:
        return None
    first, beside = tiles[0], [tile for tile in tiles if tile.is_beside(tiles[0])]
    own = {tile.full.key(): tile.full for tile in beside}
    only_padded = set(own) == {first.full.key()} and first.padded
    partial = [
        (
            first.holds((strips - 1) * first.width + 1),
            without_versions(without_prefetches(_of_strips(node, first, strips))),
        )
        for strips in range(1, first.extent // first.width + (0 if only_padded else 1))
    ]
    return TileVersions(own, partial, _of_strips(node, first, 0))


def _of_strips(node: Node, tile: StripTile, strips: int) -> Node:
    """The statement where the loops beside a tile have this many strips."""

    def cut(inner: Node) -> Node:
        own = strip_tile(inner)
        inner = with_children(inner, cut)
        if own is None or own.plain or not isinstance(inner, For) or not own.is_beside(tile):
            return inner
        return own.cut(inner, strips)

    return simplify(cut(node))
