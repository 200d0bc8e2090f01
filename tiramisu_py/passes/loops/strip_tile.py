"""Vector loops that are to have a version for each number of whole vectors in a tile that is not full.

``for j in 0 .. min(64, M - 64*j0): S`` of 16 lanes is such a tile, of up to four strips; `tile_versions` makes its
versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.traversal import kept_on_node
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For, Node
from tiramisu_py.ir.arithmetic.linear import Linear, difference, linear, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import EMPTY, block, walk, with_children
from tiramisu_py.program.loops import MOST_STRIPS, Vector
from tiramisu_py.records import dataclass

#: What `partial` of a loop becomes where its tile has no versions.
PLAIN = "plain"


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
        """The loop if that many of its strips are there: all but the last are whole, and the last if it is padded."""
        if not strips or self.padded:
            return replace(loop, upper=self._after(strips)) if strips else EMPTY
        last = replace(loop, upper=Binary("min", self._after(strips), self.rest, int64))
        if strips == 1:
            return last
        whole = self._after(strips - 1)
        return block([replace(loop, upper=whole), replace(last, lower=whole)])

    def _after(self, strips: int) -> Expr:
        return simplified(Binary("+", self.lower, number(strips * self.width), int64))


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
