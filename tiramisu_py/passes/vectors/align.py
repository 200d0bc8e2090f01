"""Vector loops along rows of a temporary, aligned so that whole vectors are stored where vectors begin.

Before: ``for j in a .. b vector(16, mask): row[j + 4] = ..``. After: ``for j in a .. j_aligned``, where ``j_aligned +
4`` is a multiple of 16 and less than one vector away, and then ``for j in j_aligned .. b``. An unaligned store (or
load) touches two cache lines. Loops whose remainder is no mask stay as they are, since their first iterations would
run one by one; so do copies, which wait for memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Allocate, For, Let, Node, Store
from tiramisu_py.ir.arithmetic.linear import Linear, linear, number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, block, contents, loads, walk, with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.vectors.epilogue import most_iterations
from tiramisu_py.program.loops import Vector
from tiramisu_py.records import dataclass

#: Loops of at most this many vectors stay whole.
FEW_VECTORS = 8


@dataclass(frozen=True)
class Align(NestPass):
    """Begin a vector loop over a row of a temporary at an aligned element of the row.

    ::

        for j in a .. b:  vector(16, mask)     -->   for j in a .. j_aligned:  vector(16, mask)
            row[j + 4] = ..                              row[j + 4] = ..
                                                     for j in j_aligned .. b:  vector(16, mask)
                                                         row[j + 4] = ..         (16 divides j_aligned + 4)
    """

    def apply(self, what: Node, about: About) -> Node:
        return aligned(what, about.taken)


def aligned(node: Node, taken: Names, rows: Collection[Allocate] = ()) -> Node:
    """The statement with such loops cut at the first aligned element; `rows` are the temporaries around it."""
    if Vector not in contents(node):
        return node
    if isinstance(node, Allocate):
        rows = (*rows, node)
    node = with_children(node, lambda child: aligned(child, taken.inside(node), rows))
    if not isinstance(node, For) or not isinstance(node.tag, Vector) or not may_be_cut(node):
        return node
    offset = _offset(node, node.tag.width, rows)
    return node if offset is None else _cut(node, node.tag.width, offset, taken)


def may_be_cut(loop: For) -> bool:
    """Whether a vector loop has a mask at its end, and is long enough to begin at an aligned element."""
    if not isinstance(loop.tag, Vector) or loop.tag.remainder != "mask" or loop.reductions or loop.step != 1:
        return False
    most = most_iterations(loop)
    return most is None or most > FEW_VECTORS * loop.tag.width


def _offset(loop: For, width: int, rows: Collection[Allocate]) -> int | None:
    """The number that, added to the loop's variable, gives a multiple of `width` exactly where vectors begin; None if
    it differs between stores, or the loop begins at such a place.
    """
    stores = [inner for inner in walk(loop.body) if isinstance(inner, Store)]
    if len(list(loads(loop.body))) <= len(stores):
        return None
    found = {_offset_of(store, loop.variable, width, rows) for store in stores}
    offset = found.pop() if len(found) == 1 else None
    if offset is None or _remainder(linear(loop.lower).plus(Linear({}, offset)), width) == 0:
        return None
    return offset


def _offset_of(store: Store, variable: str, width: int, rows: Collection[Allocate]) -> int | None:
    own = next((each for each in rows if each.buffer == store.buffer), None)
    if own is None or own.register or not store.indices:
        return None
    last = constant(own.extents[-1])
    if last is None or last % width != 0:
        return None
    form, atom = linear(store.indices[-1]), Iter(variable, int64)
    return _remainder(form.without(atom.key()), width) if form.factor(atom) == 1 else None


def _remainder(form: Linear, width: int) -> int | None:
    """The remainder modulo a width; None if it is not constant."""
    multiples = all(factor % width == 0 for _, factor in form.terms.values())
    return form.constant % width if form.exact and multiples else None


def _cut(loop: For, width: int, offset: int, taken: Names) -> Node:
    names = [taken.fresh(f"{loop.variable}_{part}") for part in ("begin", "stop", "aligned")]
    begin, stop, start = (Iter(name, int64) for name in names)
    beyond = simplified(Binary("+", begin, number(offset + width - 1), int64))
    whole = Binary("*", Binary("//", beyond, number(width), int64), number(width), int64)
    least = Binary("min", simplified(Binary("-", whole, number(offset), int64)), stop, int64)
    end: Expr = Binary("min", start, simplified(Binary("+", begin, number(width - 1), int64)), int64)
    first = replace(loop, lower=begin, upper=end)
    both = block([first, replace(loop, lower=start, upper=stop)])
    return Let(names[0], loop.lower, Let(names[1], loop.upper, Let(names[2], simplified(least), both)))
