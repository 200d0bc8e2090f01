"""Where conditions can hold, or not hold: what their affine parts imply of points, and of values in indices."""

from __future__ import annotations

from collections.abc import Iterable

import islpy as isl

from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.ranges.index_parts import IndexParts, may_wrap
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import rewrite, walk


@deep
def implied(reader: Affine, condition: Expr, truth: bool) -> isl.Set | None:
    """A set that contains every point where a condition is `truth`; None for the whole frame."""
    try:
        holds = reader.condition(condition)
        return holds if truth else holds.complement()
    except NotAffine:
        pass
    match condition:
        case Unary(op="~"):
            return implied(reader, condition.operand, not truth)
        case Binary(op="&" | "|"):
            sides = [implied(reader, condition.left, truth), implied(reader, condition.right, truth)]
            if (condition.op == "&") == truth:
                return both(*sides)
            return None if sides[0] is None or sides[1] is None else sides[0].union(sides[1])
    return None


@deep
def holding(parts: IndexParts, conditions: Iterable[Expr]) -> isl.Set | None:
    """The elements of the frame of some parts at which conditions on these parts can hold; None for the whole frame.

    Comparisons are exact. A condition with arithmetic that may wrap around says nothing: ``x - 10 > 0`` holds for the
    least x too.
    """
    names = {written.key(): name for name, written in parts.written.items()}

    def named(e: Expr) -> Expr | None:
        name = names.get(e.key())
        return None if name is None else Iter(name)

    found: isl.Set | None = None
    for condition in conditions:
        if isinstance(condition, Binary) and condition.op == "&":
            found = both(found, holding(parts, (condition.left, condition.right)))
        elif not any(may_wrap(node, exact=True) for node in walk(condition)):
            found = both(found, implied(parts.reader, rewrite(condition, named), True))
    return found


def both(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    """The points of two sets; None stands for the whole frame."""
    if a is None or b is None:
        return b if a is None else a
    return a.intersect(b)
