"""Iterators and parameters that wrap around: beside a value of a narrow type they take that type."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.traversal import walk

#: Types of more bits hold the indices of most arrays.
NARROW = 16


def wrapped(algorithm: Algorithm) -> Iterator[str]:
    """For each computation the operands without a type of their own that are not always in the type that they take."""
    for computation in algorithm.computations.values():
        for node in walk(computation.expr):
            if isinstance(node, Binary) and node.dtype.is_integer and not node.dtype.weak and node.dtype.bits <= NARROW:
                for operand in (node.left, node.right):
                    if operand.dtype.weak and _exceeds(algorithm, computation, operand, node.dtype.limits):
                        yield (
                            f"{operand} wraps around in {node} of {computation.name}, since it is taken as "
                            f"{node.dtype}: tm.cast(tm.int32, ...) of the other operand keeps it"
                        )


def _exceeds(algorithm: Algorithm, computation: Computation, operand: Expr, limits: tuple[int, int]) -> bool:
    """Whether an operand is below or above the limits somewhere in the domain of a computation."""
    if isinstance(operand, Const):
        return False
    points = computation.points if computation.is_reduction else computation.domain
    points = points.intersect_params(algorithm.context.params())
    try:
        values = Affine(algorithm.frame(computation.name, computation.point_iterators)).value(operand)
    except NotAffine:
        return False
    low, high = (_bound(values, limit) for limit in limits)
    outside = sets.as_set(values.lt_set(low)).union(sets.as_set(values.gt_set(high)))
    return not points.is_disjoint(sets.named(outside, computation.name))


def _bound(like: isl.PwAff, value: int) -> isl.PwAff:
    return sets.constant(like.get_space().domain(), value).to_pw_aff()
