"""Vector loops whose statements, once for all lanes, would load what one of them has replaced: lane by lane.

Before: ``for i step 2, vector: a[i] = x[i]; b[i] = a[i + 2]``. After: the same loop without vectors. The proof takes a
lane for an iteration of a loop of the program, in which statements have their order, and one statement loads before it
stores. Where isl makes one iteration of several, odd and even ones, or a statement is cut in pieces by its cases, a
load may stand behind a store in a later lane that it must precede. That is looked at here, in programs in which lanes
read what later ones replace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.lanes import reading_ahead
from tiramisu_py.ir import Block, Comment, For, Node, Store
from tiramisu_py.ir.arithmetic.linear import linear
from tiramisu_py.ir.rewriting import block, contents, defined, loads, variables, walk, with_children
from tiramisu_py.program.loops import Vector
from tiramisu_py.program.program import Program

#: The remark above such a loop.
WHY = "lane by lane: a statement loads what an earlier one stores in a later lane"


def with_lanes_in_order(program: Program, node: Node) -> Node:
    """The statement with such loops as loops without vectors."""
    return _in_order(node) if Vector in contents(node) and reading_ahead(program) else node


def _in_order(node: Node) -> Node:
    if Vector not in contents(node):
        return node
    if isinstance(node, For) and isinstance(node.tag, Vector):
        replaced = node.tag.combine is None and any(_replaces(node, each) for each in _blocks(node.body))
        return block((Comment(WHY), replace(node, tag=None))) if replaced else node
    return with_children(node, _in_order)


def _blocks(node: Node) -> Iterator[Block]:
    return (each for each in walk(node) if isinstance(each, Block))


def _replaces(loop: For, body: Block) -> bool:
    """Whether a statement of a sequence loads an element that an earlier one may store in a later lane."""
    children = body.body
    for k, child in enumerate(children):
        for later in children[k + 1 :]:
            own = {name for each in (*walk(child), *walk(later)) if (name := defined(each)) is not None}
            stores = [each for each in walk(child) if isinstance(each, Store)]
            found = ((store, load) for load in loads(later) for store in stores if store.buffer == load.buffer)
            if any(_may_meet(loop, store.indices, load.indices, own) for store, load in found):
                return True
    return False


def _may_meet(loop: For, stored: Sequence[Expr], loaded: Sequence[Expr], own: set[str]) -> bool:
    """Whether a lane may load what a later lane of its vector stores; `own` are variables that differ between both."""
    assert isinstance(loop.tag, Vector)
    lane = Iter(loop.variable, int64)
    for one, other in zip(stored, loaded, strict=True):
        form, rest = linear(one), linear(other).plus(linear(one), -1)
        free = form.exact and rest.exact and rest.is_constant and own.isdisjoint(variables(one))
        if not free:
            continue
        step = form.factor(lane) * loop.step
        if loop.variable in variables(form.without(lane.key()).expression()):
            continue
        if step == 0:
            if rest.constant != 0:
                return False
        elif rest.constant % step or not 0 < rest.constant // step < loop.tag.width:
            return False
    return True
