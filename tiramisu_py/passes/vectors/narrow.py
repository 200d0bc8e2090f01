"""Narrow lanes in vectors: 64-bit values that are known to fit 32 bits are computed in 32.

Before, with C <= 32768: ``int64(column) < C - 1`` and ``float32(c)``, of an int32 column and a loop over c. After:
``column < int32(C - 1)`` and ``float32(int32(c))``. The values are the same; a register holds twice as many of them.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Cast, Expr
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import kinds, rewrite
from tiramisu_py.algorithm.types import int32, int64
from tiramisu_py.ir import For, If, Load, Node
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.arithmetic.linear import is_index, linear, number
from tiramisu_py.ir.rewriting import contents, with_children, with_expressions
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.program.loops import Vector
from tiramisu_py.records import dataclass

#: The parts of expressions that change.
NARROWED = frozenset((Cast, *COMPARISONS))
LOWEST, HIGHEST = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Narrow(NestPass):
    """Compute the 64-bit values of a vector loop in 32 bits if they are known to fit.

    ::

        int64(column) < C - 1     -->   column < int32(C - 1)          (column is an int32, C <= 32768)
    """

    def apply(self, what: Node, about: About) -> Node:
        return narrowed(what, about.facts)


def narrowed(node: Node, facts: Facts, in_vector: bool = False) -> Node:
    """The statement whose vector loops compute 64-bit values in 32 bits if `facts` show that these fit."""
    if not in_vector and Vector not in contents(node):
        return node
    if in_vector:
        node = with_expressions(node, lambda e: _narrowed(e, facts))
    if isinstance(node, If):
        otherwise = None if node.otherwise is None else narrowed(node.otherwise, facts, in_vector)
        then = narrowed(node.then, facts.behind(node), in_vector)
        return replace(node, then=then, otherwise=otherwise)
    inside = facts.inside(node)
    below = in_vector or (isinstance(node, For) and isinstance(node.tag, Vector))
    return with_children(node, lambda child: narrowed(child, inside, below))


def _narrowed(e: Expr, facts: Facts) -> Expr:
    return e if kinds(e).isdisjoint(NARROWED) else rewrite(e, lambda part: _narrower(part, facts))


@deep
def _narrower(e: Expr, facts: Facts) -> Expr | None:
    match e:
        case Binary() if e.op in COMPARISONS and is_index(e.left.dtype) and is_index(e.right.dtype):
            left, right = _in_32_bits(e.left, facts), _in_32_bits(e.right, facts)
            if left is None or right is None or not (_is_value(e.left) or _is_value(e.right)):
                return None
            low, high = (_narrowed(side, facts) for side in (left, right))
            return Binary(e.op, low, high, e.dtype)
        case Cast() if e.dtype.is_float and e.dtype.bits == 32 and is_index(e.operand.dtype):
            whole = None if _is_value(e.operand) else _in_32_bits(e.operand, facts)
            return None if whole is None else Cast(whole, e.dtype)
    return None


def _is_value(e: Expr) -> bool:
    """Whether an index is a value that was computed in 32 bits."""
    return isinstance(e, Cast) and e.operand.dtype == int32


def _in_32_bits(e: Expr, facts: Facts) -> Expr | None:
    """An int64 expression as int32; None if it is not known to fit."""
    if isinstance(e, Cast) and e.operand.dtype == int32:
        return e.operand
    if isinstance(e, Load) or not linear(e).exact:
        return None
    above, below = Binary("-", e, number(LOWEST), int64), Binary("-", number(HIGHEST), e, int64)
    return Cast(e, int32) if _holds(above, facts) and _holds(below, facts) else None


def _holds(e: Expr, facts: Facts) -> bool:
    """Whether an expression is at least 0: one fact bounds a loop's variable by a size, another one bounds the size."""
    rests = (linear(e).plus(fact, -1).expression() for fact in facts.forms)
    return facts.nonnegative(e) or any(map(facts.nonnegative, rests))
