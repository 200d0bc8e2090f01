"""Terms dealt out by their numbers: the loops over all of them, with a test of the number, become a walk over some.

The numbers of iterations of nested loops over a box, ``(h*M + x)*K + y``, are those from 0 to ``N*M*K - 1``, each
once, in the order of the loops. So the iterations whose number has remainder r by a constant p are those numbered r,
``r + p``, and so on. The first one is found by divisions, and so is the distance from each to the next, in each
loop; a step adds these, and carries where a loop ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.types import DType, bool_, int64
from tiramisu_py.ir import Allocate, Block, Comment, For, If, Let, Load, LoopFunction, Node, Store
from tiramisu_py.ir.arithmetic.build import added, conjunction, conjuncts, number, subtracted
from tiramisu_py.ir.arithmetic.polynomials import same
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, block, constant, variables, walk, with_children
from tiramisu_py.passes.base import About, FunctionPass


@dataclass(frozen=True)
class WalkBundles(FunctionPass):
    """Visit the iterations of nested loops that have a remainder, in place of testing all of them.

    ::

        for h in 0 .. N:                                  -->   at = the iteration numbered r
            for x in 0 .. M:                                    for step in 0 .. (N*M + 255 - r) // 256:
                if (h*M + x) % 256 == r: S[h, x]                    S[at]
                                                                    at = the one 256 further on
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        kernels = tuple(replace(each, body=walked(each.body, about.taken)) for each in what.kernels)
        return replace(what, body=walked(what.body, about.taken), kernels=kernels)


def walked(node: Node, taken: Names) -> Node:
    """The statement with the loops over dealt-out terms as walks."""
    found = _dealt(node)
    if found is not None:
        return _Walk(found, taken).node()
    return with_children(node, lambda child: walked(child, taken))


@dataclass(frozen=True, eq=False)
class _DealtLoops:
    """Loops over a box, outermost first, around `body`, and which of their iterations run it: ``number % parts == part``,
    if they satisfy what is `left` of the condition.
    """

    loops: Sequence[For]
    parts: int
    part: Expr
    left: Expr | None
    body: Node

    @property
    def extents(self) -> list[Expr]:
        """The number of iterations of each loop, where it has any."""
        return [simplified(subtracted(loop.upper, loop.lower)) for loop in self.loops]


def _dealt(node: Node) -> _DealtLoops | None:
    """The loops whose outermost is `node`, if their iterations are dealt out by number."""
    loops: list[For] = []
    inner: Node | None = node
    while isinstance(inner, For) and _is_plain(inner, loops):
        loops.append(inner)
        inner = _only(inner.body)
    if len(loops) < 2 or not isinstance(inner, If) or inner.otherwise is not None or inner.anywhere:
        return None
    own = {loop.variable for loop in loops}
    conditions = conjuncts(inner.condition)
    for at, condition in enumerate(conditions):
        taken = _remainder(condition, loops, own)
        if taken is not None:
            left = conjunction([*conditions[:at], *conditions[at + 1 :]])
            return _DealtLoops(loops, *taken, left, inner.then)
    return None


def _is_plain(loop: For, around: Sequence[For]) -> bool:
    """Whether a loop runs one after another, and its bounds do not depend on loops around it in the box."""
    bound = {each.variable for each in around}
    return loop.tag is None and loop.step == 1 and bound.isdisjoint(variables(loop.lower) | variables(loop.upper))


def _only(node: Node) -> Node | None:
    listed = [each for each in (node.body if isinstance(node, Block) else (node,)) if not isinstance(each, Comment)]
    return listed[0] if len(listed) == 1 else None


