"""Loops tagged for instructions on small matrices, and the product that they compute."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Cast
from tiramisu_py.ir.expressions import Load
from tiramisu_py.ir.nodes import Node
from tiramisu_py.ir.statements import Block, Comment, For, Store
from tiramisu_py.program.loops import TensorLoop


def tensor_nest(node: Node) -> tuple[list[For], Node]:
    """Tensor loops that are nested perfectly but for comments, over rows, columns and terms, and what is inside."""
    loops: dict[int, For] = {}
    while True:
        if isinstance(node, Block):
            kept = [child for child in node.body if not isinstance(child, Comment)]
            if len(kept) != 1:
                break
            (node,) = kept
        elif isinstance(node, For) and isinstance(node.tag, TensorLoop) and node.tag.axis not in loops:
            loops[node.tag.axis] = node
            node = node.body
        else:
            break
    return [loops[axis] for axis in sorted(loops)], node


def factors_of(store: Store) -> tuple[Load, Load] | None:
    """The two loads of ``place = place + a * b``, each of which may be converted; None for other stores."""
    value = store.value
    if not isinstance(value, Binary) or value.op != "+":
        return None
    place = Load(store.buffer, store.indices, value.dtype).key()
    term = next((b for a, b in ((value.left, value.right), (value.right, value.left)) if a.key() == place), None)
    if not isinstance(term, Binary) or term.op != "*" or term.dtype != value.dtype:
        return None
    left, right = (e.operand if isinstance(e, Cast) else e for e in (term.left, term.right))
    return (left, right) if isinstance(left, Load) and isinstance(right, Load) else None
