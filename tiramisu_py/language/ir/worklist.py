"""The worklist engine of data-flow analysis (Tillet, algorithm 2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)


def fixed_point(
    before: Mapping[_Node, Sequence[_Node]],
    generated: Mapping[_Node, frozenset[object]],
    killed: Mapping[_Node, frozenset[object]] | None = None,
) -> dict[_Node, frozenset[object]]:
    """The facts that hold after each node, ``generated | (in - killed)``: ``in`` is the union over those `before` it.

    The facts grow until none changes; a node is looked at again when one before it has changed. Of liveness, `before`
    are the successors.
    """
    nodes = dict.fromkeys([*before, *generated])
    after: dict[_Node, list[_Node]] = {}
    for node, sources in before.items():
        for source in sources:
            after.setdefault(source, []).append(node)
    found: dict[_Node, frozenset[object]] = {}
    waiting, queued = deque(nodes), set(nodes)
    while waiting:
        node = waiting.popleft()
        queued.discard(node)
        arrived = _union(found.get(source, frozenset()) for source in before.get(node, ()))
        left = arrived - killed.get(node, frozenset()) if killed is not None else arrived
        out = generated.get(node, frozenset()) | left
        if out != found.get(node):
            found[node] = out
            for each in after.get(node, ()):
                if each not in queued:
                    queued.add(each)
                    waiting.append(each)
    return found


def _union(sets: Iterable[frozenset[object]]) -> frozenset[object]:
    whole: frozenset[object] = frozenset()
    for each in sets:
        whole = whole | each
    return whole
