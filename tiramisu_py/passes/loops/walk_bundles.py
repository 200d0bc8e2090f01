"""Terms dealt out by their numbers: the loops over all of them, with a test of the number, become a walk over some.

The numbers of iterations of nested loops over a box, ``(h*M + x)*K + y``, are those from 0 to ``N*M*K - 1``, each
once, in the order of the loops. So the iterations whose number has remainder r by a constant p are those numbered r,
``r + p``, and so on; those whose quotient by a length is r are a range. The first one is found by divisions, and so is
the distance from each to the next, in each loop; a step adds these, and carries where a loop ends. Elements of an
array with the same extents that is indexed by these loops alone are found by the number itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Select
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Allocate, For, If, KernelFunction, Let, Load, LoopFunction, Node, Store
from tiramisu_py.ir.arithmetic.build import added, conjunction, number, plus, smaller
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, block, walk, with_children
from tiramisu_py.ir.rewriting import names as names_in
from tiramisu_py.passes.array_uses import host_shapes, kernel_shapes, places
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.passes.fewer_dimensions import Shapes, with_indices, with_shapes, with_temporaries
from tiramisu_py.passes.loops.dealt_loops import (
    DealtLoops,
    all_dealt,
    binary,
    dealt_loops,
    less,
    product,
)
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class WalkBundles(FunctionPass):
    """Visit the iterations of nested loops whose number passes a test, in place of testing all of them.

    ::

        for h in 0 .. N:                                  -->   at = the iteration numbered r
            for x in 0 .. M:                                    for step in 0 .. (N*M + 255 - r) // 256:
                if (h*M + x) % 256 == r: S[h, x]                    S[at]
                                                                    at = the one 256 further on
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        kernels = tuple(_in_kernel(what, each) for each in what.gpus.kernels)
        found = all_dealt(what.body)
        if not found:
            return replace(what, gpus=replace(what.gpus, kernels=kernels))
        flat = _in_a_row(what.body, found, host_shapes(what))
        body = _walked(with_temporaries(what.body, flat), about.taken, flat)
        return replace(
            what, arguments=with_shapes(what.arguments, flat), body=body, gpus=replace(what.gpus, kernels=kernels)
        )


def _in_kernel(function: LoopFunction, kernel: KernelFunction) -> KernelFunction:
    found = all_dealt(kernel.body)
    if not found:
        return kernel
    flat = _in_a_row(kernel.body, found, kernel_shapes(function, kernel))
    declared = (*kernel.params, *(scalar.name for scalar in kernel.scalars), *(array.name for array in kernel.arrays))
    taken = Names({*names_in(kernel.body), *declared})
    body = _walked(with_temporaries(kernel.body, flat), taken, flat)
    return replace(kernel, arrays=with_shapes(kernel.arrays, flat), body=body)


def _walked(node: Node, taken: Names, flat: Collection[str]) -> Node:
    """The statement with the loops over dealt-out terms as walks; arrays that are `flat` have one dimension."""
    found = dealt_loops(node)
    if found is not None:
        return Walk(found, taken, flat).node()
    return with_children(node, lambda child: _walked(child, taken, flat))


def _in_a_row(body: Node, found: Sequence[DealtLoops], shapes: Shapes) -> Shapes:
    """The one extent of arrays that are indexed by the variables of loops whose iterations are dealt out alone.

    The loops begin at 0 and have as many iterations as the array has indices, so that both are numbered alike.
    """
    used, inside = places(body), list[str]()
    for dealt in found:
        for name, indices in places(dealt.body).items():
            inside += [name] * sum(dealt.counts(each, shapes.get(name, ())) for each in indices)
    flat = [name for name in shapes if used.get(name) and len(used[name]) == inside.count(name)]
    return {name: (product(shapes[name]),) for name in flat}


