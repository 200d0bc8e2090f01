"""Loops tagged Unroll: their bodies repeated, with the variable replaced by its value in each copy.

Before: ``for r1 in 0 .. 3: f(r1)``. After: ``f(0); f(1); f(2)``. By a factor n: n copies in a loop of step n, and the
iterations left over one by one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Assign, Deferred, For, If, Let, Node, Store
from tiramisu_py.ir.arithmetic.facts import NO_FACTS, Facts
from tiramisu_py.ir.arithmetic.linear import difference, linear, number, operands
from tiramisu_py.ir.arithmetic.simplify import Substitution, simplified, simplify
from tiramisu_py.ir.properties import no_unrolled_loop
from tiramisu_py.ir.rewriting import EMPTY, Names, block, contents, walk, with_children, without_comments
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.tile_versions import is_special
from tiramisu_py.program.loops import MOST_COPIES, Unroll, Vector
from tiramisu_py.records import dataclass

#: Unrolling makes at most so many copies of loops over vectors and their remainders.
MOST_LOOPS = 32


@dataclass(frozen=True)
class UnrollLoops(NestPass):
    """Unroll loops with that tag: repeat the body; with a factor, in a loop of that step.

    ::

        for u in 0 .. 3:  unroll     -->   S[0]
            S[u]                           S[1]
                                           S[2]
    """

    ensures = (no_unrolled_loop,)

    def apply(self, what: Node, about: About) -> Node:
        return unroll(what, about.taken, facts=about.facts)


@dataclass(frozen=True)
class KeepUnrolled(NestPass):
    """Leave the unrolling of a kernel's loops to its compiler; untag loops that would be too long.

    ::

        for u in 0 .. n:  unroll     -->   for u in 0 .. n:
            S[u]                               S[u]
        for u in 0 .. 4:  unroll           for u in 0 .. 4:  unroll
            T[u]                               T[u]
    """

    def apply(self, what: Node, about: About) -> Node:
        return kept(what)


class BodyCopies:
    """The copies of loops' bodies: versions of a loop for other trip counts have the same body, and the same copies."""

    def __init__(self) -> None:
        self.known: dict[Hashable, tuple[Node, Node]] = {}

    def of(self, body: Node, variable: str, value: Expr, comments: bool) -> Node:
        """A body with a variable replaced, and without its comments unless these are asked for."""
        key = (id(body), variable, value.key(), comments)
        if key not in self.known:
            told = body if comments else without_comments(body)
            self.known[key] = (Substitution({variable: value}).statement(told), body)
        return self.known[key][0]


def unroll(node: Node, taken: Names, known: BodyCopies | None = None, facts: Facts = NO_FACTS) -> Node:
    """The statement with loops tagged Unroll unrolled; a loop without a constant trip count becomes a plain loop.

    So does a loop that would repeat more than `MOST_COPIES` statements, or `MOST_LOOPS` vector loops: the proof refuses
    loops that are too long by themselves, but others become so when passes cut the loops inside. Where `facts` say that
    the copies fill a loop, no iterations are left over.
    """
    if Unroll not in contents(node):
        return node
    copies = known or BodyCopies()
    node = with_children(node, lambda child: unroll(child, taken.inside(node), copies, facts))
    if not isinstance(node, For) or not isinstance(node.tag, Unroll):
        return node
    loop = replace(node, tag=None)
    trip = difference(loop.upper, loop.lower)
    factor = node.tag.factor
    if stays_a_loop(loop, trip if factor is None else factor):
        return loop
    if trip is not None and (factor is None or trip <= factor):
        return repeated(loop, trip, loop.lower, 1, copies)
    if factor is not None and facts.is_multiple(extent_of(loop.lower, loop.upper), factor):
        return _strips(loop, factor, loop.upper)
    return loop if factor is None else _by_factor(loop, factor, taken, is_special(node))


