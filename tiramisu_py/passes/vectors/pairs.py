"""Values that are wider than a register only on the way from narrow operands to a narrow result.

Before, with lanes of 8 bits that fill a register: ``uint8(uint16(a) + uint16(b) >> 1)``, in two registers of 16 bits.
After: ``narrowed(...)``, which the emitter computes for even and odd lanes apart: no lane moves to another register.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import Cast, Expr
from tiramisu_py.algorithm.traversal import kinds, mentions, rewrite
from tiramisu_py.ir import Allocate, Assign, Declare, For, Idiom, Let, Load, Node, Ramp, Store
from tiramisu_py.ir.arithmetic.pairs import NARROWED, in_pairs
from tiramisu_py.ir.rewriting import buffers_in, walk, with_children


def with_pairs(node: Node, lane: str, width: int, register: int) -> Node:
    """The statement with narrow results of values that fill more than one register computed in pairs, except in loops
    over lanes (of the variable `lane`).
    """
    names = tuple(each.variable for each in walk(node) if isinstance(each, Let | Declare | Assign) and _has_lanes(each))
    buffers = {each.buffer for each in walk(node) if isinstance(each, Allocate) and each.lanes > 1}

    def is_uniform(e: Expr) -> bool:
        return Ramp not in kinds(e) and not mentions(e, names) and buffers_in(e).isdisjoint(buffers)

    def changed(e: Expr) -> Expr | None:
        if isinstance(e, Load):
            return e
        if not isinstance(e, Cast) or width * e.dtype.bytes != register or is_uniform(e):
            return None
        if not in_pairs(e.operand, e.dtype, is_uniform):
            return None
        return Idiom(NARROWED, (e.operand,), e.dtype)

    def inside(part: Node) -> Node:
        if isinstance(part, For) and part.variable == lane:
            return part
        if isinstance(part, Store | Let | Declare | Assign) and Cast in kinds(part.value):
            part = replace(part, value=rewrite(part.value, changed))
        return with_children(part, inside)

    return inside(node)


def _has_lanes(node: Let | Declare | Assign) -> bool:
    return Ramp in kinds(node.value) or (isinstance(node, Declare) and node.lanes > 1)
