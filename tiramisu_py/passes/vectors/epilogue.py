"""The last iterations of a vector loop, which fill no vector: under a mask, or in an overlapping whole vector.

Before: ``for c in c_end .. C: f(c)``. After, with a mask: ``if (C - c_end > 0) f(c_end + lane, the first C - c_end
lanes)``. Overlapping: ``if (C >= 16) f(C - 16 + lane, all lanes) else`` the loop as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Block, For, If, Let, Mask, Node
from tiramisu_py.ir.arithmetic.facts import decide
from tiramisu_py.ir.arithmetic.linear import difference, linear, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import Names, block, contents, substitute, with_children, without_comments
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.unroll import extent_of
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class ShareMasks(NestPass):
    """Put neighbouring masked statements under one test, with one count of active lanes.

    ::

        if (C > c_end): c_left = C - c_end; S     -->   if (C > c_end):
        if (C > c_end): c_left_2 = C - c_end; T             c_left = C - c_end
                                                            S
                                                            T

    Conditions are decided first, so that equivalent tests have the same form.
    """

    def apply(self, what: Node, about: About) -> Node:
        if not has_masks(what):
            return what
        alike = with_one_count(what)  # copies of a loop have the same tests: decided once
        return with_one_count(simplify(decide(alike, about.facts)))


def most_iterations(loop: For) -> int | None:
    """The maximal trip count of a loop; None if its bounds give none."""
    pairs = ((low, high) for low in operands("max", loop.lower) for high in operands("min", loop.upper))
    return min((extent for low, high in pairs if (extent := difference(high, low)) is not None), default=None)


def masked(loop: For, vectors: Node, width: int, strips: int, taken: Names) -> Node:
    """The iterations of a loop as masked strips, `strips` of them; `vectors` is the strip at the loop's variable."""
    left = extent_of(loop.lower, loop.upper)
    name = taken.fresh(f"{loop.variable}_left")
    count: Expr = left if constant(left) is not None else Iter(name, int64)
    copies = []
    for k in range(strips):
        start = simplified(Binary("+", loop.lower, number(k * width), int64))
        lanes = simplified(Binary("-", count, number(k * width), int64))
        copies.append(Mask(lanes, width, substitute(vectors, {loop.variable: start})))
    test = simplified(Binary(">", left, number(0), bool_))
    return If(test, Let(name, left, block(copies)))


def each_whole(loop: For, vectors: Node, width: int, strips: int) -> Node:
    """The iterations of a loop as at most `strips` whole strips, each under a test for its existence."""
    left = extent_of(loop.lower, loop.upper)
    copies: list[Node] = []
    for k in range(strips):
        start = simplified(Binary("+", loop.lower, number(k * width), int64))
        test = simplified(Binary(">", left, number(k * width), bool_))
        body = vectors if k == 0 else without_comments(vectors)
        copies.append(If(test, substitute(body, {loop.variable: start})))
    return block(copies)


def overlapping(rest: For, whole: For, vectors: Node, width: int) -> Node:
    """The epilogue of a whole loop as a vector that ends with it; one by one if the loop is shorter than a vector.

    Shorter loops are marked as such: vectors that a compiler makes of them would take registers, and be of few lanes.
    """
    start = simplified(Binary("-", whole.upper, number(width), int64))
    last = substitute(vectors, {rest.variable: start})
    some = simplified(Binary("<", rest.lower, whole.upper, bool_))
    enough = simplified(Binary(">=", extent_of(whole.lower, whole.upper), number(width), bool_))
    return If(some, If(enough, last, replace(rest, few=True)))


def has_masks(node: Node) -> bool:
    """Whether there is a mask anywhere inside."""
    return Mask in contents(node)


def with_one_count(node: Node) -> Node:
    """The statement with neighbouring masks under one test, and one definition of the number of active lanes."""
    if not has_masks(node):
        return node
    node = with_children(node, with_one_count)
    return _neighbours_joined(node) if isinstance(node, Block) else node


def _neighbours_joined(node: Block) -> Node:
    """A sequence with its neighbouring masks joined; those inside its statements are joined already."""
    runs: list[list[Node]] = []
    for child in node.body:
        if runs and _belong_together(runs[-1][0], child):
            runs[-1].append(child)
        else:
            runs.append([child])
    return block(map(_joined, runs))


def _belong_together(first: Node, child: Node) -> bool:
    if isinstance(child, Let):
        return isinstance(first, Let) and _same_count(first, child)
    return isinstance(child, If) and isinstance(first, If) and _same_test(first, child)


def _joined(run: Sequence[Node]) -> Node:
    """Masks of one count, or under one test, as one statement."""
    first, *others = run
    if isinstance(first, If) and others:
        then = block(each.then for each in run if isinstance(each, If))
        return replace(first, then=_neighbours_joined(then) if isinstance(then, Block) else then)
    if isinstance(first, Let) and others:
        count = Iter(first.variable, int64)
        bodies = (substitute(each.body, {each.variable: count}) for each in others if isinstance(each, Let))
        return replace(first, body=block([first.body, *bodies]))
    return first


def _same_test(a: If, b: If) -> bool:
    """Whether two guards of masks have the same test, one on sizes and loop variables only."""
    plain = linear(a.condition.left).exact if isinstance(a.condition, Binary) else False
    alone = a.otherwise is None and b.otherwise is None and a.condition.key() == b.condition.key()
    return plain and alone and has_masks(a) and has_masks(b)


def _same_count(a: Let, b: Let) -> bool:
    if a.value.key() == b.value.key():
        return has_masks(a.body) and has_masks(b.body)
    first, second = ({part.key() for part in operands("min", let.value)} for let in (a, b))
    return first == second and has_masks(a.body) and has_masks(b.body)


def limited(node: Node, lane: str) -> Node:
    """The statement with loops over lanes limited to the active lanes of the mask around them."""
    return _limited(node, lane, None)


def _limited(node: Node, lane: str, mask: Mask | None) -> Node:
    if isinstance(node, Mask):
        mask = node
    if mask is not None and isinstance(node, For) and node.variable == lane and constant(node.upper) == mask.width:
        upper = simplified(Binary("min", mask.count, number(mask.width), int64))
        return replace(node, upper=upper)
    return with_children(node, lambda child: _limited(child, lane, mask))
