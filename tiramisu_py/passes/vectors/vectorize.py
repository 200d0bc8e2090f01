"""Loops tagged Vector: strips of explicit vectors, then an epilogue (scalar, or as the tag's `remainder` asks).

Before: ``for c in 0 .. C: f(c)``. After: ``for c in 0 .. C // 16 * 16 step 16: f(c + lane, all lanes)``, then
``for c in C // 16 * 16 .. C: f(c)``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from tiramisu_py.algorithm.expressions import Binary, Cast, Expr, Iter, Select
from tiramisu_py.algorithm.traversal import kinds, mentions, rewrite
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Block,
    Declare,
    For,
    Idiom,
    If,
    Let,
    Mask,
    Node,
    Ramp,
    Store,
    Variable,
)
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.facts import NO_FACTS, Facts
from tiramisu_py.ir.arithmetic.lanes import Lanes
from tiramisu_py.ir.arithmetic.linear import difference, operands
from tiramisu_py.ir.arithmetic.pairs import NARROWED, in_pairs
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.properties import no_vector_loop
from tiramisu_py.ir.rewriting import (
    Names,
    block,
    buffers_in,
    contents,
    names,
    substitute,
    variables,
    walk,
    with_children,
    without_comments,
    without_prefetches,
)
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.unroll import extent_of, repeated, strip_end
from tiramisu_py.passes.vectors.accumulators import Accumulation, accumulated
from tiramisu_py.passes.vectors.epilogue import each_whole, limited, masked, most_iterations, overlapping
from tiramisu_py.passes.vectors.idioms import with_idioms
from tiramisu_py.passes.vectors.remarks import remarked, without_strides
from tiramisu_py.passes.vectors.split_registers import RegisterParts, widest, widest_stored
from tiramisu_py.passes.vectors.widen import Strips, without_branches
from tiramisu_py.program.loops import Combine, Vector
from tiramisu_py.records import dataclass

#: Loops of a constant trip count of at most this many strips become straight-line code ..
MOST_STRIPS = 8
#: .. unless that has more statements than this.
MOST_STATEMENTS = 128
#: Up to this many whole strips are tested one by one instead of in a loop.
MOST_TESTS = 2
#: The kind of epilogue. Loops padded to whole vectors need none, unless they are cut in pieces of other lengths.
_REMAINDERS = {"scalar": "scalar", "mask": "mask", "overlap": "overlap", "pad": "mask"}


@dataclass(frozen=True)
class Vectorize(NestPass):
    """Turn vector loops into strips of whole vectors, and an epilogue of the kind that their tag gives.

    ::

        for c in 0 .. C:  vector(16)     -->   for c in 0 .. C // 16 * 16 step 16:
            y[c] = x[c]                            y[c : c + 16] = x[c : c + 16]
                                               for c in C // 16 * 16 .. C:
                                                   y[c] = x[c]

    In kernels (`on_host` is false) the epilogue is scalar, and no idioms of processors are recognised.
    """

    on_host: bool = True

    ensures = (no_vector_loop,)

    def apply(self, what: Node, about: About) -> Node:
        return vectorize(what, about.taken, about.register, on_host=self.on_host, facts=about.facts)


def vectorize(
    node: Node,
    taken: Names,
    register: int = 64,
    atomic: frozenset[str] = frozenset(),
    on_host: bool = True,
    facts: Facts = NO_FACTS,
) -> Node:
    """The statement with loops tagged Vector turned into vector strips and an epilogue.

    `register` is the size of the processor's vectors in bytes: wider vectors are computed in parts. Updates of the
    buffers in `atomic` are atomic, one element at a time. In kernels, and in loops with reductions, the epilogue is
    scalar. Where `facts` say that strips fill a loop, it has none.
    """
    if Vector not in contents(node):
        return node
    if isinstance(node, For) and isinstance(node.tag, Vector):
        loop = replace(node, body=_serial(node.body))
        combined = node.reductions or node.tag.combine is not None
        remainder = "scalar" if combined or not on_host else _REMAINDERS[node.tag.remainder]
        varies = bool(variables(loop.lower) | variables(loop.upper)) and most_iterations(loop) is None
        rest = bool(combined) and on_host and node.tag.remainder == "mask"
        vectors = VectorLoop(loop, node.tag.width, taken, register, atomic, remainder, on_host, facts, varies, rest)
        return simplify(vectors.strips_and_rest())
    if isinstance(node, For):
        atomic |= {private.buffer for private in node.reductions if private.combine is Combine.ATOMIC}
    return with_children(node, lambda child: vectorize(child, taken.inside(node), register, atomic, on_host, facts))


def _serial(node: Node) -> Node:
    """The statement with its vector loops untagged: they are inside a vector loop."""
    if Vector not in contents(node):
        return node
    if isinstance(node, For) and isinstance(node.tag, Vector):
        node = replace(node, tag=None, reductions=())
    return with_children(node, _serial)


@dataclass(frozen=True, eq=False)
class VectorLoop:
    """A loop to be cut into strips of `width` lanes; the number of its iterations may vary in the loops around."""

    loop: For
    width: int
    taken: Names
    register: int
    atomic: frozenset[str]
    remainder: str = "scalar"
    on_host: bool = True
    facts: Facts = NO_FACTS
    varies: bool = False
    masks_partial_results: bool = False

    def strips_and_rest(self) -> Node:
        """The whole strips, then the epilogue."""
        loop = self.loop
        trip = difference(loop.upper, loop.lower)
        short = self._short(trip)
        if self.facts.is_multiple(extent_of(loop.lower, loop.upper), self.width):
            return self._whole(short) if 0 < short <= MOST_TESTS else self._strips(loop.upper)
        if short:
            return self._masked(loop, short)
        if trip is not None and trip < self.width:
            return _one_by_one(loop)
        if trip is None and len(operands("max", loop.lower)) > 1:
            return self._named()
        end = strip_end(loop.lower, loop.upper, self.width)
        if self._rest_of_partial_results is not None:
            name = self.taken.fresh(f"{loop.variable}_end")
            return Let(name, end, self._strips(Iter(name, int64)))
        if trip is not None:
            return block([self._strips(end), self._rest(end)])
        name = self.taken.fresh(f"{loop.variable}_end")
        last = Iter(name, int64)
        both = Let(name, end, block([self._strips(last), self._rest(last)]))
        if not self._may_be_short:
            return both
        fills = Binary(">=", arithmetic.subtracted(loop.upper, loop.lower), arithmetic.number(self.width), bool_)
        return If(fills, both, self._rest(loop.lower))

    @property
    def _may_be_short(self) -> bool:
        """Whether some executions of the loop may fill no strip: they then have no partial results to combine."""
        return self.varies and self._keeps_copies

    @property
    def _keeps_copies(self) -> bool:
        """Whether the lanes have partial results of their own."""
        return self.on_host and any(each.combine is Combine.PRIVATE for each in self.loop.reductions)

    @cached_property
    def _accumulation(self) -> Accumulation:
        return accumulated(self.loop, self.width, self._lane(), self.taken)

    @cached_property
    def _rest_of_partial_results(self) -> Node | None:
        """The vectors of the iterations that fill no strip, if these may add to the partial results under a mask.

        They may where a loop does nothing but update elements whose partial results are in variables.
        """
        accumulation = self._accumulation
        if not (self.masks_partial_results and accumulation.partials and accumulation.is_complete(self.loop)):
            return None
        body = without_prefetches(without_comments(accumulation.body))
        vectors = self._vectors(replace(accumulation, body=body), masked=True)
        return vectors if all(isinstance(node, Block | Assign) for node in walk(vectors)) else None

    def _with_rest(self, strips: Node, vectors: Node, begin: Expr) -> Node:
        """The strips, and one more from `begin` on, after which a lane without an iteration has what it had."""
        count = Iter(self.taken.fresh(f"{self.loop.variable}_left"), int64)
        active = Binary("<", Ramp(arithmetic.number(0), self.width), count, bool_)
        strip = substitute(_where(active, vectors), {self.loop.variable: begin})
        left = arithmetic.subtracted(self.loop.upper, begin)
        some = Binary(">", left, arithmetic.number(0), bool_)
        return block([strips, If(some, Let(count.name, left, Mask(count, self.width, strip)))])

    def _named(self) -> Node:
        """The loop with names for its bounds, for a lower bound that is the maximum of several values."""
        begin, stop = (self.taken.fresh(f"{self.loop.variable}_{side}") for side in ("begin", "stop"))
        loop = replace(self.loop, lower=Iter(begin, int64), upper=Iter(stop, int64))
        inside = replace(self, loop=loop).strips_and_rest()
        return Let(begin, self.loop.lower, Let(stop, self.loop.upper, inside))

    def _whole(self, strips: int) -> Node:
        """A loop of at most this many strips, all of them whole."""
        lane = self._lane()
        vectors = self._in_parts(self._vectors(Accumulation(self.loop.body, (), self.width, lane)), lane)
        return each_whole(self.loop, vectors, self.width, strips)

    def _short(self, trip: int | None) -> int:
        """The number of masked strips that cover the whole loop; 0 if it is to have unmasked strips."""
        most = most_iterations(self.loop)
        if self.remainder != "mask" or most is None or most <= 0 or (trip is not None and trip % self.width == 0):
            return 0
        strips = -(-most // self.width)
        statements = sum(isinstance(node, Store | Assign) for node in walk(self.loop.body))
        fits = strips == 1 or (strips <= MOST_STRIPS and strips * statements <= MOST_STATEMENTS)
        return strips if fits and (trip is None or trip < self.width) else 0

    def _rest(self, end: Expr) -> Node:
        """The epilogue: the iterations from `end` on, which fill no strip."""
        body = without_prefetches(without_comments(self.loop.body))
        body = without_branches(body) if self._keeps_copies else body
        rest = replace(self.loop, lower=end, tag=None, reductions=(), body=body, few=self._may_be_short, left=True)
        if self.remainder == "mask":
            return self._masked(rest, 1)
        return self._overlapping(rest) if self.remainder == "overlap" else rest

    def _overlapping(self, rest: For) -> Node:
        """The epilogue as a whole vector that ends with the loop, if the loop has enough iterations for one."""
        lane = self._lane()
        vectors = self._in_parts(self._vectors(Accumulation(rest.body, (), self.width, lane)), lane)
        return overlapping(rest, self.loop, vectors, self.width)

    def _masked(self, loop: For, strips: int) -> Node:
        """A loop of at most this many strips, under masks."""
        lane = self._lane()
        whole = replace(self, loop=loop)
        vectors = whole._vectors(Accumulation(loop.body, (), self.width, lane), masked=True)
        if self.width * widest(vectors) > self.register and _names_vectors(vectors):
            return _one_by_one(loop)  # a name cannot be under the masks of several registers
        node = masked(loop, vectors, self.width, strips, self.taken)
        return limited(self._in_parts(node, lane), lane)

    def _strips(self, end: Expr) -> Node:
        """The whole strips, with the partial results of a reduction in vectors of their own."""
        loop, accumulation = self.loop, self._accumulation
        lane = accumulation.lane
        if not accumulation.is_complete(loop):
            return self._in_order(end)
        vectors = self._vectors(accumulation)
        if any(isinstance(node, For) and node.variable == lane and _assigns(node) for node in walk(vectors)):
            accumulation = replace(accumulation, body=loop.body, partials=())
            if not accumulation.is_complete(loop):
                return self._in_order(end)
            vectors = self._vectors(accumulation)
        strip_loop = replace(loop, upper=end, step=self.width, tag=None, reductions=(), body=vectors)
        strips = _straight(strip_loop)
        if (rest := self._rest_of_partial_results) is not None:
            strips = self._with_rest(strips, rest, end)
        return self._in_parts(accumulation.started(strips), lane, accumulation)

    def _in_order(self, end: Expr) -> Node:
        """The iterations one after another."""
        return replace(_one_by_one(self.loop), upper=end)

    def _lane(self) -> str:
        return "lane" if "lane" not in names(self.loop) else self.taken.fresh("lane")

    def _in_parts(self, node: Node, lane: str, accumulation: Accumulation | None = None) -> Node:
        """The strips with vectors split into parts that fit a register, then the combination of partial results."""
        node = with_pairs(with_idioms(node, lane), lane, self.width, self.register) if self.on_host else node
        size = max(self.register // (widest(node) if self.on_host else widest_stored(self.loop.body)), 2)
        parts = RegisterParts(self.width, size, lane, self.taken, self.register if self.on_host else 0)
        if size < self.width:
            registers = {name: parts.named(name) for name in accumulation.variables} if accumulation else {}
            node = parts.split(node)
        else:
            registers = {}
        return block([node, *accumulation.combined(registers, self.on_host)]) if accumulation else node

    def _vectors(self, accumulation: Accumulation, masked: bool = False) -> Node:
        loop = self.loop
        own = accumulation.variables
        lanes = Lanes(dict.fromkeys(own, self.width), foreign=not masked, halves=True, values=frozenset(own))
        body = substitute(accumulation.body, {loop.variable: Ramp(Iter(loop.variable, int64), self.width)})
        reduced = frozenset(buffer for private in loop.reductions for buffer in private.buffers)
        return remarked(Strips(self.width, accumulation.lane, reduced, self.atomic).vectors(body, lanes))


def _where(active: Expr, node: Node) -> Node:
    """The statement with the values of variables replaced in the active lanes alone."""
    if isinstance(node, Assign):
        kept = Variable(node.variable, node.value.dtype)
        return replace(node, value=Select(active, node.value, kept, node.value.dtype))
    return with_children(node, lambda child: _where(active, child))


def _one_by_one(loop: For) -> For:
    return replace(loop, tag=None, reductions=(), body=without_strides(loop.body))


def _names_vectors(node: Node) -> bool:
    """Whether a vector has a name, such as the new values of several that are combined at once."""
    return any(isinstance(each, Let) and Ramp in kinds(each.value) for each in walk(node))


def _assigns(node: Node) -> bool:
    """Whether a statement assigns a variable, which a loop over lanes cannot do for one lane of a vector."""
    return Assign in contents(node)


def _straight(loop: For) -> Node:
    """A loop of few strips as straight-line code."""
    trip = difference(loop.upper, loop.lower)
    if trip is None or trip > MOST_STRIPS * loop.step:
        return loop
    count = -(-trip // loop.step)
    statements = sum(isinstance(node, Store | Assign) for node in walk(loop.body))
    return repeated(loop, count, loop.lower, loop.step) if count * statements <= MOST_STATEMENTS else loop


# -- values that are wider than a register only on the way from narrow operands to a narrow result
#
# Before, with lanes of 8 bits that fill a register: ``uint8(uint16(a) + uint16(b) >> 1)``, in two registers of 16 bits.
# After: ``narrowed(...)``, which the emitter computes for even and odd lanes apart: no lane moves to another register.


def with_pairs(node: Node, lane: str, width: int, register: int) -> Node:
    """The statement with narrow results of values that fill more than one register computed in pairs, except in loops
    over lanes (of the variable `lane`).
    """
    names = tuple(each.variable for each in walk(node) if isinstance(each, Let | Declare | Assign) and _has_lanes(each))
    buffers = {each.buffer for each in walk(node) if isinstance(each, Allocate) and each.lanes > 1}

    def is_uniform(e: Expr) -> bool:
        return Ramp not in kinds(e) and not mentions(e, names) and buffers_in(e).isdisjoint(buffers)

    def changed(e: Expr) -> Expr | None:
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
