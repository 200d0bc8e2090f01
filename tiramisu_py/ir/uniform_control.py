"""Uniform control flow: all threads of a block must reach its barriers, tree reductions and tickets, and all threads of
a warp its products of matrices, whatever the conditions.
"""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import (
    Barrier,
    For,
    GpuIndex,
    If,
    LastBlock,
    Let,
    Load,
    LoadMatrices,
    Locked,
    Mma,
    Node,
    TreeReduce,
    Variable,
)
from tiramisu_py.ir.rewriting import children, expressions
from tiramisu_py.ir.rewriting import walk as every
from tiramisu_py.records import dataclass

#: The statements at which all threads of a block meet, and those at which all of a warp do.
MEETINGS = (Barrier, TreeReduce, LastBlock, Locked)
WARP_MEETINGS = (Mma, LoadMatrices)
#: The axes along which threads of a block differ, and those of a warp that multiplies matrices.
IN_BLOCKS, IN_WARPS = frozenset((0, 1, 2)), frozenset((0, 1))


def meets(node: Node) -> bool:
    """Whether a statement contains a barrier, a tree reduction, a ticket or a product of a warp."""
    return any(isinstance(inner, (*MEETINGS, *WARP_MEETINGS)) for inner in every(node))


def is_uniform(node: Node, varying: frozenset[str]) -> bool:
    """Whether its conditions show that all threads of a block reach its barriers and tree reductions."""
    try:
        check_uniform(node, "", varying)
    except CompilerDefect:
        return False
    return True


def check_uniform(node: Node, kernel: str, varying: frozenset[str] = frozenset()) -> None:
    """Refuse barriers and tree reductions under conditions that threads of a block may see differently, and products of
    warps under those that threads of a warp may.

    `varying` are the variables, besides those defined inside, that differ between threads. Raises `CompilerDefect`.
    """
    _check(node, kernel, Divergence(varying=varying), Divergence(varying=varying, axes=IN_WARPS))


@dataclass(frozen=True)
class Divergence:
    """Whether threads may not all reach a statement, and the variables that differ between them there.

    Threads of a block differ along all `axes`, those of a warp along some.
    """

    divergent: bool = False
    varying: frozenset[str] = frozenset()
    axes: frozenset[int] = IN_BLOCKS

    def inside(self, node: Node) -> Divergence:
        """Whether that holds inside a statement."""
        differs = any(_varies(e, self.varying, self.axes) for e in expressions(node))
        divergent, varying = self.divergent, self.varying
        match node:
            case If():
                divergent = divergent or differs
            case For():
                divergent = divergent or differs
                varying = varying | {node.variable} if differs else varying - {node.variable}
            case Let():
                varying = varying | {node.variable} if differs else varying - {node.variable}
        return Divergence(divergent, varying, self.axes)


@deep_nest
def _check(node: Node, kernel: str, block: Divergence, warp: Divergence) -> None:
    for around, meetings, who in ((block, MEETINGS, "block"), (warp, WARP_MEETINGS, "warp")):
        if around.divergent and isinstance(node, meetings):
            raise CompilerDefect(
                f"{node.statement} in kernel {kernel} is under a condition that differs between threads of a {who}: "
                "move it out of loops whose bounds depend on the thread"
            )
    inside = block.inside(node), warp.inside(node)
    for child in children(node):
        _check(child, kernel, *inside)


def _varies(e: Expr, varying: frozenset[str], axes: frozenset[int]) -> bool:
    """Whether an expression may differ between threads that differ along these axes; loaded values may."""
    return any(
        isinstance(part, Load | Variable)
        or (isinstance(part, Iter) and part.name in varying)
        or (isinstance(part, GpuIndex) and part.unit == "thread" and part.axis in axes)
        for part in walk(e)
    )
