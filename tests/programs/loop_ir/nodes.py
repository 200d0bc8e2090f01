"""What is looked for in loop IR: loops, statements of a kind, the indices of stores."""

from __future__ import annotations

from tiramisu_py.ir import For, Node, Store
from tiramisu_py.ir.rewriting import walk


def loops(node: Node) -> list[For]:
    """All loops."""
    return [inner for inner in walk(node) if isinstance(inner, For)]


def of(node: Node, kind: type) -> list[Node]:
    """All statements of a kind."""
    return [inner for inner in walk(node) if isinstance(inner, kind)]


def indices(node: Node) -> list[str]:
    """The first index of every store."""
    return [str(inner.indices[0]) for inner in walk(node) if isinstance(inner, Store)]
