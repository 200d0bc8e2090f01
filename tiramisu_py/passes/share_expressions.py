"""Equal expressions made one object: copies of loops have few different expressions, each of them many times.

Expressions keep what was found out about them (their linear form, their names, whether they are folded). So whatever a
later pass asks of an expression is worked out once for all its copies.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import is_

from tiramisu_py.algorithm.expressions import Call, Expr
from tiramisu_py.ir import Node
from tiramisu_py.ir.rewriting import with_children, with_expressions
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class ShareExpressions(NestPass):
    """Make equal expressions of a nest one object. The loops stay as they are.

    ::

        y[0] = x[c]; y[1] = x[c]     -->   y[0] = x[c]; y[1] = x[c]          (x[c] is one object)
    """

    def apply(self, what: Node, about: About) -> Node:
        return Shared().statement(what)


class Shared:
    """The different expressions that have been met."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Expr, Expr]] = {}
        self.different: dict[Hashable, Expr] = {}
        self.statements: dict[int, tuple[Node, Node]] = {}

    def statement(self, node: Node) -> Node:
        """A statement with equal expressions shared."""
        known = self.statements.get(id(node))
        if known is None:
            shared = with_children(with_expressions(node, self.expression), self.statement)
            known = self.statements[id(node)] = (shared, node)
        return known[0]

    def expression(self, e: Expr) -> Expr:
        """The first expression that is equal to this one."""
        waiting = [] if id(e) in self.known else [e]
        while waiting:
            part = waiting[-1]
            missing = [child for child in part.children() if id(child) not in self.known]
            waiting += missing
            if not missing:
                waiting.pop()
                self.known[id(part)] = (self._first(part), part)
        return self.known[id(e)][0]

    def _first(self, e: Expr) -> Expr:
        """The first expression that is equal to one whose operands have been met."""
        children = e.children()
        own = tuple([self.known[id(child)][0] for child in children])
        extern = e.extern if isinstance(e, Call) else None
        key = (type(e), id(e.dtype), e.facets(), extern, *map(id, own))
        found = self.different.get(key)
        if found is None:
            found = self.different[key] = e if all(map(is_, own, children)) else _over(e, own)
        return found


def _over(e: Expr, operands: tuple[Expr, ...]) -> Expr:
    """An expression over other operands that are equal to its own: all that it keeps is still true."""
    made = e.rebuilt(operands)
    for mark, kept in e.__dict__.items():
        made.__dict__.setdefault(mark, kept)
    return made
