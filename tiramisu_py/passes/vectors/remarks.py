"""Remarks in vector code on functions that are called for each lane, for lack of a vector instruction."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Call, Expr
from tiramisu_py.algorithm.traversal import kinds, walk
from tiramisu_py.algorithm.types import float32, strong
from tiramisu_py.ir import Comment, Node, Ramp, Store
from tiramisu_py.ir.rewriting import block, with_children

#: Functions that compilers turn into one instruction, on processors that have it.
_INSTRUCTIONS = frozenset({"abs", "ceil", "copysign", "floor", "popcount", "reinterpret", "rint", "sqrt", "trunc"})
#: Functions of float32 that the runtime computes in vectors.
_IN_VECTORS = frozenset({"exp"})


def remarked(node: Node) -> Node:
    """The statement with a line before each store of vectors whose value calls functions lane by lane."""
    node = with_children(node, remarked)
    if not isinstance(node, Store):
        return node
    calls = walk(node.value) if Call in kinds(node.value) else ()
    called = dict.fromkeys(e.function for e in calls if isinstance(e, Call) and _by_lane(e))
    return block([Comment(f"called for each lane: {', '.join(called)}"), node]) if called else node


def _by_lane(e: Call) -> bool:
    in_vectors = e.function in _INSTRUCTIONS or (e.function in _IN_VECTORS and strong(e.dtype) == float32)
    plain = e.extern is None and in_vectors
    return not plain and any(_varies(argument) for argument in e.arguments)


def _varies(e: Expr) -> bool:
    return Ramp in kinds(e)
