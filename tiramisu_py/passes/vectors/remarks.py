"""Remarks in vector code on what is done for each lane: functions without a vector instruction, elements at computed
indices or apart in memory, and whole statements; and these remarks as sentences, for users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiramisu_py.algorithm.expressions import Call, Expr
from tiramisu_py.algorithm.traversal import kinds, walk
from tiramisu_py.algorithm.types import float32, strong
from tiramisu_py.ir import Assign, Block, Comment, Load, LoopFunction, Node, Ramp, Store
from tiramisu_py.ir.arithmetic.linear import along_lanes
from tiramisu_py.ir.rewriting import block, children, with_children
from tiramisu_py.ir.rewriting import walk as nodes
from tiramisu_py.passes.vectors.widen import BY_LANES

#: Functions that compilers turn into one instruction, on processors that have it.
_INSTRUCTIONS = frozenset({"abs", "ceil", "copysign", "floor", "popcount", "reinterpret", "rint", "sqrt", "trunc"})
#: Functions of float32 that the runtime computes in vectors.
_IN_VECTORS = frozenset({"exp"})
CALLED, GATHERED, SCATTERED = "called for each lane", "gathered at computed indices", "scattered to computed indices"
#: Elements that are apart in memory: lowering says so, which knows the loops and arrays of the program.
STRIDED = "strided along"
#: Stores past the caches that would be of parts of cache lines (see `whole_lines`).
AS_USUAL = "stored as usual, not past the caches"
#: A body whose loops are cut around a point: lowering says so, too.
COPIED = "copied"
#: How remarks begin.
BEGINNINGS = (BY_LANES, CALLED, GATHERED, SCATTERED, STRIDED, COPIED, AS_USUAL)


def remarked(node: Node) -> Node:
    """The statement with a line before each store of vectors for what it does for each lane."""
    node = with_children(node, remarked)
    if not isinstance(node, Store):
        return node
    calls = (e for e in _parts(node.value, Call) if isinstance(e, Call) and _by_lane(e))
    loads = (e for e in _parts(node.value, Load) if isinstance(e, Load) and _apart(e.indices))
    said = {
        CALLED: dict.fromkeys(e.function for e in calls),
        GATHERED: dict.fromkeys(e.buffer for e in loads),
        SCATTERED: dict.fromkeys([node.buffer] if _apart(node.indices) else []),
    }
    lines = [Comment(f"{words}: {', '.join(names)}") for words, names in said.items() if names]
    return block([*lines, node]) if lines else node


def without_strides(node: Node) -> Node:
    """The statement without remarks on strides: its loop has turned out to be none of vectors."""
    if isinstance(node, Block):
        kept = (each for each in node.body if not (isinstance(each, Comment) and each.text.startswith(STRIDED)))
        return block(map(without_strides, kept))
    return with_children(node, without_strides)


def _parts(e: Expr, kind: type[Expr]) -> Iterable[Expr]:
    return walk(e) if kind in kinds(e) else ()


def _by_lane(e: Call) -> bool:
    in_vectors = e.function in _INSTRUCTIONS or (e.function in _IN_VECTORS and strong(e.dtype) == float32)
    plain = e.extern is None and in_vectors
    return not plain and any(_varies(argument) for argument in e.arguments)


def _varies(e: Expr) -> bool:
    return Ramp in kinds(e)


def _apart(indices: Iterable[Expr]) -> bool:
    """Whether the lanes have elements at indices that are computed from values."""
    return any(_varies(index) and Load in kinds(index) and along_lanes(index) is None for index in indices)


# -- sentences


def remarks(function: LoopFunction) -> tuple[str, ...]:
    """Vector code that runs lane by lane, as sentences: the array that is stored, and the remark above its store."""
    bodies = [function.body, *(kernel.body for kernel in function.gpus.kernels)]
    own = (said for body in bodies for said in _said(body))
    others = (said for version in function.companions.versions for said in remarks(version.function))
    return tuple(dict.fromkeys((*own, *others)))


def _said(node: Node) -> Iterator[str]:
    inside = node.body if isinstance(node, Block) else children(node)
    for number, child in enumerate(inside):
        if isinstance(child, Comment) and child.text.startswith(BEGINNINGS):
            stored = (_stored(each) for later in inside[number + 1 :] for each in nodes(later))
            yield f"{next(filter(None, stored), 'a value')}: {child.text}"
        else:
            yield from _said(child)


def _stored(node: Node) -> str:
    """The array that a statement stores, or the reduction that it adds to in a register; "" for any other."""
    if isinstance(node, Assign):
        return node.statement.removesuffix("_update")
    return node.buffer if isinstance(node, Store) else ""
