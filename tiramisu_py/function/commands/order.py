"""Commands on order: after, before, then, between, fuse."""

from __future__ import annotations

from typing import Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.statements import Level, Statements
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.loops import order
from tiramisu_py.schedule.loops.order import root


class OrderCommands(Statements):
    """What the order of computations can be told."""

    def after(self, other: OrderCommands, level: Level = root) -> Self:
        """Come after `other`, in its loops up to and including `level` (at `root`: after its whole nest).

        ::

            for i: p[i]             -->   for i:
            for i: q[i]                       p[i]
                                              q[i]                        (q.after(p, i))
        """
        names, others = self.statement_names(), self._others(other)
        self._apply("after", (other, level), {},
                    lambda p, text: order.place_after(p, others, names, level, True, text))  # fmt: skip
        return self

    def before(self, other: OrderCommands, level: Level = root) -> Self:
        """Come before `other`, in its loops up to and including `level` (at `root`: before its whole nest)."""
        names, others = self.statement_names(), self._others(other)
        self._apply("before", (other, level), {},
                    lambda p, text: order.place_after(p, names, others, level, False, text))  # fmt: skip
        return self

    def then(self, other: OrderCommands, level: Level = root) -> OrderCommands:
        """Let `other` follow, and return it, so that orders can be chained: ``a.then(b, i).then(c, i)``."""
        other.after(self, level)
        return other

    def between(self, first: Statements, first_level: Level, second: Statements, second_level: Level) -> Self:
        """Come after `first` at one level and before `second` at another."""
        names, a, b = self.statement_names(), self._others(first), self._others(second)

        def change(p: Program, text: str) -> Program:
            p = order.place_after(p, a, names, first_level, True, text)
            return order.place_after(p, names, b, second_level, False, text)

        self._apply("between", (first, first_level, second, second_level), {}, change)
        return self

    def fuse(self, other: OrderCommands, level: Iter) -> Self:
        """Share the loops of `other` up to and including `level`, in the order that the two have now."""
        names, others = self.statement_names(), self._others(other)
        self._apply("fuse", (other, level), {}, lambda p, text: order.fuse(p, others, names, level, text))
        return self
