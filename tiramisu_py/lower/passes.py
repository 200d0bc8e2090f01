"""From scheduled loops to the loops that are emitted: the passes over the loop IR, in order."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.lower.full_tiles import full_tiles
from tiramisu_py.lower.ir import Allocate, Block, LoopFunction, Node
from tiramisu_py.lower.ranges import Facts, decide, facts_of
from tiramisu_py.lower.registers import registers
from tiramisu_py.lower.simplify import simplify, without_stores
from tiramisu_py.lower.steps import counted
from tiramisu_py.lower.transform import Names, block, constant, loads, names
from tiramisu_py.lower.unroll import unroll
from tiramisu_py.lower.vectorize import vectorize


def optimise(function: LoopFunction) -> LoopFunction:
    """The function with full tiles separated, loops unrolled and vectorised, and small buffers in registers.

    Afterwards only parallel loops are tagged. Raises `UnsupportedError` where unrolling would repeat too much. The
    nests are worked on one by one, so that the cost grows with their number and not with its square.
    """
    taken = Names({*names(function.body), *function.params, *(argument.name for argument in function.arguments)})
    read = {load.buffer for load in loads(function.body)}
    return replace(function, body=_nest_by_nest(function.body, taken, read, facts_of(function)))


def _nest_by_nest(node: Node, taken: Names, read: set[str], facts: Facts) -> Node:
    if isinstance(node, Allocate) and not _is_small(node):
        inner = node.body if node.buffer in read else without_stores(node.body, node.buffer)
        body = _nest_by_nest(inner, taken, read, facts)
        return replace(node, body=body) if node.buffer in read else body
    if isinstance(node, Block):
        return block([_nest_by_nest(child, taken, read, facts) for child in node.body])
    body = full_tiles(simplify(counted(node)))
    body = simplify(unroll(body, taken))
    body = simplify(vectorize(body, taken))
    return simplify(decide(simplify(registers(body, taken)), facts))


def _is_small(node: Allocate) -> bool:
    """Whether a buffer may become variables; its scope is then one nest."""
    return node.register or all(constant(extent) is not None for extent in node.extents)
