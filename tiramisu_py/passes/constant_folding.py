"""Passes that fold arithmetic that is constant, or that the loops around decide."""

from __future__ import annotations

from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.ir import Block, Declare, Node
from tiramisu_py.ir.arithmetic.facts import decide
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.rewriting import block, contents, names, with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.distinct_variables import with_distinct_variables
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
