"""A version of a partial tile for each number of vectors, so that it computes no vector that is not there.

Before, in a tile that is not full: ``for j in 0 .. min(64, M - 64*j0): S``, a vector loop of 16 lanes. After: ``if (M -
64*j0 >= 49) for j in 0 .. min(64, M - 64*j0): S else if (M - 64*j0 >= 33) for j in 0 .. min(48, M - 64*j0): S`` and so
on, down to one vector. A loop padded to whole vectors has a constant trip count in each version: 64, 48, 32, 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.traversal import kept_on_node
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For, Node
from tiramisu_py.ir.arithmetic.linear import Key, Linear, difference, linear, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import EMPTY, walk, with_children
from tiramisu_py.program.loops import MOST_STRIPS, Vector
from tiramisu_py.records import dataclass

#: Where a loop keeps its tile, which each version of the loops around it asks for again.
#: What `partial` of a loop becomes where its tile has no versions.
PLAIN = "plain"
Conditions = Mapping[Key, Expr]


@dataclass(frozen=True, eq=False)
class StripTile:
    """A vector loop of at most `extent` iterations from `lower` on; `left` is the number that is left in its tile."""

    lower: Expr
    upper: Expr
    rest: Expr
    left: Linear
    extent: int
    width: int
    padded: bool
    plain: bool

    @cached_property
    def full(self) -> Expr:
        """The test for all strips: the last one whole, or there if it is padded."""
        return self.holds(self.extent - self.width + 1 if self.padded else self.extent)

    def holds(self, count: int) -> Expr:
        """The test for at least `count` iterations."""
        form = Linear(self.left.terms)
        return Binary(">=", form.expression(), number(count - self.left.constant), bool_)

    def is_beside(self, other: StripTile) -> bool:
        """Whether two loops have the same number of strips in all tiles."""
        same = self.left.plus(other.left, -1)
        return (self.extent, self.width) == (other.extent, other.width) and same.is_constant and same.constant == 0

    def cut(self, loop: For, strips: int) -> Node:
        """The loop if that many of its strips are there."""
        end = simplified(Binary("+", self.lower, number(strips * self.width), int64))
        upper = end if self.padded else Binary("min", end, self.rest, int64)
        return replace(loop, upper=upper) if strips else EMPTY


@kept_on_node
def strip_tile(loop: Node) -> StripTile | None:
    """The tile of a vector loop that is to have a version for each number of strips; None for other loops.

    A `plain` tile has no versions any more, but the same test for being full.
    """
    if not isinstance(loop, For) or not isinstance(loop.tag, Vector) or loop.tag.partial == "loop":
        return None
    uppers = operands("min", loop.upper)
    sized = [(extent, each) for each in uppers if (extent := difference(each, loop.lower)) is not None]
    if len(uppers) != 2 or len(sized) != 1 or loop.step != 1 or loop.reductions:
        return None
    ((extent, high),) = sized
    (rest,) = (each for each in uppers if each is not high)
    width, padded = loop.tag.width, loop.tag.remainder == "pad"
    left: Linear | None = linear(rest).plus(linear(loop.lower), -1)
    if left is not None and padded:
        left = _before_padding(left, width)
    if left is None or not left.exact or extent % width != 0 or not 0 < extent <= MOST_STRIPS * width:
        return None
    return StripTile(loop.lower, high, rest, left, extent, width, padded, loop.tag.partial == PLAIN)


def _before_padding(form: Linear, width: int) -> Linear | None:
    """The form that was rounded up to whole vectors: ``x`` for ``(x + width - 1) // width * width``; None for others.

    All of the form must be multiples of the width, so that ``(y // width) * width + z >= c`` is ``y + z >= c`` for each
    multiple `c` of it.
    """
    if form.constant % width != 0 or any(factor % width != 0 for _, factor in form.terms.values()):
        return None
    for key, (atom, factor) in form.terms.items():
        if isinstance(atom, Binary) and atom.op == "//" and factor == width and constant(atom.right) == width:
            return form.without(key).plus(linear(atom.left)).plus(Linear({}, 1 - width))
    return None


@dataclass(frozen=True, eq=False)
class StripVersions:
    """The versions of a statement by the number of strips of some of its loops, which is the same for all of them."""

    node: Node
    tile: StripTile
    conditions: Conditions

    @classmethod
    def of(cls, node: Node, conditions: Conditions) -> StripVersions | None:
        """The versions for one of the conditions of full tiles; None if none of them is that of such a loop."""
        tiles = [tile for tile in strip_tiles(node) if tile.full.key() in conditions]
        beside = [tile for tile in tiles if tile.is_beside(tiles[0])]
        return cls(node, tiles[0], {tile.full.key(): tile.full for tile in beside}) if beside else None

    def partial(self) -> Iterator[tuple[Expr, Node]]:
        """A test for each number of strips from one on, and the statement where no later test holds.

        With all strips a padded loop is full: that is a version if a loop beside it is masked.
        """
        only_padded = set(self.conditions) == {self.tile.full.key()} and self.tile.padded
        for strips in range(1, self.tile.extent // self.tile.width + (0 if only_padded else 1)):
            yield self.tile.holds((strips - 1) * self.tile.width + 1), self.of_strips(strips)

    def of_strips(self, strips: int) -> Node:
        """The statement where the loops have this many strips."""
        return simplify(self._cut(self.node, strips))

    def _cut(self, node: Node, strips: int) -> Node:
        tile = strip_tile(node)
        node = with_children(node, lambda child: self._cut(child, strips))
        if tile is None or tile.plain or not isinstance(node, For) or not tile.is_beside(self.tile):
            return node
        return tile.cut(node, strips)


def strip_tiles(node: Node) -> Iterator[StripTile]:
    """The tiles inside that are to have versions."""
    return (tile for tile in map(strip_tile, walk(node)) if tile is not None and not tile.plain)


def with_plain_strips(node: Node) -> Node:
    """The statement with no versions for numbers of strips."""
    tile = strip_tile(node)
    node = with_children(node, with_plain_strips)
    if tile is None or not isinstance(node, For) or not isinstance(node.tag, Vector):
        return node
    return replace(node, tag=replace(node.tag, partial=PLAIN))
