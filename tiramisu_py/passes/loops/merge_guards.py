"""Neighbouring guards with the same condition, merged into one."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.ir import Assign, Block, Declare, If, LoopFunction, Node
from tiramisu_py.ir.rewriting import block, is_empty, read_buffers, variables, walk, with_children
from tiramisu_py.passes.base import About, FunctionPass, NestPass
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class MergeHostGuards(FunctionPass):
    """Merge neighbouring guards with the same condition, in host code that uses GPUs or other ranks.

    ::

        if (rank0 == 1): S     -->   if (rank0 == 1):
        if (rank0 == 1): T               S
                                         T
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        return replace(what, body=merged(what.body)) if what.grid or what.gpus.kernels else what


@dataclass(frozen=True)
class MergeGuards(NestPass):
    """Merge neighbouring guards of a kernel with the same condition.

    ::

        if (i < N): S     -->   if (i < N):
        if (i < N): T               S
                                    T
    """

    def apply(self, what: Node, about: About) -> Node:
        return merged(what)


def merged(node: Node) -> Node:
    """The statement with neighbouring guards of the same condition merged."""
    node = with_children(node, merged)
    if not isinstance(node, Block):
        return node
    found: list[Node] = []
    for child in node.body:
        last = found[-1] if found else None
        if isinstance(child, If) and isinstance(last, If) and _same(last, child):
            found[-1] = replace(last, then=merged(block([last.then, child.then])))
        else:
            found.append(child)
    return block(found)


def _same(first: If, second: If) -> bool:
    """Whether two guards have the same condition, and the first one's body does not change it."""
    plain = first.otherwise is None and second.otherwise is None
    if not plain or first.condition.key() != second.condition.key() or is_empty(first.then):
        return False
    return not read_buffers(If(first.condition, Block(()))) and not (_assigned(first.then) & variables(first.condition))


def _assigned(node: Node) -> set[str]:
    return {inner.variable for inner in walk(node) if isinstance(inner, Assign | Declare)}
