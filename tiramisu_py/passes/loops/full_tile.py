"""Full tiles: the loops that have a constant extent, and the conditions for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import kept_on_node
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For
from tiramisu_py.ir.arithmetic.linear import Key, Linear, difference, linear, number
from tiramisu_py.ir.arithmetic.linear import operands as operands_of
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.passes.loops.strip_tile import strip_tile
from tiramisu_py.program.loops import MOST_STRIPS, TensorLoop, Unroll, Vector
from tiramisu_py.records import dataclass

Conditions = Mapping[Key, Expr]


@dataclass(frozen=True, eq=False)
class FullTile:
    """The bounds of a loop in a full tile, and the conditions under which they apply."""

    lower: Expr
    upper: Expr
    conditions: Conditions


@kept_on_node
def full_tile(loop: For) -> FullTile | None:
    """The full tile of a loop, if its extent is constant and needs a test; None for loops that gain nothing by it.

    A loop keeps it, since each version of the loops around it asks again.
    """
    if not isinstance(loop.tag, Unroll | Vector | TensorLoop) or loop.step != 1:
        return None
    strips = strip_tile(loop)
    if strips is not None:
        return FullTile(strips.lower, strips.upper, {strips.full.key(): strips.full})
    lowers, uppers = operands_of("max", loop.lower), operands_of("min", loop.upper)
    pairs = [(low, high, difference(high, low)) for low in lowers for high in uppers]
    extents = [(extent, low, high) for low, high, extent in pairs if extent is not None and extent > 0]
    if not extents or not _gains(loop, min(extent for extent, _, _ in extents)):
        return None
    _, low, high = min(extents, key=lambda pair: pair[0])
    tests = [at_least(other, high) for other in uppers if other is not high]
    tests += [at_least(low, other) for other in lowers if other is not low]
    return FullTile(low, high, {test.key(): test for test in tests}) if tests else None


def narrowed(loop: For, tile: FullTile, known: Conditions) -> For:
    """The loop with the bounds that are left where some of the conditions of its full tile are known: a later test, of
    variables further out, asks for the others.
    """
    uppers = [
        e for e in operands_of("min", loop.upper) if e is tile.upper or at_least(e, tile.upper).key() not in known
    ]
    lowers = [
        e for e in operands_of("max", loop.lower) if e is tile.lower or at_least(tile.lower, e).key() not in known
    ]
    return replace(loop, lower=_joined("max", lowers), upper=_joined("min", uppers))


def _joined(op: str, bounds: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: Binary(op, a, b, a.dtype), bounds)


def in_all_copies(condition: Expr, loop: For) -> Expr | None:
    """A condition that implies another one in all iterations of a short unrolled loop, without the loop's variable.

    ``16*j - i >= 0`` for i in ``8*t .. min(8*t + 8, R)`` is ``16*j - 8*t >= 7``. None if the loop may be long, or the
    condition is not linear in its variable.
    """
    if not isinstance(loop.tag, Unroll) or loop.tag.factor is not None or loop.step != 1:
        return None
    if not isinstance(condition, Binary) or condition.op != ">=" or not isinstance(condition.right, Const):
        return None
    pairs = ((low, high) for low in operands_of("max", loop.lower) for high in operands_of("min", loop.upper))
    short = [(low, high) for low, high in pairs if difference(high, low) is not None]
    form, variable = linear(condition.left), Iter(loop.variable, int64)
    rest = form.without(variable.key())
    if not short or not form.exact or loop.variable in rest.iterators:
        return None
    low, high = short[0]
    factor = form.factor(variable)
    place = linear(low) if factor > 0 else linear(high).plus(Linear({}, -1))
    least = rest.plus(place, factor)
    return at_least(least.expression(), condition.right) if least.exact else None


def _gains(loop: For, extent: int) -> bool:
    if isinstance(loop.tag, Vector):
        return extent % loop.tag.width == 0 and extent <= MOST_STRIPS * loop.tag.width
    return isinstance(loop.tag, TensorLoop) or (isinstance(loop.tag, Unroll) and loop.tag.factor is None)


def at_least(a: Expr, b: Expr) -> Expr:
    """``a >= b`` in the form ``rest >= constant``."""
    gap = simplified(Binary("-", a, b, a.dtype))
    if isinstance(gap, Binary) and gap.op in ("+", "-"):
        constant = difference(gap, gap.left)
        if constant is not None:
            return Binary(">=", gap.left, number(-constant), bool_)
    return Binary(">=", gap, number(0), bool_)


def largest_extent(loop: For) -> int | None:
    """The constant extent of a loop in a full tile."""
    pairs = ((low, high) for low in operands_of("max", loop.lower) for high in operands_of("min", loop.upper))
    extents = [extent for low, high in pairs if (extent := difference(high, low)) is not None]
    return min(extents, default=None)
