"""Terms dealt out by their numbers: the loops over all of them, with a test of the number, become a walk over some.

The numbers of iterations of nested loops over a box, ``(h*M + x)*K + y``, are those from 0 to ``N*M*K - 1``, each
once, in the order of the loops. So the iterations whose number has remainder r by a constant p are those numbered r,
``r + p``, and so on. The first one is found by divisions, and so is the distance from each to the next, in each
loop; a step adds these, and carries where a loop ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.types import DType, bool_, int64
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Block,
    Comment,
    For,
    If,
    KernelFunction,
    Let,
    Load,
    LoopFunction,
    Node,
    Store,
)
from tiramisu_py.ir.arithmetic.build import added, conjunction, conjuncts, number, subtracted
from tiramisu_py.ir.arithmetic.polynomials import same
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, block, constant, rewrite_expressions, variables, walk, with_children
from tiramisu_py.ir.rewriting import names as names_in
from tiramisu_py.passes.array_uses import Indices, host_shapes, kernel_shapes, places
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
        kernels = tuple(_in_kernel(what, each, about.taken) for each in what.kernels)
        found = _all_dealt(what.body)
        if not found:
            return replace(what, kernels=kernels)
        flat = _in_a_row(what.body, found, host_shapes(what))
        arguments = tuple(
            replace(each, extents=(_product(each.extents),), passed=each.passed_extents)
            if isinstance(each, ArrayArgument) and each.name in flat
            else each
            for each in what.arguments
        )
        return replace(what, arguments=arguments, body=_walked(what.body, about.taken, flat), kernels=kernels)


def _in_kernel(function: LoopFunction, kernel: KernelFunction, taken: Names) -> KernelFunction:
    found = _all_dealt(kernel.body)
    if not found:
        return kernel
    flat = _in_a_row(kernel.body, found, kernel_shapes(function, kernel))
    arrays = tuple(
        replace(each, extents=(_product(each.extents),), passed=each.extents) if each.name in flat else each
        for each in kernel.arrays
    )
    return replace(kernel, arrays=arrays, body=_walked(kernel.body, taken, flat))


def _walked(node: Node, taken: Names, flat: Collection[str]) -> Node:
    """The statement with the loops over dealt-out terms as walks; arrays that are `flat` have one dimension."""
    found = _dealt(node)
    if found is not None:
        return Walk(found, taken, flat).node()
    if isinstance(node, Allocate) and node.buffer in flat:
        node = replace(node, extents=(_product(node.extents),))
    return with_children(node, lambda child: _walked(child, taken, flat))


def _all_dealt(node: Node) -> list[DealtLoops]:
    """The loops inside a statement whose iterations are dealt out by number."""
    found = _dealt(node)
    if found is not None:
        return [found]
    inside = list[DealtLoops]()
    with_children(node, lambda child: (inside.extend(_all_dealt(child)), child)[1])
    return inside


def _in_a_row(body: Node, found: Sequence[DealtLoops], shapes: Mapping[str, Indices]) -> set[str]:
    """The arrays that are indexed by the variables of loops whose iterations are dealt out, and by nothing else.

    The loops begin at 0 and have as many iterations as the array has indices, so that both are numbered alike.
    """
    used, inside = places(body), list[str]()
    for dealt in found:
        for name, indices in places(dealt.body).items():
            inside += [name] * sum(dealt.counts(each, shapes.get(name, ())) for each in indices)
    return {name for name in shapes if used.get(name) and len(used[name]) == inside.count(name)}


def _product(extents: Sequence[Expr]) -> Expr:
    total = extents[0]
    for extent in extents[1:]:
        total = _of("*", total, extent)
    return total


@dataclass(frozen=True, eq=False)
class DealtLoops:
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

    def counts(self, indices: Indices, extents: Indices) -> bool:
        """Whether an element has the number of its iteration in an array with these extents."""
        if len(indices) != len(self.loops) or len(extents) != len(self.loops):
            return False
        alike = zip(self.loops, indices, self.extents, extents, strict=True)
        return all(
            isinstance(index, Iter) and index.name == loop.variable and constant(loop.lower) == 0 and same(own, extent)
            for loop, index, own, extent in alike
        )


def _dealt(node: Node) -> DealtLoops | None:
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
            return DealtLoops(loops, *taken, left, inner.then)
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


class Walk:
    """The walk over one part of the iterations of some loops."""

    def __init__(self, dealt: DealtLoops, taken: Names, flat: Collection[str]) -> None:
        self.dealt, self.loops, self.flat = dealt, dealt.loops, flat
        names = "_".join(loop.variable for loop in self.loops)
        self.turn, self.count = taken.fresh(f"{names}_step"), taken.fresh(f"{names}_steps")
        self.number = taken.fresh(f"{names}_number")
        self.at = [taken.fresh(f"{loop.variable}_at") for loop in self.loops]
        self.strides = [taken.fresh(f"{loop.variable}_stride") for loop in self.loops]
        self.extents = dealt.extents
        self.statement = next((each.statement for each in walk(dealt.body) if isinstance(each, Store)), "")
        body = dealt.body if dealt.left is None else If(dealt.left, dealt.body)
        self.body = _in_one_dimension(body, flat, Iter(self.number, int64))
        self.digits_used = not names_in(self.body).isdisjoint(loop.variable for loop in self.loops)

    def node(self) -> Node:
        """The walk, where there is anything to visit."""
        turn = _of("*", Iter(self.turn, int64), number(self.dealt.parts))
        body = Let(self.number, _of("+", self.dealt.part, turn), self.body)
        inside = self._visit(body) if self.digits_used else body
        node: Node = For(self.turn, number(0), Iter(self.count, int64), inside)
        node = self._with_digits(node) if self.digits_used else node
        node = Let(self.count, self._count(), node)
        part, parts = self.dealt.part, number(self.dealt.parts)
        some = [_of("<", number(0), extent, bool_) for extent in self.extents]
        some += [_of("<=", number(0), part, bool_), _of("<", part, parts, bool_), _of("<", part, self._total(), bool_)]
        condition = conjunction(some)
        assert condition is not None
        return If(simplified(condition), node)

    def _with_digits(self, loop: Node) -> Node:
        """The walk with the iteration of each loop, and how far the next one is, in variables."""
        node = block([*self._first(), loop])
        for name in self.at:
            node = Allocate(name, (), int64, node, register=True)
        for name, value in zip(reversed(self.strides), reversed(self._digits(number(self.dealt.parts))), strict=True):
            node = Let(name, value, node)
        return node

    def _total(self) -> Expr:
        return _product(self.extents)

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

    def _visit(self, body: Node) -> Node:
        """The body, and the step to the next iteration."""
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
        return Load(self.at[position], (), int64)

    def _store(self, position: int, value: Expr) -> Node:
        return Store(self.at[position], (), value, self.statement)


def _in_one_dimension(node: Node, flat: Collection[str], at: Expr) -> Node:
    """The statement with the elements of some arrays found by one number."""

    def load(e: Expr) -> Expr | None:
        return Load(e.buffer, (at,), e.dtype) if isinstance(e, Load) and e.buffer in flat else None

    def store(inner: Node) -> Node:
        if isinstance(inner, Store) and inner.buffer in flat:
            inner = replace(inner, indices=(at,))
        return with_children(inner, store)

    return store(rewrite_expressions(node, load))


def _of(op: str, left: Expr, right: Expr, dtype: DType = int64) -> Expr:
    return Binary(op, left, right, dtype)
