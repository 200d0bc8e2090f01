"""Boxes of elements to copy between memories, as few and as long contiguous runs as their shape allows."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir.arithmetic.linear import difference, number
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class BoxLevel:
    """As many pieces as the product of `counts`, `source` elements apart in the source and `target` in the target."""

    counts: tuple[Expr, ...]
    source: Expr
    target: Expr


def levels(extents: tuple[Expr, ...], source: tuple[Expr, ...], target: tuple[Expr, ...]) -> list[BoxLevel]:
    """The levels of a box of `extents` in arrays with extents `source` and `target`, contiguous elements first.

    A dimension that the box fills in both arrays is merged with the next one: all rows of a matrix are one run.
    """
    found = [BoxLevel((), number(1), number(1))]
    whole = True
    source_step: Expr = number(1)
    target_step: Expr = number(1)
    for extent, of_source, of_target in reversed(list(zip(extents, source, target, strict=True))):
        if constant(extent) != 1:
            if whole:
                last = found.pop()
                found.append(BoxLevel((*last.counts, extent), last.source, last.target))
            else:
                found.append(BoxLevel((extent,), source_step, target_step))
                whole = True
        whole = whole and difference(extent, of_source) == 0 and difference(extent, of_target) == 0
        source_step, target_step = product(of_source, source_step), product(of_target, target_step)
    return found


def product(a: Expr, b: Expr) -> Expr:
    """``a * b``; a literal if both are literals."""
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return number(x * y)
    if x == 1:
        return b
    return a if y == 1 else Binary("*", a, b, int64)
