"""Narrow results of widened operands, with even and odd lanes computed apart (`ir.arithmetic.pairs`).

To widen a whole vector, processors move half of its lanes to another register, and back to make the result narrow.
Here nothing moves: of each pair of neighbours, which fill one wide lane, the even one is kept by a mask and the odd one
by a shift. The expression is computed for both, and the results go back into the same places; those in even ones are
masked if they may be wider. Of operands that are loaded one element further, as in a sum of neighbours, the even lanes
are the odd lanes of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiramisu_py.algorithm.expressions import Cast, Expr, constant
from tiramisu_py.algorithm.types import DType, int16, int32, strong, uint16, uint32
from tiramisu_py.backends.c.expressions.parentheses import Code, cast, infix
from tiramisu_py.ir import Load
from tiramisu_py.ir.arithmetic.intervals import fits
from tiramisu_py.ir.arithmetic.linear import along_lanes, difference
from tiramisu_py.ir.arithmetic.pairs import in_pairs, widened

if TYPE_CHECKING:
    from tiramisu_py.backends.c.vectors.vectors import Vectors

#: What tells a widened operand from others: its value, and its type before and after.
Leaf = tuple[Any, str, str]
#: For even or odd lanes of a widened operand, the operand that they come from, and whether from its odd lanes.
Halves = Mapping[tuple[Leaf, bool], tuple[Leaf, bool]]
#: The fewest bytes of a narrow vector: the wide one of fewer is one register of any processor with vectors.
LEAST = 16
_SIGNED = {16: int16, 32: int32}
_UNSIGNED = {16: uint16, 32: uint32}


def narrowed(vectors: Vectors, e: Expr, dtype: DType) -> Code | None:
    """`e`, which is twice as wide as `dtype`, in that type; None if its operands are not widened, or are few lanes."""
    lanes = vectors.scope.lanes
    if vectors.lanes * dtype.bytes < LEAST or not in_pairs(e, dtype, lambda part: lanes.of(part) == 1):
        return None
    wide = strong(e.dtype)
    leaves = {leaf_of(each.operand, each.dtype): each for each in widened(e) if lanes.of(each) > 1}
    halves = _halves(vectors, leaves)
    needed = {leaf for leaf, _ in halves.values()}
    loaded = {leaf: each.operand for leaf, each in leaves.items() if leaf in needed}
    names = {leaf: f"tm_pairs_{vectors.types.number()}" for leaf in loaded}
    given = [f"const {vectors.type(each.dtype)} {names[leaf]} = {vectors(each).text};" for leaf, each in loaded.items()]
    even, odd = (vectors.of_pairs(names, halves, is_odd)(e) for is_odd in (False, True))
    unsigned = vectors.types.name(_UNSIGNED[wide.bits], vectors.lanes // 2)
    low = cast(unsigned, even)
    if strong(dtype).kind != "u" or not fits(e, dtype):
        low = infix("&", low, _low_half(dtype.bits))
    high = infix("<<", cast(unsigned, odd), Code(str(dtype.bits)))
    both = cast(vectors.type(dtype), infix("|", low, high))
    return Code(f"({{ {' '.join(given)} {both.text}; }})")


def leaf_of(e: Expr, dtype: DType) -> Leaf:
    """A key that tells an operand that is widened to a type from others."""
    return e.key(), e.dtype.name, strong(dtype).name


def _halves(vectors: Vectors, leaves: Mapping[Leaf, Cast]) -> Halves:
    """Where the even and the odd lanes of each operand come from: of loads of neighbours, each lane from one of them.

    Every second element from the k-th on are the even lanes of a load that begins there, and the odd lanes of one that
    begins one element earlier. Two elements of a load further, even lanes begin again.
    """
    found = {(leaf, is_odd): (leaf, is_odd) for leaf in leaves for is_odd in (False, True)}
    rows: list[tuple[Expr, tuple[Any, ...], dict[int, Leaf]]] = []
    for leaf, each in leaves.items():
        load = each.operand
        if not isinstance(load, Load) or (start := _first_element(vectors, load)) is None:
            continue
        kind = (load.buffer, *leaf[1:])
        for first, same, at in rows:
            if kind == same and (offset := difference(start, first)) is not None:
                at[offset] = leaf
                break
        else:
            rows.append((start, kind, {0: leaf}))
    for _, _, at in rows:
        least = min(at)
        for k, leaf in at.items():
            for is_odd in (False, True):
                begin = k + is_odd
                choices = [(begin, False), (begin - 1, True)]
                if (begin - least) % 2:
                    choices.reverse()
                found[leaf, is_odd] = next((at[place], odd) for place, odd in choices if place in at)
    return found


def _first_element(vectors: Vectors, e: Load) -> Expr | None:
    """The place in its array of lane 0 of a load of elements side by side; None of others, and of some lanes only."""
    if vectors.scope.mask is not None or vectors.scope.arrays[e.buffer].lanes > 1:
        return None
    spaced = vectors.spaced(e.buffer, e.indices)
    if spaced is None or constant(spaced[1]) != 1:
        return None
    bases = [line[0] for line in map(along_lanes, e.indices) if line is not None]
    return vectors.scope.arrays[e.buffer].flat(tuple(bases))


def lane_of_pair(vectors: Vectors, pairs: str, source: DType, target: DType, is_odd: bool) -> Code:
    """The even or the odd lanes of a narrow vector as wide ones."""
    bits, target = source.bits, strong(target)
    unsigned = cast(vectors.type(_UNSIGNED[target.bits]), Code(pairs))
    signed = cast(vectors.type(_SIGNED[target.bits]), Code(pairs))
    half = Code(str(bits))
    if strong(source).kind == "u":
        found = infix(">>", unsigned, half) if is_odd else infix("&", unsigned, _low_half(bits))
    else:
        moved = cast(vectors.type(_SIGNED[target.bits]), infix("<<", unsigned, half))
        found = infix(">>", signed if is_odd else moved, half)
    return cast(vectors.type(target), found)


def _low_half(bits: int) -> Code:
    return Code(hex((1 << bits) - 1))
