"""Arrays with other dimensions: their declarations, and the loads and stores that index them.

A pass says which arrays have which extents from now on, and what indices become::

    a: [H, 10, 5]                            -->     a: [50*H], passed as [H, 10, 5]
    s[] += a[h, x, y]                                s[] += a[50*h + 5*x + y]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.ir import Allocate, ArrayArgument, KernelArray, Load, Node, Store
from tiramisu_py.ir.rewriting import rewrite_expressions, with_children
from tiramisu_py.passes.array_uses import Indices

#: The extents that arrays are to have, by name.
Shapes = Mapping[str, Indices]
_A = TypeVar("_A")


def with_shapes(declared: Iterable[_A], shapes: Shapes) -> tuple[_A, ...]:
    """The arguments of a function, or the arrays of a kernel: those with new extents are passed as before."""
    return tuple(_with_shape(each, shapes) for each in declared)


def _with_shape(each: _A, shapes: Shapes) -> _A:
    if not isinstance(each, ArrayArgument | KernelArray) or each.name not in shapes:
        return each
    return replace(each, extents=shapes[each.name], passed=each.passed_extents)


def with_temporaries(node: Node, shapes: Shapes) -> Node:
    """The statement in which the temporaries of these names have these extents."""
    if isinstance(node, Allocate) and node.buffer in shapes:
        node = replace(node, extents=shapes[node.buffer])
    return with_children(node, lambda child: with_temporaries(child, shapes))


def with_indices(node: Node, arrays: Collection[str], indices: Callable[[str, Indices], Indices]) -> Node:
    """The statement in which each load and store of these arrays has the indices that `indices` makes of its own."""

    def load(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in arrays:
            return None
        inner = tuple(rewrite(index, load) for index in e.indices)
        return Load(e.buffer, indices(e.buffer, inner), e.dtype)

    def store(inner: Node) -> Node:
        if isinstance(inner, Store) and inner.buffer in arrays:
            inner = replace(inner, indices=indices(inner.buffer, inner.indices))
        return with_children(inner, store)

    return store(rewrite_expressions(node, load))
