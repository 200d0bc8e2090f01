"""Passes that fold arithmetic that is constant, or that the loops around decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import mentions, rewrite
from tiramisu_py.ir import Assign, Block, Declare, For, If, Node
from tiramisu_py.ir.arithmetic.facts import decide
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.rewriting import Names, block, contents, defined, names, with_children, with_expressions
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Simplify(NestPass):
    """Fold index arithmetic and conditions, and drop code that is then never executed or never read.

    ::

        for i in 0 .. 1:            -->   S[3]
            if (2 > 1): S[i + 3]
    """

    def apply(self, what: Node, about: About) -> Node:
        return simplify(what)


@dataclass(frozen=True)
class Decide(NestPass):
    """Fold the minima, maxima and conditions that the loops around decide; drop code that is then never executed.

    ::

        for c0 in 0 .. (C + 255) // 256:                      -->   for c0 in 0 .. (C + 255) // 256:
            for c1 in 0 .. max(min(256, C - 256*c0), 0):                for c1 in 0 .. min(256, C - 256*c0):
                if (c1 >= 0): S                                             S
    """

    def apply(self, what: Node, about: About) -> Node:
        return without_unused(with_distinct_variables(simplify(decide(what, about.facts)), about.taken))


@deep_nest
def without_unused(node: Node) -> Node:
    """The statement without variables that nothing names any more: what read and changed them is never executed."""
    if Declare not in contents(node):
        return node
    if not isinstance(node, Block):
        return with_children(node, without_unused)
    if any(isinstance(child, Block) for child in node.body):
        return node
    kept: list[Node] = []
    for child in reversed(node.body):
        if not isinstance(child, Declare) or any(child.variable in names(later) for later in reversed(kept)):
            kept.append(without_unused(child))
    return block(reversed(kept))


# -- variables of guards that are decided: two of one name may then be in one block
#
# Before: ``x = a; S(x); x = b; T(x)``, each half in a guard until that was decided.
# After: ``x = a; S(x); x_2 = b; T(x_2)``.


def with_distinct_variables(node: Node, taken: Names) -> Node:
    """The statement with a name of its own for each variable of a block, where two have the same one."""
    if Declare not in contents(node):
        return node
    return Renaming(Names({*taken.taken, *names(node)})).distinct(node, set())


@dataclass(frozen=True)
class Renaming:
    """The renaming of one nest; names in `taken` are not new ones."""

    taken: Names

    @deep_nest
    def distinct(self, node: Node, declared: set[str]) -> Node:
        """A statement in a block of C that has declared these variables so far, with those that it declares added."""
        if Declare not in contents(node):
            return node
        if isinstance(node, Block):
            return self._block(node, declared)
        if isinstance(node, For | If):
            return with_children(node, lambda child: self.distinct(child, set()))
        if isinstance(node, Declare):
            declared.add(node.variable)
            return node
        return with_children(node, lambda child: self.distinct(child, declared))

    def _block(self, node: Block, declared: set[str]) -> Node:
        found: list[Node] = []
        new: dict[str, str] = {}
        for child in node.body:
            known = renamed(child, new) if new else child
            if isinstance(known, Declare) and known.variable in declared:
                new[known.variable] = self.taken.fresh(known.variable)
                known = replace(known, variable=new[known.variable])
            found.append(self.distinct(known, declared))
        return block(found) if new or any(a is not b for a, b in zip(found, node.body, strict=True)) else node


@deep_nest
def renamed(node: Node, new: Mapping[str, str]) -> Node:
    """A statement with variables renamed, up to where one of their names is declared anew."""
    if not new or names(node).isdisjoint(new):
        return node
    if isinstance(node, Block):
        found: list[Node] = []
        for child in node.body:
            found.append(renamed(child, new))
            if isinstance(child, Declare):
                new = {name: other for name, other in new.items() if name != child.variable}
        return Block(tuple(found))
    if isinstance(node, Assign) and node.variable in new:
        node = replace(node, variable=new[node.variable])
    node = with_expressions(node, lambda e: _renamed(e, new))
    inside = {name: other for name, other in new.items() if name != defined(node)}
    return with_children(node, lambda child: renamed(child, inside))


def _renamed(e: Expr, new: Mapping[str, str]) -> Expr:
    def changed(part: Expr) -> Expr | None:
        if not mentions(part, new):
            return part
        return replace(part, name=new[part.name]) if isinstance(part, Iter) else None

    return rewrite(e, changed) if mentions(e, new) else e