def _remainder(condition: Expr, loops: Sequence[For], own: set[str]) -> tuple[int, Expr] | None:
    """The parts and the part of ``number % parts == part``; None for another condition."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return None
    for dealt, part in ((condition.left, condition.right), (condition.right, condition.left)):
        if not isinstance(dealt, Binary) or dealt.op != "%" or not own.isdisjoint(variables(part)):
            continue
        parts = constant(dealt.right)
        if parts is not None and parts > 0 and same(dealt.left, _number(loops)):
            return parts, part
    return None


def _number(loops: Sequence[For]) -> Expr:
    """The number of an iteration, of the variables of the loops."""
    total: Expr = number(0)
    for loop in loops:
        own = _of("-", Iter(loop.variable, int64), loop.lower)
        total = _of("+", _of("*", total, _of("-", loop.upper, loop.lower)), own)
    return total


class _Walk:
    """The walk over one part of the iterations of some loops."""

    def __init__(self, dealt: _DealtLoops, taken: Names) -> None:
        self.dealt, self.loops = dealt, dealt.loops
        names = "_".join(loop.variable for loop in self.loops)
        self.at = taken.fresh(f"{names}_at")
        self.turn = taken.fresh(f"{names}_step")
        self.count = taken.fresh(f"{names}_steps")
        self.strides = [taken.fresh(f"{loop.variable}_stride") for loop in self.loops]
        self.extents = dealt.extents
        self.statement = next((each.statement for each in walk(dealt.body) if isinstance(each, Store)), "")

    def node(self) -> Node:
        """The walk, where there is anything to visit."""
        loop = For(self.turn, number(0), Iter(self.count, int64), self._visit())
        node: Node = Allocate(
            self.at, (number(len(self.loops)),), int64, block([*self._first(), loop]), register=True
        )  # fmt: skip
        node = Let(self.count, self._count(), node)
        for name, value in zip(reversed(self.strides), reversed(self._digits(number(self.dealt.parts))), strict=True):
            node = Let(name, value, node)
        part, parts = self.dealt.part, number(self.dealt.parts)
        some = [_of("<", number(0), extent, bool_) for extent in self.extents]
        some += [_of("<=", number(0), part, bool_), _of("<", part, parts, bool_), _of("<", part, self._total(), bool_)]
        condition = conjunction(some)
        assert condition is not None
        return If(simplified(condition), node)

    def _total(self) -> Expr:
        total = self.extents[0]
        for extent in self.extents[1:]:
            total = _of("*", total, extent)
        return total

    def _count(self) -> Expr:
        """The number of iterations in the part, of which there is one at least."""
        parts = self.dealt.parts
        rest = _of("-", added(self._total(), number(parts - 1)), self.dealt.part)
        return _of("//", rest, number(parts), int64)

    def _digits(self, of: Expr) -> list[Expr]:
        """How far a number goes in each loop: its digits, the first one without an end."""
        found, rest = list[Expr](), of
        for extent in reversed(self.extents[1:]):
            found.append(simplified(_of("%", rest, extent)))
            rest = simplified(_of("//", rest, extent))
        return [rest, *reversed(found)]

    def _first(self) -> list[Node]:
        digits = self._digits(self.dealt.part)
        firsts = [simplified(_of("+", loop.lower, digit)) for loop, digit in zip(self.loops, digits, strict=True)]
        return [self._store(position, value) for position, value in enumerate(firsts)]

    def _visit(self) -> Node:
        body: Node = self.dealt.body if self.dealt.left is None else If(self.dealt.left, self.dealt.body)
        for position, loop in reversed([*enumerate(self.loops)]):
            body = Let(loop.variable, self._load(position), body)
        steps: list[Node] = []
        for position in reversed(range(len(self.loops))):
            stride = Iter(self.strides[position], int64)
            steps.append(self._store(position, _of("+", self._load(position), stride)))
            if position:
                steps.append(self._carried(position))
        return block([body, *steps])

    def _carried(self, position: int) -> Node:
        """One iteration more of the loop around, where this one has gone past its end."""
        past = _of("<=", self.loops[position].upper, self._load(position), bool_)
        back = self._store(position, _of("-", self._load(position), self.extents[position]))
        return If(past, block([back, self._store(position - 1, added(self._load(position - 1), number(1)))]))

    def _load(self, position: int) -> Expr:
        return Load(self.at, (number(position),), int64)

    def _store(self, position: int, value: Expr) -> Node:
        return Store(self.at, (number(position),), value, self.statement)


def _of(op: str, left: Expr, right: Expr, dtype: DType = int64) -> Expr:
    return Binary(op, left, right, dtype)
