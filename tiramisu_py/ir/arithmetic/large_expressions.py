"""Names for the parts of a large expression, and for the parts that occur in it again and again.

Before: ``p[i] = <10,000 terms>``. After: ``part = <some of them>; part_2 = part + <more>; ..; p[i] = part_157 + <the
last>``. So no later pass, and no C compiler, meets a deep or large expression, and a part that occurs many times is
computed once. Small expressions stay as the user wrote them.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import Call, Expr, Iter, Select, typed_const
from tiramisu_py.algorithm.traversal import occurrences, rewrite, walk
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.ir import Let, Load, Node, Store
from tiramisu_py.ir.arithmetic.lanes import guards
from tiramisu_py.ir.rewriting import Names, with_children
from tiramisu_py.records import dataclass

#: Expressions stay whole if they have at most this many operations and operands (shared parts count each time) ..
MOST_NODES = 1000
#: .. and nest at most this deep.
MOST_DEEP = 120
#: A part with a name has about this many operations and operands, or nests about this deep.
PART_NODES = 200
PART_DEEP = 40
#: A part that more conditions than this guard stays in place.
MOST_CONDITIONS = 4

#: The branches of lazy selects that lead to a part: of each select its condition, and whether it holds.
Way = tuple[tuple[Expr, bool], ...]


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
        self.uses = occurrences(e)
        self.ways, self.outside = _ways(e), _outside_indices(e)
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
            if part is not e and id(part) not in own and self._wants_name(part, size):
                name = taken.fresh("part")
                value = self._guarded(part)
                self.named.append((name, rewrite(value, lambda inner: names.get(id(inner)))))
                names[id(part)] = Iter(name, part.dtype)
                sizes[id(part)] = _Size()
        self.value = rewrite(e, lambda inner: names.get(id(inner)))

    def _wants_name(self, part: Expr, size: _Size) -> bool:
        way = self.ways.get(id(part))
        if size.nodes == 1 or way is None or isinstance(part.dtype, TupleType):
            return False
        is_large = size.nodes > PART_NODES or size.depth > PART_DEEP
        if isinstance(part, Load) or id(part) not in self.outside:
            return isinstance(part, Load) and is_large
        return is_large or (not way and self.uses[id(part)] > 1)

    def _guarded(self, part: Expr) -> Expr:
        """A part that is computed before the rest, where the conditions around it hold; elsewhere nobody uses it."""
        value = part
        for condition, holds in reversed(self.ways[id(part)] or ()):
            nothing = typed_const(0, part.dtype)
            yes, no = (value, nothing) if holds else (nothing, value)
            value = Select(condition, yes, no, part.dtype)
        return value


def _ways(e: Expr) -> dict[int, Way | None]:
    """The way to each part: what all places where it stands have in common; None where that is not enough.

    A part that both branches of a select compute is computed in any case. Under a condition on values both branches may
    be read, as the algorithm's soundness requires. A function of the user's may rely on the condition around its call.
    """
    foreign = any(isinstance(part, Call) and part.extern is not None for part in walk(e))
    found: dict[int, Way | None] = {}
    places: dict[int, list[Way | None]] = {id(e): [()]}
    for part in reversed(list(walk(e))):
        way = found[id(part)] = _common(places.pop(id(part)))
        lazy = isinstance(part, Select) and (foreign or guards(part.condition))
        for k, child in enumerate(part.children()):
            into = way
            if lazy and isinstance(part, Select) and k > 0 and way is not None:
                into = (*way, (part.condition, k == 1)) if len(way) < MOST_CONDITIONS else None
            places.setdefault(id(child), []).append(into)
    return found


def _common(ways: list[Way | None]) -> Way | None:
    """The one way that is taken if and only if one of several is; None if there is none, or a way is not known."""
    left = {_numbered(way): way for way in ways if way is not None}
    if len(left) < len({None if way is None else _numbered(way) for way in ways}):
        return () if () in left else None
    while len(left) > 1:
        last = max(left, key=len)
        way = left.pop(last)
        if any(last[:length] in left for length in range(len(last))):
            continue
        if left.pop((*last[:-1], (last[-1][0], not last[-1][1])), None) is None:
            return None
        left[last[:-1]] = way[:-1]
    return next(iter(left.values()))


def _numbered(way: Way) -> tuple[tuple[int, bool], ...]:
    return tuple((id(condition), holds) for condition, holds in way)


def _outside_indices(e: Expr) -> set[int]:
    """The ids of the parts that stand elsewhere than in indices alone: indices stay where they are."""
    found: set[int] = set()
    waiting = [e]
    while waiting:
        part = waiting.pop()
        if id(part) not in found:
            found.add(id(part))
            waiting += () if isinstance(part, Load) else part.children()
    return found
