"""Loops over a box whose iterations are dealt out by their numbers: which of them a test of the number leaves."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.types import DType, bool_, int64
from tiramisu_py.ir import Block, Comment, For, If, Node
from tiramisu_py.ir.arithmetic.build import conjunction, conjuncts, number, subtracted
from tiramisu_py.ir.arithmetic.polynomials import same
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import variables, with_children
from tiramisu_py.passes.array_uses import Indices
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class NumberTest:
    """The iterations that run, by their number.

    Those with ``number % parts == part`` if there are `parts`, those with ``number // length == part`` if there is a
    `length`, and otherwise the one with ``number == part``.
    """

    part: Expr
    parts: int = 0
    length: Expr | None = None


@dataclass(frozen=True, eq=False)
class DealtLoops:
    """Loops over a box, outermost first, around `body`, which runs in a `share` of their iterations, and there where
    what is `left` of the condition holds.
    """

    loops: Sequence[For]
    share: NumberTest
    left: Expr | None
    body: Node

    @property
    def extents(self) -> list[Expr]:
        """The number of iterations of each loop, where it has any."""
        return [simplified(subtracted(loop.upper, loop.lower)) for loop in self.loops]

    @property
    def total(self) -> Expr:
        """The number of iterations of all loops, if each has some."""
        return product(self.extents)

    def digits(self, of: Expr) -> list[Expr]:
        """The iteration with a number: how far it is from the first one, in each loop."""
        found, rest = list[Expr](), of
        for extent in reversed(self.extents[1:]):
            found.append(simplified(binary("%", rest, extent)))
            rest = simplified(binary("//", rest, extent))
        return [rest, *reversed(found)]

    def counts(self, indices: Indices, extents: Indices) -> bool:
        """Whether an element has the number of its iteration in an array with these extents."""
        if len(indices) != len(self.loops) or len(extents) != len(self.loops):
            return False
        alike = zip(self.loops, indices, self.extents, extents, strict=True)
        return all(
            isinstance(index, Iter) and index.name == loop.variable and constant(loop.lower) == 0 and same(own, extent)
            for loop, index, own, extent in alike
        )


def dealt_loops(node: Node) -> DealtLoops | None:
    """The loops whose outermost is `node`, if their iterations are dealt out by number."""
    loops: list[For] = []
    inner: Node | None = node
    while isinstance(inner, For) and _is_plain(inner, loops):
        loops.append(inner)
        inner = _only(inner.body)
    if len(loops) < 2 or not isinstance(inner, If) or inner.otherwise is not None or inner.anywhere:
        return None
    conditions = conjuncts(inner.condition)
    for at, condition in enumerate(conditions):
        share = _share(condition, loops)
        if share is not None:
            left = conjunction([*conditions[:at], *conditions[at + 1 :]])
            return DealtLoops(loops, share, left, inner.then)
    return None


def all_dealt(node: Node) -> list[DealtLoops]:
    """The loops inside a statement whose iterations are dealt out by number."""
    found = dealt_loops(node)
    if found is not None:
        return [found]
    inside = list[DealtLoops]()

    def look(child: Node) -> Node:
        inside.extend(all_dealt(child))
        return child

    with_children(node, look)
    return inside


def _is_plain(loop: For, around: Sequence[For]) -> bool:
    """Whether a loop of a bundle runs one after another, and its bounds do not depend on loops around it in the box.

    The number of iterations of a bundle has been tested to fit 64 bits.
    """
    bound = {each.variable for each in around}
    own = loop.joined and all(each.joined == loop.joined for each in around)
    return (
        bool(own)
        and loop.tag is None
        and loop.step == 1
        and bound.isdisjoint(variables(loop.lower) | variables(loop.upper))
    )


def _only(node: Node) -> Node | None:
    listed = [each for each in (node.body if isinstance(node, Block) else (node,)) if not isinstance(each, Comment)]
    return listed[0] if len(listed) == 1 else None


def _share(condition: Expr, loops: Sequence[For]) -> NumberTest | None:
    """The iterations that a condition leaves, if it compares their number, or a part of it, with what is the same."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return None
    own = {loop.variable for loop in loops}
    for tested, part in ((condition.left, condition.right), (condition.right, condition.left)):
        if own.isdisjoint(variables(tested)) or not own.isdisjoint(variables(part)):
            continue
        if same(tested, _number(loops)):
            return NumberTest(part)
        if isinstance(tested, Binary) and tested.op in ("%", "//") and same(tested.left, _number(loops)):
            parts = constant(tested.right)
            if tested.op == "%" and parts is not None and parts > 0:
                return NumberTest(part, parts)
            if tested.op == "//" and own.isdisjoint(variables(tested.right)):
                return NumberTest(part, length=tested.right)
    return None


def _number(loops: Sequence[For]) -> Expr:
    """The number of an iteration, of the variables of the loops."""
    total: Expr = number(0)
    for loop in loops:
        own = binary("-", Iter(loop.variable, int64), loop.lower)
        total = binary("+", binary("*", total, binary("-", loop.upper, loop.lower)), own)
    return total


def product(factors: Sequence[Expr]) -> Expr:
    """The product of some expressions, at least one."""
    total = factors[0]
    for factor in factors[1:]:
        total = binary("*", total, factor)
    return total


def binary(op: str, left: Expr, right: Expr, dtype: DType = int64) -> Expr:
    """An operation on indices."""
    return Binary(op, left, right, dtype)


def less(left: Expr, right: Expr) -> Expr:
    """``left < right``."""
    return Binary("<", left, right, bool_)
