"""Collapsed parallel loops: the number of them that are adjacent in the generated loops.

A loop with ``collapse=n`` keeps those of the loops below it that are perfectly nested with it and whose bounds do not
depend on it; a loop that loses its partner is parallel by itself, or sequential inside a parallel loop.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.ir import Allocate, Block, Events, For, If, Let, LoopFunction, Node, Requests
from tiramisu_py.ir.properties import collapses_together
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.program.loops import Parallel
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class CollapseLoops(FunctionPass):
    """Collapse parallel loops only where they are adjacent and their bounds allow it.

    ::

        for i in 0..N:  parallel, collapse 2     -->   for i in 0..N:  parallel, collapse 1
            t[i] = ..                                      t[i] = ..
            for j in 0..M:  parallel                       for j in 0..M:
                S[i, j]                                        S[i, j]
    """

    ensures = (collapses_together,)

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        return replace(what, body=settled(what.body))


def settled(node: Node) -> Node:
    """The code with every ``collapse`` equal to the number of loops that can be collapsed."""
    return _settle(node, False)


@deep_nest
def _settle(node: Node, inside: bool) -> Node:
    match node:
        case Block():
            return Block(tuple(_settle(child, inside) for child in node.body))
        case If():
            otherwise = None if node.otherwise is None else _settle(node.otherwise, inside)
            return replace(node, then=_settle(node.then, inside), otherwise=otherwise)
        case Let() | Allocate() | Events() | Requests():
            return replace(node, body=_settle(node.body, inside))
        case For():
            return _loop(node, inside)
    return node


def _loop(node: For, inside: bool) -> Node:
    if not isinstance(node.tag, Parallel):
        return replace(node, body=_settle(node.body, inside))
    if inside:
        return replace(node, tag=None, reductions=(), body=_settle(node.body, True))
    chain = _chain(node)
    body = _settle(chain[-1].body, True)
    for inner in reversed(chain[1:]):
        body = replace(inner, body=body)
    return replace(node, tag=replace(node.tag, collapse=len(chain)), body=body)


def _chain(outermost: For) -> list[For]:
    """The loops collapsed together, outermost first."""
    assert isinstance(outermost.tag, Parallel)
    chain = [outermost]
    while len(chain) < outermost.tag.collapse:
        inner = chain[-1].body
        if not isinstance(inner, For) or not isinstance(inner.tag, Parallel) or inner.tag.collapse != 0:
            break
        if _depends(inner, {loop.variable for loop in chain}):
            break
        chain.append(inner)
    return chain


def _depends(loop: For, variables: set[str]) -> bool:
    bounds: tuple[Expr, ...] = (loop.lower, loop.upper)
    return any(isinstance(node, Iter) and node.name in variables for bound in bounds for node in walk(bound))