class Walk:
    """The walk over one share of the iterations of some loops."""

    def __init__(self, dealt: DealtLoops, taken: Names, flat: Collection[str]) -> None:
        self.dealt, self.loops, self.extents, self.taken = dealt, dealt.loops, dealt.extents, taken
        self.all = "_".join(loop.variable for loop in self.loops)
        self.number = taken.fresh(f"{self.all}_number")
        self.statement = next((each.statement for each in walk(dealt.body) if isinstance(each, Store)), "")
        body = dealt.body if dealt.left is None else If(dealt.left, dealt.body)
        self.body = with_indices(body, flat, lambda *_: (Iter(self.number, int64),))
        used = names_in(self.body)
        self.numbers_only = used.isdisjoint(loop.variable for loop in self.loops)
        self.counts = self.number in used

    def node(self) -> Node:
        """The walk, where there is anything to visit."""
        share = self.dealt.share
        some = [less(number(0), extent) for extent in self.extents]
        some.append(binary("<=", number(0), share.part, bool_))
        if share.length is not None:
            inside = self._range(share.part, share.length)
            some += [less(number(0), share.length), less(binary("*", share.part, share.length), self.dealt.total)]
        else:
            inside = self._in_steps(share.part, share.parts) if share.parts else self._one(share.part)
            some += [less(share.part, number(share.parts))] if share.parts else []
            some.append(less(share.part, self.dealt.total))
        condition = conjunction(some)
        assert condition is not None
        return If(simplified(condition), inside)

    # -- one iteration

    def _one(self, part: Expr) -> Node:
        body = self.body
        if not self.numbers_only:
            for loop, first in zip(self.loops, self._firsts(Iter(self.number, int64)), strict=True):
                body = Let(loop.variable, first, body)
        return Let(self.number, part, body)

    def _firsts(self, of: Expr) -> list[Expr]:
        """The iteration of each loop in the iteration with a number."""
        pairs = zip(self.loops, self.dealt.digits(of), strict=True)
        return [simplified(binary("+", loop.lower, digit)) for loop, digit in pairs]

    # -- iterations a constant distance apart

    def _in_steps(self, part: Expr, parts: int) -> Node:
        turn, count = self.taken.fresh(f"{self.all}_step"), self.taken.fresh(f"{self.all}_steps")
        own = binary("+", part, binary("*", Iter(turn, int64), number(parts)))
        body = Let(self.number, own, self.body) if self.counts else self.body
        rest = binary("-", added(self.dealt.total, number(parts - 1)), part)
        loop = For(turn, number(0), Iter(count, int64), body)
        node = loop if self.numbers_only else self._with_digits(loop, part, parts)
        return Let(count, binary("//", rest, number(parts)), node)

    def _with_digits(self, loop: For, part: Expr, parts: int) -> Node:
        """The walk with the iteration of each loop, and how far the next one is, in variables."""
        at = [self.taken.fresh(f"{each.variable}_at") for each in self.loops]
        strides = [self.taken.fresh(f"{each.variable}_stride") for each in self.loops]
        firsts = [self._store(name, value) for name, value in zip(at, self._firsts(part), strict=True)]
        node = block([*firsts, replace(loop, body=self._visit(loop.body, at, strides))])
        for name in at:
            node = Allocate(name, (), int64, node, register=True)
        for name, value in zip(reversed(strides), reversed(self.dealt.digits(number(parts))), strict=True):
            node = Let(name, value, node)
        return node

    def _visit(self, body: Node, at: Sequence[str], strides: Sequence[str]) -> Node:
        """The body, and the step to the next iteration."""
        for name, loop in reversed([*zip(at, self.loops, strict=True)]):
            body = Let(loop.variable, _load(name), body)
        steps: list[Node] = []
        for position in reversed(range(len(self.loops))):
            steps.append(self._store(at[position], binary("+", _load(at[position]), Iter(strides[position], int64))))
            if position:
                steps.append(self._carried(at[position - 1], at[position], position))
        return block([body, *steps])

    def _carried(self, outer: str, inner: str, position: int) -> Node:
        """One iteration more of the loop around, where this one has gone past its end."""
        past = binary("<=", self.loops[position].upper, _load(inner), bool_)
        back = self._store(inner, binary("-", _load(inner), self.extents[position]))
        return If(past, block([back, self._store(outer, plus(_load(outer), 1))]))

    def _store(self, name: str, value: Expr) -> Node:
        return Store(name, (), value, self.statement)

    # -- a range of iterations

    def _range(self, part: Expr, length: Expr) -> Node:
        """The loops from the first iteration of the range to its last one, each from its begin to its end between."""
        begin, end = self.taken.fresh(f"{self.all}_begin"), self.taken.fresh(f"{self.all}_end")
        ends: tuple[Expr, Expr] = (Iter(begin, int64), Iter(end, int64))
        if self.numbers_only:
            node: Node = For(self.number, *ends, self.body)
        else:
            node = self._rows(*ends)
        own = smaller(self.dealt.total, binary("+", Iter(begin, int64), length))
        return Let(begin, binary("*", part, length), Let(end, own, node))

    def _rows(self, begin: Expr, end: Expr) -> Node:
        firsts = [self.taken.fresh(f"{loop.variable}_first") for loop in self.loops]
        lasts = [self.taken.fresh(f"{loop.variable}_last") for loop in self.loops]
        node: Node = Let(self.number, self._counted(), self.body) if self.counts else self.body
        for depth, loop in reversed([*enumerate(self.loops)]):
            lower: Expr = Iter(firsts[depth], int64)
            upper = plus(Iter(lasts[depth], int64), 1)
            if depth:
                lower = Select(self._at(firsts[:depth]), lower, loop.lower, int64)
                upper = Select(self._at(lasts[:depth]), upper, loop.upper, int64)
            node = For(loop.variable, lower, upper, node)
        for names, of in ((lasts, plus(end, -1)), (firsts, begin)):
            for name, value in zip(reversed(names), reversed(self._firsts(of)), strict=True):
                node = Let(name, value, node)
        return node

    def _counted(self) -> Expr:
        """The number of an iteration, of the variables of the loops."""
        total: Expr = number(0)
        for loop, extent in zip(self.loops, self.extents, strict=True):
            own = binary("-", Iter(loop.variable, int64), loop.lower)
            total = binary("+", binary("*", total, extent), own)
        return simplified(total)

    def _at(self, names: Sequence[str]) -> Expr:
        """Whether the loops around are in certain iterations."""
        pairs = zip(self.loops, names, strict=False)
        condition = conjunction(Binary("==", Iter(x.variable, int64), Iter(name, int64), bool_) for x, name in pairs)
        assert condition is not None
        return condition


def _load(name: str) -> Expr:
    return Load(name, (), int64)
