"""Buffers that are never read: they and the stores to them are removed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.ir import Allocate, LoopFunction, Node
from tiramisu_py.ir.arithmetic.simplify import without_stores
from tiramisu_py.ir.rewriting import read_buffers, with_children
from tiramisu_py.passes.base import About, FunctionPass, around_nests
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class RemoveUnread(FunctionPass):
    """Remove a large buffer that is never read, and the stores to it.

    ::

        allocate t[N]:                -->   for i in 0 .. N: y[i] = g(i)
            for i in 0 .. N:
                t[i] = f(i)
                y[i] = g(i)

    Small buffers are left to `Simplify`.
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        kernels = tuple(replace(kernel, body=without_unread(kernel.body)) for kernel in what.gpus.kernels)
        return replace(what, body=without_unread(what.body), gpus=replace(what.gpus, kernels=kernels))


def without_unread(node: Node) -> Node:
    """A function's body without the large buffers that it never reads."""
    return _without(node, read_buffers(node))


@deep_nest
def _without(node: Node, read: AbstractSet[str]) -> Node:
    if isinstance(node, Allocate) and around_nests(node) and node.buffer not in read:
        return _without(without_stores(node.body, node.buffer), read)
    return with_children(node, lambda child: _without(child, read)) if around_nests(node) else node
