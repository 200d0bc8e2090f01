"""Loops with a step, normalised to step 1, which unrolling and strips require.

Before: ``for i in a .. b step 2: f(i)``. After: ``for i in 0 .. (b - a + 1) // 2: f(a + 2*i)``.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import For, Node
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.properties import no_tagged_step
from tiramisu_py.ir.rewriting import substitute, with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.program.loops import TensorLoop, Unroll, Vector
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class CountSteps(NestPass):
    """Normalise a loop that is to be unrolled or vectorised to count its iterations from 0 with step 1.

    ::

        for i in a .. b step 2:  vector(8)     -->   for i in 0 .. (b - a + 1) // 2:  vector(8)
            S[i]                                         S[a + 2*i]
    """

    ensures = (no_tagged_step,)

    def apply(self, what: Node, about: About) -> Node:
        return counted(what)


def counted(node: Node) -> Node:
    """The statement with loops tagged Unroll or Vector counted from 0 with step 1, if they have another step."""
    node = with_children(node, counted)
    if not isinstance(node, For) or node.step == 1 or not isinstance(node.tag, Unroll | Vector | TensorLoop):
        return node
    last = _of("+", _of("-", node.upper, node.lower), number(node.step - 1))
    count = simplified(_of("//", last, number(node.step)))
    value = simplified(_of("+", node.lower, _of("*", number(node.step), Iter(node.variable, int64))))
    body = substitute(node.body, {node.variable: value})
    return replace(node, lower=number(0), upper=count, step=1, body=body)


def _of(op: str, left: Expr, right: Expr) -> Expr:
    return Binary(op, left, right, int64)
