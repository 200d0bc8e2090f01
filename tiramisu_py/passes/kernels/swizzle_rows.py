"""Swizzled arrays in shared memory: where the elements of a row lie.

Group g of a row r changes places with group ``g ^ (r // alike % rows)``. Rows have a multiple of `rows` groups, so that
this is one to one in each row, and stays in it; the proof has looked (`proof/kernels/limits.py`). So neighbours along a
column are in different banks, without padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiramisu_py.algorithm import traversal
from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Allocate, Deferred, Let, Load, Node, Ramp, Store, TreeReduce
from tiramisu_py.ir.arithmetic.linear import linear, number
from tiramisu_py.ir.rewriting import contents, with_children, with_expressions
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.program.storage import Swizzle
from tiramisu_py.records import dataclass

#: (rows, elements of a group), and the rows that are alike if not one, of each swizzled array.
Swizzles = Mapping[str, Swizzle]
#: The values of the definitions around a statement.
Values = Mapping[str, Expr]


@dataclass(frozen=True)
class SwizzleRows(NestPass):
    """Swizzle the rows of arrays in shared memory.

    ::

        tile: swizzle 8, 4                          -->   tile
            tile[r, 4 * t : 4 * t + 4] = ...                  tile[r, (4 * t ^ 4 * (r & 7)) : .. + 4] = ...
            .. tile[c, r] ..                                  .. tile[c, r ^ 4 * (c & 7)] ..
    """

    def apply(self, what: Node, about: About) -> Node:
        return _swizzled(what, {}, {}) if Allocate in contents(what) else what


def _swizzled(node: Node, inside: Swizzles, known: Values) -> Node:
    """A statement with the places of swizzled arrays."""
    if isinstance(node, Allocate) and node.swizzle is not None:
        inside = {**inside, node.buffer: node.swizzle}
        node = replace(node, swizzle=None)
    if isinstance(node, Let):
        known = {**known, node.variable: node.value}
    if inside:
        if isinstance(node, TreeReduce) and inside.keys() & set(node.buffers):
            raise CompilerDefect(f"a tree stores to {', '.join(node.buffers)}, which is swizzled")
        node = with_expressions(node, lambda e: _loads(e, inside, known))
        if isinstance(node, Store):
            node = _stored(node, inside, known)
        elif isinstance(node, Deferred):
            node = replace(node, store=_stored(node.store, inside, known))
    return with_children(node, lambda child: _swizzled(child, inside, known))


def _stored(store: Store, inside: Swizzles, known: Values) -> Store:
    """A store to the place of its element."""
    if store.buffer not in inside:
        return store
    return replace(store, indices=_place(store.indices, inside[store.buffer], known))


def _loads(e: Expr, inside: Swizzles, known: Values) -> Expr:
    """An expression whose loads of swizzled arrays find their elements."""

    def changed(part: Expr) -> Expr | None:
        if not isinstance(part, Load):
            return None
        indices = tuple(_loads(index, inside, known) for index in part.indices)
        indices = _place(indices, inside[part.buffer], known) if part.buffer in inside else indices
        return Load(part.buffer, indices, part.dtype)

    return traversal.rewrite(e, changed)


def _place(indices: tuple[Expr, ...], swizzle: Swizzle, known: Values) -> tuple[Expr, ...]:
    """Where an element is; neighbours that are loaded together stay together in whole groups."""
    rows, group, alike = (*swizzle, 1)[:3]  # r // alike % rows * group is (r & alike * (rows - 1)) * (group // alike)
    *outer, row, column = indices
    turn: Expr = Binary("&", row, number(alike * (rows - 1)), int64)
    if group > alike:
        turn = Binary("*", number(group // alike), turn, int64)
    if isinstance(column, Ramp) and group % column.lanes == 0 and divides(column.lanes, column.base, known):
        return (*outer, row, Ramp(Binary("^", column.base, turn, int64), column.lanes))
    return (*outer, row, Binary("^", column, turn, int64))


def divides(lanes: int, e: Expr, known: Values) -> bool:
    """Whether a number of lanes divides an index, in all of its values."""
    form = linear(traversal.substitute(e, known))
    return form.constant % lanes == 0 and all(factor % lanes == 0 for _, factor in form.terms.values())
