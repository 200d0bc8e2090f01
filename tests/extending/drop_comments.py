"""A pass: a function's code without its comments."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiramisu_py.ir import Block, Comment, Node
from tiramisu_py.ir.rewriting import with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.pipeline import HOST, Pipeline


@dataclass(frozen=True)
class DropComments(NestPass):
    """::

    # y[i] = 2 * x[i]
    y[i] = 2 * x[i]        -->        y[i] = 2 * x[i]
    """

    def apply(self, what: Node, about: About) -> Node:
        return without_comments(what)


def without_comments(node: Node) -> Node:
    """A statement without the comments inside of it."""
    if isinstance(node, Block):
        node = replace(node, body=tuple(child for child in node.body if not isinstance(child, Comment)))
    return with_children(node, without_comments)


#: The passes of a compilation, with this one last on the host.
PIPELINE = Pipeline(host=(*HOST, DropComments()))
