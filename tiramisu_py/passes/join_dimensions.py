"""Dimensions of an array as one where its elements are found by the digits of one number.

After ``coalesce`` a statement reads ``a[j // 50, j // 5 % 10, j % 5]`` of an array with the shape ``[H, 10, 5]``: this
is element j of all its elements in their order, which nothing has to divide for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.traversal import kinds
from tiramisu_py.algorithm.traversal import walk as walk_expression
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import KernelFunction, LoopFunction, Node
from tiramisu_py.ir.arithmetic.linear import Linear, linear
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import contents
from tiramisu_py.passes.array_uses import Indices, host_shapes, kernel_shapes, places
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.passes.fewer_dimensions import with_indices, with_shapes, with_temporaries
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
        what = replace(
            what, gpus=replace(what.gpus, kernels=tuple(_in_kernel(what, kernel) for kernel in what.gpus.kernels))
        )
        if contents(what.body).isdisjoint(_DIVISIONS):
            return what
        shapes = host_shapes(what)
        found = _found(what.body, shapes)
        if not found:
            return what
        wanted = _shapes(found, shapes)
        return replace(what, arguments=with_shapes(what.arguments, wanted), body=_joined_in(what.body, found, shapes))


def _in_kernel(function: LoopFunction, kernel: KernelFunction) -> KernelFunction:
    """A kernel that indexes arrays of its GPU so; the arrays themselves stay as they are."""
    if contents(kernel.body).isdisjoint(_DIVISIONS):
        return kernel
    shapes = kernel_shapes(function, kernel)
    found = _found(kernel.body, shapes)
    if not found:
        return kernel
    wanted = _shapes(found, shapes)
    return replace(kernel, arrays=with_shapes(kernel.arrays, wanted), body=_joined_in(kernel.body, found, shapes))


def _shapes(found: Mapping[str, Sequence[range]], shapes: Mapping[str, Indices]) -> dict[str, Indices]:
    """The new extents of the arrays."""
    return {name: _shape(shapes[name], groups) for name, groups in found.items()}


def _joined_in(body: Node, found: Mapping[str, Sequence[range]], shapes: Mapping[str, Indices]) -> Node:
    """A statement with the new extents and indices."""

    def indices(name: str, place: Indices) -> Indices:
        return tuple(_joined(place, shapes[name], group) for group in found[name])

    return with_temporaries(with_indices(body, found, indices), _shapes(found, shapes))


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


def _shape(extents: Indices, groups: Sequence[range]) -> Indices:
    """The extents of dimensions that have become one."""
    found = []
    for group in groups:
        extent = linear(extents[group.start])
        for dim in group[1:]:
            extent = extent.times(constant(extents[dim]) or 0)
        found.append(extent.expression())
    return tuple(found)
