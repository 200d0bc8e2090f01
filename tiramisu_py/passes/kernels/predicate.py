"""Predication: short loops of a kernel get constant extents, and guards inside in place of their bounds.

Before: ``for u in 0 .. min(4, M - 64*i0 - 4*i1): ...``, unrolled. After: ``for u in 0 .. 4: if (64*i0 + 4*i1 + u < M)
...``, so that registers are indexed by constants only.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import Expr, Iter, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import substitute as substitute_in
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Allocate, Block, Comment, Deferred, For, If, Node, Store
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.build import conjunction, conjuncts
from tiramisu_py.ir.arithmetic.kernel_ranges import ConstantSpan, Limits, condition_of, constant_span
from tiramisu_py.ir.arithmetic.linear import Linear, difference, linear, number
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import block, children, loads, substitute, with_children
from tiramisu_py.ir.uniform_control import meets
from tiramisu_py.program.loops import TensorLoop, Unroll, Vector

#: Loops of at most this many iterations are unrolled, since their guards would keep a compiler from it ..
MOST_TURNS = 16
#: .. unless that would make more stores than this.
MOST_STORES = 64


def guarded(node: Node, limits: Limits) -> Node:
    """The statement with constant extents for short loops and vectors, and guards inside in place of other bounds."""
    inside = limits.inside(node)
    node = with_children(node, lambda child: guarded(child, inside))
    if isinstance(node, If):
        return replace(node, condition=_readable(node.condition, limits))
    if not isinstance(node, For) or node.step != 1 or meets(node):
        return node
    span = constant_span(node, limits)
    if span is None or not _is_short(node, span) or (node.tag is None and not span.tests):
        return node
    return _whole(node, span, limits)


def _whole(loop: For, span: ConstantSpan, limits: Limits) -> For:
    """The loop with its full extent, counted from 0, and its other bounds as a guard inside."""
    here = Iter(loop.variable, int64)
    value = {loop.variable: here if constant(span.low) is not None else arithmetic.added(span.low, here)}
    low, high = (span.low, span.high) if constant(span.low) is not None else (number(0), number(span.extent))
    whole = replace(loop, lower=low, upper=high, tag=loop.tag or Unroll(), body=simplify(substitute(loop.body, value)))
    inside = limits.inside(whole)
    test = conjunction(_readable(simplified(substitute_in(test, value)), inside) for test in span.tests)
    return whole if test is None else replace(whole, body=If(test, whole.body))


def _readable(condition: Expr, limits: Limits) -> Expr:
    """A conjunction of comparisons, each in the form of `condition_of`."""
    forms = [(part, limits.form(part)) for part in conjuncts(condition)]
    whole = conjunction(part if form is None else condition_of(form) for part, form in forms)
    assert whole is not None
    return whole


def _is_short(loop: For, span: ConstantSpan) -> bool:
    match loop.tag:
        case Vector():
            return span.extent % loop.tag.width == 0
        case Unroll():
            return loop.tag.factor is None
        case TensorLoop():
            return True
    return loop.tag is None and span.extent <= MOST_TURNS and span.extent * _stores(loop.body) <= MOST_STORES


@deep
def _stores(node: Node) -> int:
    """The number of stores after unrolling; above `MOST_STORES` if a loop stays a loop."""
    if isinstance(node, Store | Deferred):
        return 1
    inside = sum(map(_stores, children(node)))
    if not isinstance(node, For):
        return inside
    trip = difference(node.upper, node.lower) if isinstance(node.tag, Unroll | Vector) else None
    return MOST_STORES + 1 if trip is None else trip * inside


def first_stores(node: Node, limits: Limits) -> Node:
    """The statement without guards around the first stores to registers, of constants: extra stores do no harm."""
    inside = limits.inside(node)
    node = with_children(node, lambda child: first_stores(child, inside))
    if not isinstance(node, Allocate) or not node.register or not isinstance(node.body, Block):
        return node
    for position, statement in enumerate(node.body.body):
        if not isinstance(statement, Comment):
            if not _only_constants(statement, node, inside):
                return node
            changed = (*node.body.body[:position], _unguarded(statement), *node.body.body[position + 1 :])
            return replace(node, body=block(changed))
    return node


def _only_constants(node: Node, owner: Allocate, limits: Limits) -> bool:
    """Whether a statement only stores values without loads, to elements inside the buffer."""
    limits = limits.inside(node)
    match node:
        case Store():
            known = zip(node.indices, owner.extents, strict=False)
            there = all(_between(index, constant(extent), limits) for index, extent in known)
            return node.buffer == owner.buffer and there and not tuple(loads(node))
        case For() | If() | Block():
            inner = node.body if isinstance(node, Block) else (node.body,) if isinstance(node, For) else (node.then,)
            plain = not isinstance(node, If) or node.otherwise is None
            return plain and all(_only_constants(child, owner, limits) for child in inner)
    return isinstance(node, Comment)


def _between(index: Expr, extent: int | None, limits: Limits) -> bool:
    if extent is None:
        return False
    inside = (linear(index), Linear({}, extent - 1).plus(linear(index), -1))
    least = [limits.worst(form) for form in inside]
    return all(form is not None and form.is_constant and form.constant >= 0 for form in least)


def _unguarded(node: Node) -> Node:
    return _unguarded(node.then) if isinstance(node, If) else with_children(node, _unguarded)
