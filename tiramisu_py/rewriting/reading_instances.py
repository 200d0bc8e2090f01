"""The instances of a computation that read, without iterators that a value chooses.

Of a scatter ``y[n]`` over e where ``n == dst[e]``, an instance is a term e, and n is ``dst[e]`` wherever it occurs: its
adjoint reads ``d_y[dst[e]]``, and searches no n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.ranges.value_ranges import ranges_of
from tiramisu_py.algorithm.domains.scatters import chosen_by_values
from tiramisu_py.algorithm.expressions import Binary, Cast, Expr
from tiramisu_py.algorithm.traversal import substitute
from tiramisu_py.algorithm.types import int64
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.isl_expressions import condition_of


@dataclass(frozen=True, eq=False)
class Instances:
    """Instances in the order of `dims`, at `points`, where the `guards` hold; the other iterators are `values`."""

    dims: tuple[str, ...]
    points: isl.Set
    guards: tuple[Expr, ...]
    values: Mapping[str, Expr] = field(default_factory=dict)

    def of(self, expression: Expr) -> Expr:
        """An expression of all iterators as one of `dims`."""
        return substitute(expression, dict(self.values)) if self.values else expression


def all_instances(algorithm: Algorithm, c: Computation) -> Instances:
    """The instances of a computation over all its iterators."""
    points = sets.named(c.points, c.name).intersect_params(algorithm.context.params())
    return Instances(c.point_iterators, points, c.guards)


def without_chosen(algorithm: Algorithm, c: Computation) -> Instances:
    """The instances of a computation over the iterators that no value chooses."""
    whole, chosen = all_instances(algorithm, c), chosen_by_values(c)
    if not chosen:
        return whole
    values = {name: each if each.dtype == int64 else Cast(each, int64) for name, each in chosen.items()}
    kept = [axis for axis, name in enumerate(whole.dims) if name not in chosen]
    space = whole.points.get_space()
    dims = sets.variables(space)
    points = whole.points.apply(sets.graph(sets.function(space, c.name, [dims[axis] for axis in kept])))
    names = tuple(whole.dims[axis] for axis in kept)
    guards = [substitute(each, values) for guard in c.guards for each in conjuncts(guard)]
    guards = [guard for guard in guards if not _is_trivial(guard)]
    if not _is_inside(algorithm, whole, chosen):
        free = sets.preimage(points, sets.function(space, c.name, [dims[axis] for axis in kept]))
        inside = condition_of(whole.points, free, whole.dims)
        guards += [] if inside is None else conjuncts(substitute(inside, values))
    return Instances(names, sets.with_dims(points, names), tuple(guards), values)


def _is_trivial(guard: Expr) -> bool:
    """Whether a condition equates an expression with itself."""
    if not isinstance(guard, Binary) or guard.op != "==":
        return False
    return _narrow(guard.left).same_as(_narrow(guard.right))


def _narrow(e: Expr) -> Expr:
    """An integer without conversions to int64, which change no value."""
    while isinstance(e, Cast) and e.dtype == int64 and e.operand.dtype.is_integer and e.operand.dtype.name != "uint64":
        e = e.operand
    return e


def _is_inside(algorithm: Algorithm, whole: Instances, chosen: Mapping[str, Expr]) -> bool:
    """Whether the values that choose iterators are known to lie in the domain: each term has a place."""
    names, space = [*chosen], whole.points.get_space()
    found = ranges_of(algorithm).enclosed([*chosen.values()], space)
    if found.unbounded:
        return False
    pairs = sets.flat_pairs(found.relation(None).intersect_domain(whole.points), "pairs")
    count, frame = len(whole.dims), pairs.get_space()
    dims = sets.variables(frame)
    moved = [dims[count + names.index(name)] if name in names else dims[axis] for axis, name in enumerate(whole.dims)]
    places = pairs.apply(sets.graph(sets.function(frame, sets.tuple_name(space), moved)))
    return bool(places.is_subset(whole.points))
