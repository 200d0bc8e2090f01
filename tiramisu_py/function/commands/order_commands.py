"""Commands on order: after, before, then, between, fuse."""

from __future__ import annotations

from typing import Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.applied import AppliedStatements, Level
from tiramisu_py.schedule.loops.order import After, Before, Between, Fuse, root


class OrderCommands(AppliedStatements):
    """Commands on the order of computations."""

    def after(self, other: OrderCommands, level: Level = root) -> Self:
        """Come after `other`, in its loops up to and including `level` (at `root`: after its whole nest).

        ::

            for i: p[i]             -->   for i:
            for i: q[i]                       p[i]
                                              q[i]                        (q.after(p, i))
        """
        self._apply(After(self._named, self._other(other), level))
        return self

    def before(self, other: OrderCommands, level: Level = root) -> Self:
        """Come before `other`, in its loops up to and including `level` (at `root`: before its whole nest)."""
        self._apply(Before(self._named, self._other(other), level))
        return self

    def then(self, other: OrderCommands, level: Level = root) -> OrderCommands:
        """Let `other` follow, and return it, so that orders can be chained: ``a.then(b, i).then(c, i)``."""
        other.after(self, level)
        return other

    def between(
        self, first: AppliedStatements, first_level: Level, second: AppliedStatements, second_level: Level
    ) -> Self:
        """Come after `first` at one level and before `second` at another."""
        self._apply(Between(self._named, self._other(first), first_level, self._other(second), second_level))
        return self

    def fuse(self, other: OrderCommands, level: Iter) -> Self:
        """Share the loops of `other` up to and including `level`, in the order that the two have now."""
        self._apply(Fuse(self._named, self._other(other), level))
        return self
