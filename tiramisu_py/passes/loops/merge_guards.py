"""Neighbouring guards with the same condition, merged into one."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.algorithm.types import bool_
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
    """Merge neighbouring guards of a kernel with the same condition, and branches that are equal.

    ::

        if (i < N): S     -->   if (i < N):     if (i % 3 == 0): S     -->   if (i % 3 == 0 or i % 3 == 2): S
        if (i < N): T               S           elif (i % 3 == 2): S
                                    T
    """

    def apply(self, what: Node, about: About) -> Node:
        return merged(_joined(what))


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


def _joined(node: Node) -> Node:
    """The statement with equal branches as one: isl cuts the executions under a remainder into pieces."""
    node = with_children(node, _joined)
    if not isinstance(node, If) or node.otherwise is None:
        return node
    if _equal(node.then, node.otherwise):
        return node.then
    second = node.otherwise
    if isinstance(second, If) and _equal(node.then, second.then) and not read_buffers(If(second.condition, Block(()))):
        either = Binary("|", node.condition, second.condition, bool_)
        return replace(node, condition=either, otherwise=second.otherwise)
    return node


def _equal(one: object, other: object) -> bool:
    """Whether two statements, or fields of them, are alike."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Expr) and isinstance(other, Expr):
        return one.key() == other.key()
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if hasattr(one, "roles") and is_dataclass(one) and not isinstance(one, type):
        return all(_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return one == other


def _assigned(node: Node) -> set[str]:
    return {inner.variable for inner in walk(node) if isinstance(inner, Assign | Declare)}
