"""The iterations that vector loops have left, where there are many such loops: no work for a compiler's vectors.

Each of them is shorter than a vector of the loop before it. A compiler that makes vectors of it adds versions, loops
and tests for a few iterations; of a hundred of them (unrolled loops around a vector loop, of a partial tile) gcc makes
a function that takes it most of a minute.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.ir import For, LoopFunction, Node
from tiramisu_py.ir.rewriting import contents, walk, with_children
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.records import dataclass

#: So many loops of remainders are left to the compiler.
MOST_LEFT = 16


@dataclass(frozen=True)
class PlainRemainders(FunctionPass):
    """Mark the remainders of vector loops as loops of few iterations, where a function has many of them.

    ::

        for c in c_end .. C:  S     -->   for c in c_end .. C:  few iterations
        for d in d_end .. D:  T               S
        ..                                for d in d_end .. D:  few iterations
                                              T
                                          ..
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        many = sum(isinstance(node, For) and node.left for node in walk(what.body)) > MOST_LEFT
        return replace(what, body=_as_few(what.body)) if many else what


@deep_nest
def _as_few(node: Node) -> Node:
    if For not in contents(node):
        return node
    node = with_children(node, _as_few)
    return replace(node, few=True) if isinstance(node, For) and node.left else node
