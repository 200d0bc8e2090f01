"""Names for the parts of a large expression, and for the parts that occur in it again and again.

Before: ``p[i] = <10,000 terms>``. After: ``part = <some of them>; part_2 = part + <more>; ..; p[i] = part_157 + <the
last>``. So no later pass, and no C compiler, meets a deep or large expression, and a part that occurs many times is
computed once. Small expressions stay as the user wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiramisu_py.algorithm.expressions import Call, Expr, Iter, Select
from tiramisu_py.algorithm.traversal import occurrences, rewrite, walk
from tiramisu_py.ir import Let, Load, Node, Store
from tiramisu_py.ir.arithmetic.lanes import guards
from tiramisu_py.ir.rewriting import Names, with_children

#: Expressions stay whole if they have at most this many operations and operands (shared parts count each time) ..
MOST_NODES = 1000
#: .. and nest at most this deep.
MOST_DEEP = 120
#: A part with a name has about this many operations and operands, or nests about this deep.
PART_NODES = 200
PART_DEEP = 40


def with_named_parts(node: Node, taken: Names) -> Node:
    """The statement with names for parts of the large values that it stores."""
    if not isinstance(node, Store):
        return with_children(node, lambda child: with_named_parts(child, taken.inside(child)))
    if not _is_large(node.value):
        return node
    parts = _Parts(node.value, node.buffer, taken)
    store: Node = replace(node, value=parts.value)
    for name, value in reversed(parts.named):
        store = Let(name, value, store)
    return store


def _is_large(e: Expr) -> bool:
    nodes: dict[int, int] = {}
    depths: dict[int, int] = {}
    for part in walk(e):
        nodes[id(part)] = 1 + sum(nodes[id(child)] for child in part.children())
        depths[id(part)] = 1 + max((depths[id(child)] for child in part.children()), default=0)
    return nodes[id(e)] > MOST_NODES or depths[id(e)] > MOST_DEEP


@dataclass(frozen=True)
class _Size:
    """The number of nodes of a part, and its depth; a part with a name counts as one node."""

    nodes: int = 1
    depth: int = 1


class _Parts:
    """Names for parts of one expression: `named`, in which each part may use those before, and the rest, `value`."""

    def __init__(self, e: Expr, stored: str, taken: Names) -> None:
        self.named: list[tuple[str, Expr]] = []
        self.stored = stored
        self.uses = occurrences(e)
        free = _computable_first(e)
        sizes: dict[int, _Size] = {}
        names: dict[int, Expr] = {}
        own: set[int] = set()  # reads the element that is stored
        for part in walk(e):
            children = part.children()
            if (isinstance(part, Load) and part.buffer == stored) or any(id(child) in own for child in children):
                own.add(id(part))
            inside = [sizes[id(child)] for child in children]
            size = _Size(1 + sum(s.nodes for s in inside), 1 + max((s.depth for s in inside), default=0))
            sizes[id(part)] = size
            if part is not e and id(part) in free and id(part) not in own and self._wants_name(part, size):
                name = taken.fresh("part")
                self.named.append((name, rewrite(part, lambda inner: names.get(id(inner)))))
                names[id(part)] = Iter(name, part.dtype)
                sizes[id(part)] = _Size()
        self.value = rewrite(e, lambda inner: names.get(id(inner)))

    def _wants_name(self, part: Expr, size: _Size) -> bool:
        if size.nodes == 1 or isinstance(part, Load):
            return False
        return self.uses[id(part)] > 1 or size.nodes > PART_NODES or size.depth > PART_DEEP


def _computable_first(e: Expr) -> set[int]:
    """The ids of the parts that may be computed before the rest: not the parts that a condition on indices guards.

    Under a condition on values both branches may be read, as the algorithm's soundness requires. A function of the
    user's may rely on the condition around its call. Indices stay where they are.
    """
    foreign = any(isinstance(part, Call) and part.extern is not None for part in walk(e))
    found: set[int] = set()
    waiting = [e]
    while waiting:
        part = waiting.pop()
        if id(part) in found:
            continue
        found.add(id(part))
        if isinstance(part, Load):
            continue
        lazy = isinstance(part, Select) and (foreign or guards(part.condition))
        waiting += (part.condition,) if lazy and isinstance(part, Select) else part.children()
    return found