def kept(node: Node, times: int = 1) -> Node:
    """The statement with unrolling left to the compiler, for loops of a constant trip count or with a factor.

    `times` is the number of copies of the statement that unrolling the loops around it makes.
    """
    if not isinstance(node, For) or not isinstance(node.tag, Unroll):
        return with_children(node, lambda child: kept(child, times))
    trip = difference(node.upper, node.lower)
    count = trip if node.tag.factor is None else node.tag.factor
    if count is None or is_too_long(node, count * times):
        return replace(node, tag=None, body=kept(node.body, times))
    return replace(node, body=kept(node.body, count * times))


def repeated(loop: For, count: int, start: Expr, step: int = 1, copies: BodyCopies | None = None) -> Node:
    """`count` copies of a loop's body, for the variable's values `start`, `start + step` and so on."""
    known = copies or BodyCopies()
    values = (simplified(Binary("+", start, number(k * step), int64)) for k in range(count))
    return block(known.of(loop.body, loop.variable, value, comments=k == 0) for k, value in enumerate(values))


def is_too_long(loop: For, count: int | None) -> bool:
    """Whether `count` copies of a loop's body are more than `MOST_COPIES` statements."""
    statements = sum(isinstance(inner, Store | Assign | Deferred) for inner in walk(loop.body))
    return count is not None and count * max(statements, 1) > MOST_COPIES


def stays_a_loop(loop: For, count: int | None) -> bool:
    """Whether `count` copies of a loop's body are too many for code of the host.

    In the copies of a vector loop that remains a loop, no element is in a register: there is nothing to gain by many.
    """
    return is_too_long(loop, count) or (count is not None and count * _vector_loops(loop.body) > MOST_LOOPS)


def _vector_loops(node: Node) -> int:
    """How many loops there are over the strips of vectors, and over what these leave."""
    found = 0
    for inner in walk(node):
        if isinstance(inner, For) and isinstance(inner.tag, Vector):
            found += 2 if difference(inner.upper, inner.lower) is None else 0
        elif isinstance(inner, For):
            found += inner.left or inner.step > 1
    return found


def strip_end(lower: Expr, upper: Expr, width: int) -> Expr:
    """The end of the last whole strip of `width` iterations from `lower` on (`lower` if there is none)."""
    extent = extent_of(lower, upper)
    if not Facts().nonnegative(extent):
        extent = simplified(Binary("max", extent, number(0), int64))
    strips = Binary("//", extent, number(width), int64)
    return simplified(Binary("+", lower, Binary("*", strips, number(width), int64), int64))


def extent_of(lower: Expr, upper: Expr) -> Expr:
    """``upper - lower``; if `upper` is a minimum, the minimum of the differences."""
    gaps = [Binary("-", high, lower, int64) for high in operands("min", upper)]
    extent = gaps[0]
    for gap in gaps[1:]:
        extent = Binary("min", extent, gap, int64)
    return simplified(extent)


def _by_factor(loop: For, factor: int, taken: Names, special: bool) -> Node:
    """A loop of step `factor` with a repeated body, then its epilogue: a loop or, with `special`, a version for each
    trip count.
    """
    extent = simplified(Binary("-", loop.upper, loop.lower, int64))
    if linear(extent).is_constant:
        end: Expr = strip_end(loop.lower, loop.upper, factor)
        return block([_strips(loop, factor, end), simplify(replace(loop, lower=end))])
    name = taken.fresh(f"{loop.variable}_end")
    end = Iter(name, int64)
    rest: Node = replace(loop, lower=end)
    if special:
        rest = EMPTY
        for count in range(1, factor):
            test = simplified(Binary(">=", extent_of(end, loop.upper), number(count), bool_))
            rest = If(test, repeated(loop, count, end), rest)
    both = block([_strips(loop, factor, end), simplify(rest)])
    return Let(name, strip_end(loop.lower, loop.upper, factor), both)


def _strips(loop: For, factor: int, end: Expr) -> Node:
    body = repeated(loop, factor, Iter(loop.variable, int64))
    return simplify(replace(loop, upper=end, step=factor, body=body))
