"""Reads turned around: for each element, the instances that read it.

A read is a function m from the instances of a computation to the elements of an array. Its inverse is

- one function, or a few: ``i -> i + 1`` gives ``j - 1``, ``i -> i // 2`` gives ``2 j`` and ``2 j + 1``;
- or it needs iterators that m has forgotten: ``(i, k) -> k`` is read by all i.

Both are relations that isl computes, with strides, triangles, clipped indices and turns around an end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Select, binary
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.records import dataclass

#: An element that this many instances read at most, whatever the sizes are, gets a term for each of them.
MOST_PREIMAGES = 8


@dataclass(frozen=True, eq=False)
class Preimage:
    """Some elements, each read by one instance for each value of the iterators `summed`, by number.

    `points` are the elements, followed by the values of these iterators; `forms` gives the instance of each point.
    """

    points: isl.Set
    summed: tuple[int, ...]
    forms: tuple[isl.Aff, ...]


def counted_down(found: Preimage, axes: Collection[int]) -> Preimage:
    """A preimage whose sums over some iterators, by number, take their values from the last one to the first.

    The sum over t is one over ``-t``, whose values grow.
    """
    if not set(found.summed) & set(axes):
        return found
    space = found.points.get_space()
    dims = sets.variables(space)
    first = len(dims) - len(found.summed)
    moved = [dim.neg() if k >= first and found.summed[k - first] in axes else dim for k, dim in enumerate(dims)]
    back = sets.function(space, sets.tuple_name(space) or None, moved)
    forms = tuple(form.pullback_multi_aff(back) for form in found.forms)
    return Preimage(sets.preimage(found.points, back), found.summed, forms)


def preimages(read: isl.Map, preferred: Sequence[int]) -> list[Preimage]:
    """The instances that read each element: disjoint for each element.

    `preferred` are the iterators over which the reader itself reduces, by number.
    """
    found: list[Preimage] = []
    for piece in sets.function_pieces(read):
        found += _of_piece(piece, preferred)
    return found


def _of_piece(read: isl.Map, preferred: Sequence[int]) -> list[Preimage]:
    back = read.reverse()
    if back.is_single_valued():
        return _functions(back, ())
    summed = _forgotten(back, sets.out_size(back), preferred)
    if not set(summed) <= set(preferred) and sets.most_images(back, MOST_PREIMAGES):
        return _one_by_one(back)
    return _functions(sets.with_own_parts(back, summed), summed)


def _forgotten(back: isl.Map, count: int, preferred: Sequence[int]) -> tuple[int, ...]:
    """The fewest iterators that tell, together with the element, which instance has read it."""
    for size in range(1, count):
        choices = combinations(range(count), size)
        for chosen in sorted(choices, key=lambda each: (not set(each) <= set(preferred), [-axis for axis in each])):
            if sets.with_own_parts(back, chosen).is_single_valued():
                return chosen
    return tuple(range(count))


def _functions(back: isl.Map, summed: tuple[int, ...]) -> list[Preimage]:
    return [Preimage(domain, summed, forms) for domain, forms in sets.pieces_of_function(back)]


def _one_by_one(back: isl.Map) -> list[Preimage]:
    """The first instance that reads each element, the second, and so on."""
    found: list[Preimage] = []
    while not back.is_empty():
        first = back.lexmin()
        found += _functions(first, ())
        back = back.subtract(first).coalesce()
    return found


def turned_once(reader: Affine, points: isl.Set, index: Expr) -> Expr:
    """An index with ``x % n`` as ``x + n``, x or ``x - n`` where x is at most one turn outside of 0 to n."""

    def turned(e: Expr) -> Expr | None:
        if not isinstance(e, Binary) or e.op != "%" or isinstance(e.right, Const):
            return None
        x, n = turned_once(reader, points, e.left), e.right
        value, turn = reader.value(x), reader.value(n)
        below, above = sets.as_set(value.lt_set(turn.neg())), sets.as_set(value.ge_set(turn.add(turn)))
        if not points.is_disjoint(below.union(above)):
            raise NotAffine(e)
        beyond = Select(binary(">=", x, n), binary("-", x, n), x, e.dtype)
        return Select(binary("<", x, 0), binary("+", x, n), beyond, e.dtype)

    return rewrite(index, turned)
