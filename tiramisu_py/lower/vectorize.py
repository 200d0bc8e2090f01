"""Loops tagged Vector: strips of explicit vectors, then the iterations left over one by one.

Before: ``for c in 0 .. C: f(c)``. After: ``for c in 0 .. C // 16 * 16 step 16: f(c + lane, all lanes)``, then
``for c in C // 16 * 16 .. C: f(c)``. What cannot be computed on all lanes at once is a loop over the lanes: the
iterations of a vector loop have no order, so each statement may run for all lanes before the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import int64
from tiramisu_py.lower.accumulators import accumulated
from tiramisu_py.lower.ir import (
    Allocate,
    Assign,
    Block,
    Comment,
    For,
    If,
    Lane,
    Let,
    Load,
    Node,
    Ramp,
    Store,
)
from tiramisu_py.lower.lanes import Lanes
from tiramisu_py.lower.linear import along_lanes, difference, number
from tiramisu_py.lower.simplify import simplified, simplify
from tiramisu_py.lower.transform import (
    Names,
    block,
    children,
    names,
    rewrite_expressions,
    substitute,
    walk,
    with_children,
    with_expressions,
)
from tiramisu_py.lower.unroll import repeated, strip_end, without_comments
from tiramisu_py.program.loops import Vector

#: Constant loops of at most so many strips become straight-line code.
MOST_STRIPS = 8
#: Unless that is more statements than this.
MOST_STATEMENTS = 128


def vectorize(node: Node, taken: Names) -> Node:
    """The statement with loops tagged Vector turned into vector strips and a scalar remainder."""
    if isinstance(node, For) and isinstance(node.tag, Vector):
        return simplify(_vector_loop(replace(node, body=_serial(node.body)), node.tag.width, taken))
    return with_children(node, lambda child: vectorize(child, taken))


def _serial(node: Node) -> Node:
    """Vector loops inside a vector loop are plain loops."""
    if isinstance(node, For) and isinstance(node.tag, Vector):
        node = replace(node, tag=None, reductions=())
    return with_children(node, _serial)


def _vector_loop(loop: For, width: int, taken: Names) -> Node:
    trip = difference(loop.upper, loop.lower)
    if trip is not None and trip < width:
        return replace(loop, tag=None, reductions=())
    scalar = replace(loop, tag=None, reductions=(), body=without_comments(loop.body))
    end: Expr = strip_end(loop.lower, loop.upper, width)
    if trip is not None:
        return block([_strips(loop, width, end, taken), replace(scalar, lower=end)])
    name = taken.fresh(f"{loop.variable}_end")
    both = block([_strips(loop, width, Iter(name, int64), taken), replace(scalar, lower=Iter(name, int64))])
    return Let(name, end, both)


def _strips(loop: For, width: int, end: Expr, taken: Names) -> Node:
    """The whole strips, with the partial results of a reduction in vectors of their own."""
    lane = "lane" if "lane" not in names(loop) else taken.fresh("lane")
    accumulation = accumulated(loop, width, lane, taken)
    lanes = Lanes().with_variable(loop.variable, 1)
    for name in accumulation.variables:
        lanes = lanes.with_variable(name, width)
    ramp = Ramp(Iter(loop.variable, int64), width)
    body = substitute(accumulation.body, {loop.variable: ramp})
    reduced = frozenset(private.buffer for private in loop.reductions)
    strips = Strips(width, lane, reduced)
    main = replace(loop, upper=end, step=width, tag=None, reductions=(), body=strips.vectors(body, lanes))
    return accumulation.around(_straight(main))


def _straight(loop: For) -> Node:
    """A loop of few strips as straight-line code."""
    trip = difference(loop.upper, loop.lower)
    if trip is None or trip > MOST_STRIPS * loop.step:
        return loop
    count = -(-trip // loop.step)
    statements = sum(isinstance(node, Store | Assign) for node in walk(loop.body))
    return repeated(loop, count, loop.lower, loop.step) if count * statements <= MOST_STATEMENTS else loop


@dataclass(frozen=True)
class Strips:
    """Turns the body of a strip, its loop variable already a `Ramp`, into vector statements and loops over lanes."""

    width: int
    lane: str
    reduced: frozenset[str]

    def vectors(self, node: Node, lanes: Lanes) -> Node:
        """The statement for all lanes."""
        match node:
            case Block():
                return block(self.vectors(child, lanes) for child in node.body)
            case Comment():
                return node
            case Let():
                return self._let(node, lanes)
            case Assign():
                return node if lanes.vectorisable(node.value) else self.by_lanes(node, lanes)
            case Store():
                return self._store(node, lanes)
            case Allocate():
                return self._allocate(node, lanes)
        uniform = all(lanes.of(e) == 1 for e in _controls(node))
        return with_children(node, lambda child: self.vectors(child, lanes)) if uniform else self.by_lanes(node, lanes)

    def _let(self, node: Let, lanes: Lanes) -> Node:
        if not lanes.vectorisable(node.value):
            return self.by_lanes(node, lanes)
        inside = lanes.with_variable(node.variable, lanes.of(node.value))
        return replace(node, body=self.vectors(node.body, inside))

    def _store(self, node: Store, lanes: Lanes) -> Node:
        uniform = all(lanes.of(index) == 1 for index in node.indices)
        private = lanes.of_element(node.buffer, len(node.indices)) > 1
        whole = lanes.vectorisable(node.value) and all(map(lanes.vectorisable, node.indices))
        if node.buffer in self.reduced and not any(map(_apart, node.indices)):
            return self.by_lanes(node, lanes)
        if whole and uniform == private and not (node.value.dtype.is_float and node.value.dtype.bits == 16):
            return node
        return self.by_lanes(node, lanes)

    def _allocate(self, node: Allocate, lanes: Lanes) -> Node:
        """A buffer of the strip: each element is a vector, with an element for each lane's own buffer."""
        halves = node.dtype.is_float and node.dtype.bits == 16
        if halves or any(lanes.of(extent) > 1 for extent in node.extents):
            return self.by_lanes(node, lanes)
        inside = lanes.with_buffer(node.buffer, len(node.extents), self.width)
        return replace(node, lanes=self.width, body=self.vectors(node.body, inside))

    def by_lanes(self, node: Node, lanes: Lanes) -> Node:
        """The statement for one lane after another."""
        lane = Iter(self.lane, int64)

        def of_lane(e: Expr) -> Expr | None:
            match e:
                case Ramp():
                    base, step = along_lanes(e) or (e.base, 1)
                    return simplified(base + number(step) * lane)
                case Iter() if lanes.variables.get(e.name, 1) > 1:
                    return Lane(e, lane, e.dtype)
                case Load() if lanes.of_element(e.buffer, len(e.indices)) > 1:
                    return Load(e.buffer, (*(rewrite(i, of_lane) for i in e.indices), lane), e.dtype)
            return None

        body = _stores_of_lane(rewrite_expressions(node, of_lane), lane, lanes)
        return For(self.lane, number(0), number(self.width), simplify(body))


def _apart(index: Expr) -> bool:
    """Whether an index differs from lane to lane."""
    spaced = along_lanes(index)
    return spaced is not None and spaced[1] != 0


def _controls(node: Node) -> Iterable[Expr]:
    """The expressions that say what of a statement's inside is executed."""
    found: list[Expr] = []
    with_expressions(node, lambda e: found.append(e) or e)
    return found


def _stores_of_lane(node: Node, lane: Expr, lanes: Lanes) -> Node:
    if isinstance(node, Store) and lanes.of_element(node.buffer, len(node.indices)) > 1:
        return replace(node, indices=(*node.indices, lane))
    return with_children(node, lambda child: _stores_of_lane(child, lane, lanes))


def has_vector_loops(node: Node) -> bool:
    """Whether a loop is still tagged Vector."""
    return isinstance(node, For) and isinstance(node.tag, Vector) or any(map(has_vector_loops, children(node)))
