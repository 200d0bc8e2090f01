"""The function that keeps an event log: its loop nests, messages, waits, and calls of GPUs become events.

It runs on request only: without it, the emitted text has no code for events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from tiramisu_py.algorithm import traversal
from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import (
    AllReduce,
    ArrayCall,
    Assign,
    Await,
    Block,
    Collective,
    Comment,
    Complete,
    Copy,
    Deferred,
    For,
    Launch,
    Let,
    LoopFunction,
    Mma,
    MultiplyTiles,
    Node,
    Piece,
    Post,
    Store,
    Traced,
    TreeReduce,
)
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import block, walk, with_children
from tiramisu_py.records import dataclass

#: At most this many statements are named in the name of an event.
MOST_NAMES = 3
_Told = Launch | Copy | Await | Post | Complete | Collective | AllReduce


def traced(function: LoopFunction) -> LoopFunction:
    """The function with events around its outermost loop nests that only compute (in each iteration of a loop around
    launches or messages), around calls over whole arrays, messages and their waits, and around launches, copies and
    waits of GPUs.
    """
    kernels = {kernel.name: statements_in(kernel.body) or kernel.name for kernel in function.gpus.kernels}
    versions = tuple(replace(each, function=traced(each.function)) for each in function.companions.versions)
    return replace(
        function,
        body=_Events(kernels).of(function.body),
        options=replace(function.options, traced=True),
        companions=replace(function.companions, versions=versions),
    )


def statements_in(node: Node) -> str:
    """The names of the statements that a nest or kernel executes, as text."""
    found = [name for inner in walk(node) for name in _statement(inner)]
    names = list(dict.fromkeys(found))
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _statement(node: Node) -> tuple[str, ...]:
    match node:
        case Deferred():
            return _statement(node.store)
        case Store() | Assign() | TreeReduce() | ArrayCall() | MultiplyTiles() | Mma():
            return (node.statement,) if node.statement else ()
    return ()


@dataclass(frozen=True)
class _Events:
    """Puts events into a function; `kernels` has the names of the statements that each kernel executes."""

    kernels: Mapping[str, str]

    @deep_nest
    def of(self, node: Node) -> Node:
        match node:
            case Block():
                return block(new for kind, run in groupby(node.body, _kind) for new in self._run(kind, list(run)))
            case For() if not _tells(node):
                return Traced("nest", statements_in(node), node)
            case ArrayCall():
                return Traced("nest", node.statement, node)
            case Launch():
                return Traced("launch", self.kernels[node.kernel], node, node.device, node.stream)
            case Copy():
                return Traced("copy", node.statement, node, node.device, node.stream)
            case Await() if node.stream is None:
                return Traced("wait", node.statement, node, node.device)
            case Post():
                kind = "send" if node.sends else "receive"
                return Traced(kind, node.statement, node, peer=node.peer, tag=node.tag, bytes=_bytes(node))
            case Complete():
                return self._waits([node])
            case Collective() | AllReduce():
                return Traced("collective", node.statement, node)
        return with_children(node, self.of)

    def _run(self, kind: str, nodes: Sequence[Node]) -> Iterable[Node]:
        """Consecutive waits become one event, and so do consecutive loops of the same statements."""
        if kind == "wait":
            return [self._waits(nodes)]
        if kind == "nest":
            return self._nests(nodes)
        return map(self.of, nodes)

    def _waits(self, nodes: Sequence[Node]) -> Node:
        names = list(dict.fromkeys(node.statement for node in nodes if isinstance(node, Complete)))
        return Traced("wait", ", ".join(names), _together(nodes))

    def _nests(self, nodes: Sequence[Node]) -> Iterable[Node]:
        for name, run in groupby(nodes, statements_in):
            yield Traced("nest", name, _together(list(run)))


def _kind(node: Node) -> str:
    if isinstance(node, Complete):
        return "wait"
    return "nest" if isinstance(node, For) and not _tells(node) else "other"


def _together(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Block(tuple(nodes))


def _tells(node: Node) -> bool:
    """Whether a statement contains operations of GPUs or messages."""
    return any(isinstance(inner, _Told) for inner in walk(node))


def _bytes(post: Post) -> Expr | None:
    """The size of a message in bytes; None if its elements are not one box."""
    values: dict[str, Expr] = {}
    node: Node = post.elements
    while not isinstance(node, Piece):
        inside = [n for n in node.body if not isinstance(n, Comment)] if isinstance(node, Block) else []
        if isinstance(node, Let):
            values[node.variable] = traversal.substitute(node.value, values)
            node = node.body
        elif len(inside) == 1:
            node = inside[0]
        else:
            return None
    extents = [traversal.substitute(side.extent, values) for side in node.sides]
    size: Expr = number(post.dtype.bytes)
    for extent in reversed(extents):
        size = Binary("*", extent, size, int64)
    return size
