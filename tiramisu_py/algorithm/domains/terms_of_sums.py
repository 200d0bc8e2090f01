"""Sums over boxes: the extents of the terms of a sum, and a sum over other terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.expressions import Expr, Iter


def sizes_of_terms(algorithm: Algorithm, c: Computation) -> dict[str, Expr] | None:
    """The extents of the iterators of a sum over a box from 0, the same for each value; None for other sums."""
    space = c.points.get_space()
    every = extents_of(c.points, algorithm.context)
    found: dict[str, Expr] = {}
    box = c.points
    for name in c.over:
        axis = c.point_iterators.index(name)
        found[name] = every[axis]
        box = sets.freed(box, axis)
    reader = Affine(space, dict(zip(c.point_iterators, sets.variables(space), strict=True)))
    for name in c.over:
        box = box.intersect(reader.condition((Iter(name) >= 0) & (Iter(name) < found[name])))
    return found if box.is_equal(c.points) else None


def with_terms(c: Computation, expr: Expr, over: Sequence[str], sizes: Mapping[str, Expr]) -> Computation:
    """A computation as a sum of `expr` over its own terms that are in `over`, and over others from 0 to their size."""
    kept = [name for name in c.over if name in over]
    dims = (*c.iterators, *kept, *(name for name in over if name not in kept))
    points = c.points if kept == [*c.over] else c.domain
    for axis in range(len(c.iterators) + len(kept), len(dims)):
        points = sets.with_inserted_dim(points, axis)
    points = sets.with_dims(sets.named(points, c.name), dims)
    space = points.get_space()
    reader = Affine(space, dict(zip(dims, sets.variables(space), strict=True)))
    for name in dims[len(c.iterators) + len(kept) :]:
        points = points.intersect(reader.condition((Iter(name) >= 0) & (Iter(name) < sizes[name])))
    return replace(c, expr=typed(expr), over=dims[len(c.iterators) :], points=points)
