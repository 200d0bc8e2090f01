"""Indices that choose: ``min``, ``max`` and ``%`` of iterators and sizes as selects, by which a statement can be cut.

    a[min(i + 1, N - 1)]   -->  a[select(i + 1 <= N - 1, i + 1, N - 1)]
    a[(i - 1) % N]         -->  a[select(i - 1 < 0, i - 1 + N, i - 1)]

What no cut has decided is written as it was: a minimum is one instruction. An index that stays the same in the
innermost loop is not cut: a row of a picture is clipped once for all its columns; a cut would repeat their loop.
"""

from __future__ import annotations

import operator
from collections.abc import Collection

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Binary, Const, Expr, Iter, Select
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.algorithm.types import bool_


class ChosenIndices:
    """The choices in the indices of a body that is executed for some instances; `reader` reads its iterators."""

    def __init__(self, reader: Affine, instances: isl.Set, moving: Collection[str]) -> None:
        self.reader = reader
        self.instances = instances
        #: The iterators that move in the innermost loop.
        self.moving = moving
        #: The operations that became selects, by the keys of the conditions.
        self.operations: dict[object, str] = {}

    def as_selects(self, body: Expr) -> Expr:
        """The body with selects in its indices."""
        return rewrite(body, self._access)

    def as_written(self, body: Expr) -> Expr:
        """A part's body with the minima and maxima that its instances do not decide."""

        def operation(e: Expr) -> Expr | None:
            op = self.operations.get(e.condition.key()) if isinstance(e, Select) else None
            if op is None or not isinstance(e, Select):
                return None
            return Binary(op, self.as_written(e.yes), self.as_written(e.no), e.dtype)

        return rewrite(body, operation) if self.operations else body

    def _access(self, e: Expr) -> Expr | None:
        if not isinstance(e, Access) or not e.indices:
            return None
        indices = tuple(rewrite(index, self._select) for index in e.indices)
        return e if all(map(operator.is_, indices, e.indices)) else e.rebuilt(indices)

    def _select(self, e: Expr) -> Expr | None:
        if not isinstance(e, Binary) or e.op not in ("min", "max", "%") or not self._moves(e) or not self._is_affine(e):
            return None
        if e.op == "%":
            return None if isinstance(e.right, Const) or not self._turns_once(e) else self._turned(e)
        condition = Binary("<=" if e.op == "min" else ">=", e.left, e.right, bool_)
        self.operations[condition.key()] = e.op
        yes, no = (rewrite(side, self._select) for side in (e.left, e.right))
        return Select(condition, yes, no, e.dtype)

    def _moves(self, e: Binary) -> bool:
        return any(isinstance(part, Iter) and part.name in self.moving for part in walk(e))

    def _is_affine(self, e: Binary) -> bool:
        try:
            self.reader.value(e.left), self.reader.value(e.right)
        except NotAffine:
            return False
        return True

    def _turns_once(self, e: Binary) -> bool:
        """Whether ``x % n`` has -n <= x < 2 n."""
        x, n = self.reader.value(e.left), self.reader.value(e.right)
        below, above = sets.as_set(x.lt_set(n.neg())), sets.as_set(x.ge_set(n.add(n)))
        return self.instances.is_disjoint(below.union(above))

    def _turned(self, e: Binary) -> Expr:
        """``x % n`` as ``x + n``, x or ``x - n``."""
        x, n, dtype = e.left, e.right, e.dtype
        inner = rewrite(x, self._select)
        zero = Const(0, x.dtype)
        beyond = Select(Binary(">=", x, n, bool_), Binary("-", inner, n, dtype), inner, dtype)
        return Select(Binary("<", x, zero, bool_), Binary("+", inner, n, dtype), beyond, dtype)
