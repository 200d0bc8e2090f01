"""Peeling: loops whose first iterations differ from the others are cut, so that no iteration tests which kind it is.

Before: ``for c0 in -1 .. n: A(c0); if (c0 >= 0) B(c0)``. After: ``A(-1); for c0 in 0 .. n: A(c0); B(c0)``. The
iterations stay consecutive, in their order.

A loop is cut once, behind the last of these iterations, so that its text at most doubles: in a chain of stages that
slide, each of which begins later than the one before, ``for c0 in -8 .. 0`` tests where it is and ``for c0 in 0 .. n``
does not. A loop around loops that run long stays whole: beside them its tests take no time, and copies much text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Deferred, For, If, Node
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.arithmetic.linear import Linear, difference, linear
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import block, contents, variables, walk, with_children, with_expressions
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.full_tile import largest_extent
from tiramisu_py.passes.loops.split_at_conditions import operates
from tiramisu_py.program.loops import Vector
from tiramisu_py.records import dataclass

#: At most this many iterations are peeled.
MOST_ITERATIONS = 64
#: Loops of more iterations than this are long.
MOST_SHORT = 16


@dataclass(frozen=True)
class Peel(NestPass):
    """Peel the first iterations of a sequential loop if tests inside distinguish them.

    ::

        for i in -1 .. n:               -->   S(-1)
            S(i)                              for i in 0 .. n:
            if (i >= 0): T(i)                     S(i)
                                                  T(i)

    In a kernel, where text is long, only loops that load early (``early``): what they load is all of the first ones.
    """

    early: bool = False

    def apply(self, what: Node, about: About) -> Node:
        return cut_prologues(what, about.facts, self.early) if not self.early or Deferred in contents(what) else what


def cut_prologues(node: Node, facts: Facts, early: bool = False) -> Node:
    """The statement with the first iterations of serial loops peeled if tests inside distinguish them."""
    inside = facts.inside(node)
    node = with_children(node, lambda child: cut_prologues(child, inside, early))
    if not isinstance(node, For) or node.tag is not None or node.step != 1 or node.reductions or operates(node):
        return node
    if early and Deferred not in contents(node.body):
        return node
    if not early and any(isinstance(inner, For) and _is_long(inner) for inner in walk(node.body)):
        return node
    point = max(_points(node), default=None)
    return node if point is None else _cut(node, point, facts)


def _points(loop: For) -> Iterator[int]:
    """The numbers of iterations after which tests inside change their results."""
    for inner in walk(loop.body):
        if isinstance(inner, If):
            for part in parts(inner.condition):
                bound = _bound(part, loop.variable)
                count = None if bound is None else difference(bound, loop.lower)
                if count is not None and 0 < count <= MOST_ITERATIONS:
                    yield count


def _is_long(loop: For) -> bool:
    """Whether a loop may have many iterations (vectors, in a vector loop)."""
    extent = largest_extent(loop)
    if extent is None:
        return True
    width = loop.tag.width if isinstance(loop.tag, Vector) else 1
    return extent > MOST_SHORT * width


def _bound(e: Expr, variable: str) -> Expr | None:
    """The first value of a variable from which on a comparison keeps its result; None for other expressions."""
    if not isinstance(e, Binary) or e.op not in COMPARISONS or e.op in ("==", "!="):
        return None
    if e.left.dtype != int64 or e.right.dtype != int64:
        return None
    gap = linear(e.left).plus(linear(e.right), -1)
    atom = Iter(variable, int64)
    factor = gap.factor(atom)
    rest = gap.without(atom.key())
    if abs(factor) != 1 or not gap.exact or variable in variables(rest.expression()):
        return None
    least = rest.times(-factor)  # variable compared with `least`
    strict = e.op in (">", "<=") if factor == 1 else e.op in ("<", ">=")
    return least.plus(Linear({}, 1 if strict else 0)).expression()


def _cut(loop: For, point: int, facts: Facts) -> Node:
    """The loop until this number of iterations, and the loop after."""
    end = simplified(Binary("+", loop.lower, Const(point, int64), int64))
    rest = simplified(Binary("-", loop.upper, end, int64))
    upper = end if facts.nonnegative(rest) else simplified(Binary("min", loop.upper, end, int64))
    return simplify(block((_piece(loop, loop.lower, upper, end), _piece(loop, end, loop.upper, None))))


def _piece(loop: For, lower: Expr, upper: Expr, below: Expr | None) -> Node:
    """The loop from `lower` to `upper`, with its tests decided; all iterations are before `below`, if that is given."""

    def decided(e: Expr) -> Expr | None:
        bound = _bound(e, loop.variable)
        count = None if bound is None else difference(bound, lower)
        if count is None or not isinstance(e, Binary):
            return None
        above = count <= 0
        until = None if below is None or bound is None else difference(bound, below)
        if not above and (until is None or until < 0):
            return None
        upward = linear(e.left).plus(linear(e.right), -1).factor(Iter(loop.variable, int64)) > 0
        rising = upward == (e.op in (">", ">="))
        return Const(above == rising, bool_)

    def decide(node: Node) -> Node:
        if isinstance(node, If):
            node = with_expressions(node, lambda e: simplified(rewrite(e, decided)))
        return with_children(node, decide)

    return replace(loop, lower=lower, upper=upper, body=decide(loop.body))
