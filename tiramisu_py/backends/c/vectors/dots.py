"""Weighted sums of neighbours: ``4899*rgb[c, 0] + 9617*rgb[c, 1] + 1868*rgb[c, 2]`` of bytes, in int32.

The channels of 16 pixels come from one load (with 32-byte registers, those of 8 pixels from two), and processors
multiply and add them in pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Binary, Cast, Expr, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import int32, uint8
from tiramisu_py.backends.c.expressions.parentheses import Code, call, infix
from tiramisu_py.ir import Load
from tiramisu_py.ir.arithmetic.linear import along_lanes, difference

if TYPE_CHECKING:
    from tiramisu_py.backends.c.vectors.vectors import Vectors

_WEIGHTS = range(-(2**15), 2**15)
#: The lanes of a sum in registers of 64 and of 32 bytes, and the most neighbours that one sum weights.
LANES, MOST = (16, 8), 4


def weighted(vectors: Vectors, e: Binary) -> Code | None:
    """A sum that weights the first 2 to 4 elements of each group; None if `e` is no such sum."""
    if e.op != "+" or e.dtype != int32 or vectors.lanes not in LANES or vectors.scope.mask is not None:
        return None
    terms = terms_of(e)
    found = [(k, *read) for k, term in enumerate(terms) if (read := _weight(term)) is not None]
    for _, first, _ in found:
        spaced = spaced_bytes(vectors, first)
        if spaced is None:
            continue
        place, stride, _ = spaced
        chosen = _neighbours(vectors, first, stride, found)
        if len(chosen) < 2:
            continue
        function = vectors.types.idioms.dot(uint8, int32, vectors.lanes, stride, len(chosen))
        weights = [str(weight) for _, weight in chosen] + ["0"] * (MOST - len(chosen))
        total = call(function, f"&{place}", *weights)
        taken = {k for k, _ in chosen}
        for k, term in enumerate(terms):
            if k not in taken:
                total = infix("+", total, vectors.side(term))
        return total
    return None


@deep
def terms_of(e: Expr) -> list[Expr]:
    if isinstance(e, Binary) and e.op == "+" and e.dtype == e.left.dtype == e.right.dtype == int32:
        return terms_of(e.left) + terms_of(e.right)
    return [e]


def _weight(term: Expr) -> tuple[Load, int] | None:
    """The byte that a term loads, and its constant weight."""
    weight, value = 1, term
    if isinstance(term, Binary) and term.op == "*" and term.left.dtype == term.right.dtype == int32:
        left, right = constant(term.left), constant(term.right)
        known, value = (left, term.right) if right is None else (right, term.left)
        if known is None or known not in _WEIGHTS:
            return None
        weight = known
    if isinstance(value, Cast) and isinstance(value.operand, Load) and value.operand.dtype == uint8:
        return value.operand, weight
    return None


def spaced_bytes(vectors: Vectors, e: Load) -> tuple[str, int, Expr] | None:
    """The first element, the distance from lane to lane, and the first element's index in the array."""
    array = vectors.scope.arrays[e.buffer]
    spaced = None if array.lanes > 1 else vectors.spaced(e.buffer, e.indices)
    stride = None if spaced is None else constant(spaced[1])
    if spaced is None or stride is None or not 2 <= stride <= MOST:
        return None
    bases = [line[0] for line in map(along_lanes, e.indices) if line is not None]
    return spaced[0], stride, array.flat(tuple(bases))


def _neighbours(
    vectors: Vectors, first: Load, stride: int, found: list[tuple[int, Load, int]]
) -> list[tuple[int, int]]:
    """The positions of the terms that read the first element, the next one, and so on, with their weights."""
    start = spaced_bytes(vectors, first)
    by_offset: dict[int, tuple[int, int]] = {}
    for term, load, weight in found:
        other = spaced_bytes(vectors, load) if load.buffer == first.buffer else None
        if start is None or other is None or other[1] != stride:
            continue
        offset = difference(other[2], start[2])
        if offset is not None:
            by_offset.setdefault(offset, (term, weight))
    count = next(k for k in range(MOST + 1) if k == stride or k not in by_offset)
    return [by_offset[k] for k in range(count)]
