"""The points at which a condition can hold, or not hold: what its affine parts imply."""

from __future__ import annotations

import islpy as isl

from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Binary, Expr, Unary
from tiramisu_py.algorithm.stacks import deep


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


def both(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    """The points of two sets; None stands for the whole frame."""
    if a is None or b is None:
        return b if a is None else a
    return a.intersect(b)
