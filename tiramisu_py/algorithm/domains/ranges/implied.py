"""Where conditions can hold, or not hold: what their affine parts imply of points, and of values in indices."""

from __future__ import annotations

from collections.abc import Iterable

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.ranges.index_parts import LARGEST_SIZE, IndexParts, may_wrap
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.algorithm.types import int32, int64


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
def holding(parts: IndexParts, conditions: Iterable[Expr], possible: isl.Set) -> isl.Set | None:
    """The elements of the frame of some parts at which conditions on these parts can hold; None for the whole frame.

    Comparisons are exact. A condition with arithmetic that may wrap around says nothing: ``x - 10 > 0`` holds for the
    least x too. That of the `possible` elements may not where its results fit their types: ``o[i + 1] - o[i]`` of
    elements that are at least 0.
    """
    names = {written.key(): name for name, written in parts.written.items()}

    def named(e: Expr) -> Expr | None:
        name = names.get(e.key())
        return None if name is None else Iter(name)

    found: isl.Set | None = None
    for condition in conditions:
        if isinstance(condition, Binary) and condition.op == "&":
            found = both(found, holding(parts, (condition.left, condition.right), possible))
            continue
        of_parts = rewrite(condition, named)  # what is inside of a part is the same wherever it is written
        if all(_fits(parts, node, possible) for node in walk(of_parts) if may_wrap(node, exact=True)):
            found = both(found, implied(parts.reader, of_parts, True))
    return found


def _fits(parts: IndexParts, e: Expr, possible: isl.Set) -> bool:
    """Whether a sum, difference or multiple of 32 or 64 bits fits its type for all possible values of the parts."""
    if not isinstance(e, Binary) or e.op not in ("+", "-", "*") or e.dtype not in (int32, int64):
        return False
    try:
        value = parts.reader.value(e)
    except NotAffine:
        return False
    at = sets.with_params_below(possible, LARGEST_SIZE)
    low, high = sets.most(value.neg(), at), sets.most(value, at)
    least, most = e.dtype.limits
    return low is not None and high is not None and least <= -low and high <= most


def both(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    """The points of two sets; None stands for the whole frame."""
    if a is None or b is None:
        return b if a is None else a
    return a.intersect(b)
