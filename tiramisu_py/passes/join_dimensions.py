"""Dimensions of an array as one where its elements are found by the digits of one number.

After ``coalesce`` a statement reads ``a[j // 50, j // 5 % 10, j % 5]`` of an array with the shape ``[H, 10, 5]``: this
is element j of all its elements in their order, which nothing has to divide for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.traversal import kinds, rewrite
from tiramisu_py.algorithm.traversal import walk as walk_expression
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Allocate, ArrayArgument, KernelFunction, Load, LoopFunction, Node, Store
from tiramisu_py.ir.arithmetic.linear import Linear, linear
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import contents, rewrite_expressions, with_children
from tiramisu_py.passes.array_uses import Indices, host_shapes, kernel_shapes, places
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.records import dataclass

#: The operators that divide.
_DIVISIONS = frozenset(("//", "%"))


@dataclass(frozen=True)
class JoinDimensions(FunctionPass):
    """Index dimensions of a contiguous array as one where that divides less.

    ::

        s[] += a[j // 50, j // 5 % 10, j % 5]     -->     s[] += a[j]

    The inner ones of these dimensions have constant extents, and all elements of the array are found like that.
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        what = replace(what, kernels=tuple(_in_kernel(what, kernel) for kernel in what.kernels))
        if contents(what.body).isdisjoint(_DIVISIONS):
            return what
        shapes = host_shapes(what)
        found = _found(what.body, shapes)
        if not found:
            return what
        joined = tuple(
            _argument(each, found[each.name]) if isinstance(each, ArrayArgument) and each.name in found else each
            for each in what.arguments
        )
        return replace(what, arguments=joined, body=_Joining(found, shapes).statement(what.body))


def _in_kernel(function: LoopFunction, kernel: KernelFunction) -> KernelFunction:
    """A kernel that indexes arrays of its GPU so; the arrays themselves stay as they are."""
    if contents(kernel.body).isdisjoint(_DIVISIONS):
        return kernel
    shapes = kernel_shapes(function, kernel)
    found = _found(kernel.body, shapes)
    if not found:
        return kernel
    joined = tuple(
        replace(each, extents=_shape(each.extents, found[each.name]), passed=each.extents)
        if each.name in found
        else each
        for each in kernel.arrays
    )
    return replace(kernel, arrays=joined, body=_Joining(found, shapes).statement(kernel.body))


def _found(body: Node, shapes: Mapping[str, Indices]) -> dict[str, list[range]]:
    """The arrays that may have fewer dimensions, and which of them become one."""
    shapes = {name: extents for name, extents in shapes.items() if len(extents) > 1}
    used, found = places(body), dict[str, list[range]]()
    for name, extents in shapes.items():
        if (groups := _groups(used.get(name, []), extents)) is not None:
            found[name] = groups
    return found


def _groups(places: Sequence[Indices], extents: Indices) -> list[range] | None:
    """The dimensions that become one, in runs; None if none do."""
    rank = len(extents)
    if rank < 2 or not any(map(_divisions, places)) or any(len(place) != rank for place in places):
        return None
    groups = [range(1)]
    for dim in range(1, rank):
        extent, last = constant(extents[dim]), groups[-1]
        wider = range(last.start, dim + 1)
        if extent is not None and extent > 0 and _saves(places, extents, wider):
            groups[-1] = wider
        else:
            groups.append(range(dim, dim + 1))
    return groups if len(groups) < rank else None


def _saves(places: Sequence[Indices], extents: Indices, group: range) -> bool:
    """Whether elements are found with fewer divisions once a last dimension has joined others, and none with more."""
    before = [sum(_count(place[dim]) for dim in group) for place in places]
    after = [_count(_joined(place, extents, group)) for place in places]
    return sum(after) < sum(before) and all(new <= old for new, old in zip(after, before, strict=True))


def _divisions(place: Indices) -> int:
    return sum(map(_count, place))


def _count(e: Expr) -> int:
    """The divisions in an index."""
    if Binary not in kinds(e):
        return 0
    return sum(1 for part in walk_expression(e) if isinstance(part, Binary) and part.op in _DIVISIONS)


def _joined(place: Indices, extents: Indices, group: range) -> Expr:
    """The index in a group of dimensions as one."""
    total = linear(simplified(place[group.start]))
    for dim in group[1:]:
        total = total.times(constant(extents[dim]) or 0).plus(linear(simplified(place[dim])))
    return _without_remainders(_in_one_form(total)).expression()


def _in_one_form(form: Linear) -> Linear:
    """The form with ``(e + 4) // 5 - 1`` for ``(e - 1) // 5``, so that quotients that differ by a number are one."""
    for atom, factor in form.terms.values():
        divisor = constant(atom.right) if isinstance(atom, Binary) and atom.op == "//" else None
        if divisor is None or divisor <= 0 or not isinstance(atom, Binary):
            continue
        inner = linear(atom.left)
        whole = inner.constant // divisor
        if whole and inner.exact:
            left = Linear(inner.terms, inner.constant - whole * divisor).expression()
            other = Linear({}, whole).plus(linear(Binary("//", left, atom.right, int64)))
            return _in_one_form(form.without(atom.key()).plus(other, factor))
    return form


def _without_remainders(form: Linear) -> Linear:
    """The form with each ``e % m`` as ``e - e // m * m`` where the quotient then goes."""
    for atom, factor in form.terms.values():
        if isinstance(atom, Binary) and atom.op == "%" and (divisor := constant(atom.right)) is not None:
            taken = _in_one_form(linear(simplified(Binary("//", atom.left, atom.right, int64))))
            quotient = Linear({}, 0).plus(taken, -divisor)
            whole = form.without(atom.key()).plus(linear(atom.left).plus(quotient), factor)
            if divisor > 0 and len(whole.terms) <= len(form.terms) and linear(atom.left).exact:
                return _without_remainders(whole)
    return form


def _argument(array: ArrayArgument, groups: Sequence[range]) -> ArrayArgument:
    return replace(array, extents=_shape(array.extents, groups), passed=array.passed_extents)


def _shape(extents: Indices, groups: Sequence[range]) -> Indices:
    """The extents of dimensions that have become one."""
    found = []
    for group in groups:
        extent = linear(extents[group.start])
        for dim in group[1:]:
            extent = extent.times(constant(extents[dim]) or 0)
        found.append(extent.expression())
    return tuple(found)


class _Joining:
    """Rewrites what uses arrays whose dimensions have become fewer."""

    def __init__(self, groups: Mapping[str, Sequence[range]], shapes: Mapping[str, Indices]) -> None:
        self.groups = groups
        self.shapes = shapes

    def statement(self, node: Node) -> Node:
        """A statement with the new indices and extents."""
        return self._stored(rewrite_expressions(node, self._load))

    def _stored(self, node: Node) -> Node:
        if isinstance(node, Store) and node.buffer in self.groups:
            node = replace(node, indices=self._indices(node.buffer, node.indices))
        if isinstance(node, Allocate) and node.buffer in self.groups:
            node = replace(node, extents=_shape(node.extents, self.groups[node.buffer]))
        return with_children(node, self._stored)

    def _load(self, e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in self.groups:
            return None
        inner = tuple(rewrite(index, self._load) for index in e.indices)
        return Load(e.buffer, self._indices(e.buffer, inner), e.dtype)

    def _indices(self, buffer: str, place: Indices) -> Indices:
        return tuple(_joined(place, self.shapes[buffer], group) for group in self.groups[buffer])
