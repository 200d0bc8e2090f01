"""How much each term of a reduction counts: the derivative of the result by the term.

Of a sum it is 1. The largest terms share evenly, as in PyTorch's ``amax``; of ``argmax`` it is 1 at the place. Of a
product it is the product of all other terms, so that a term that is 0 is no exception:

    y[i] = product of x[i, k] over k   -->   y_before[i, k] = y_before[i, k - 1] * x[i, k - 1]
                                             y_after[i, k] = y_after[i, k + 1] * x[i, k + 1]
"""

from __future__ import annotations

from collections.abc import Callable

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.expressions import Cast, Const, Expr, Iter, as_expr, binary, component, select
from tiramisu_py.algorithm.operators import product, sum_
from tiramisu_py.algorithm.types import component_types
from tiramisu_py.rewriting.isl_expressions import condition_of
from tiramisu_py.rewriting.partial_derivatives import times, where
from tiramisu_py.rewriting.sketches import FreshNames, Sketch, own_value, read, replaced, same_domain

#: A multiplier of the result as that of one term.
Weight = Callable[[Expr], Expr]


def weight_of_terms(algorithm: Algorithm, c: Computation, names: FreshNames) -> tuple[Weight, list[Sketch]]:
    """The factor of a term in the derivative of a reduction, and what has to be computed for it."""
    assert c.op is not None
    whole = own_value(algorithm, c, c.name, c.dtype)
    match c.op.own_name:
        case "max" | "min":
            return _shared(algorithm, c, binary("==", c.expr, whole), names)
        case "argmax" | "argmin":
            place = component(c.expr, 1)
            taken = binary("==", place, component(whole, 1))
            if _is_own_iterator(c, place):
                return (lambda by: where(taken, by)), []
            same = binary("==", component(c.expr, 0), component(whole, 0))
            return _shared(algorithm, c, binary("&", taken, same), names)
        case "product":
            return _of_product(algorithm, c, names)
    if c.op.derivative is None:  # a sum
        return (lambda by: by), []
    own = as_expr(c.op.derivative(whole, c.expr))
    return (lambda by: times(by, own)), []


def _is_own_iterator(c: Computation, place: Expr) -> bool:
    """Whether the place of each term is the iterator of the only loop over terms, so that no two terms have one."""
    inner = place.operand if isinstance(place, Cast) else place
    return len(c.over) == 1 and inner.same_as(Iter(c.over[0]))


def _shared(algorithm: Algorithm, c: Computation, counts: Expr, names: FreshNames) -> tuple[Weight, list[Sketch]]:
    """Terms for which a condition holds share evenly."""
    dtype = component_types(c.dtype)[0]
    ties = same_domain(c, names.fresh(f"{c.name}_ties"), dtype, where(counts, Const(1.0, dtype)), sum_)
    number = own_value(algorithm, c, ties.name, dtype)
    return (lambda by: where(counts, binary("/", by, number))), [ties]


def _of_product(algorithm: Algorithm, c: Computation, names: FreshNames) -> tuple[Weight, list[Sketch]]:
    """The product of all other terms: of those before and those after along one loop, else of all pairs."""
    if len(c.over) == 1 and not c.guards and c.points.n_basic_set() == 1 and not sets.has_divisions(c.points):
        before, after = (_from_one_side(algorithm, c, names, step) for step in (-1, 1))
        sides = [read(algorithm, each.name, map(Iter, c.point_iterators), c.dtype) for each in (before, after)]
        return (lambda by: times(times(by, sides[0]), sides[1])), [before, after]
    sketch = _of_all_others(algorithm, c, names)
    value = read(algorithm, sketch.name, map(Iter, c.point_iterators), c.dtype)
    return (lambda by: times(by, value)), [sketch]


def _from_one_side(algorithm: Algorithm, c: Computation, names: FreshNames, step: int) -> Sketch:
    """The product of the terms before each term, or after it, as a recurrence."""
    name = names.fresh(f"{c.name}_{'before' if step < 0 else 'after'}")
    points, (along,) = sets.named(c.points, name), c.over
    space = points.get_space()
    *outer, last = sets.variables(space)
    inside = sets.preimage(points, sets.function(space, name, [*outer, sets.plus(last, step)]))
    at = binary("+", Iter(along), step) if step > 0 else binary("-", Iter(along), -step)
    next_one = read(algorithm, name, [*map(Iter, c.iterators), at], c.dtype)
    grown = binary("*", next_one, replaced(c.expr, {along: at}))
    first = condition_of(points.subtract(inside), points, c.point_iterators)
    value = Const(1.0, c.dtype) if first is None else select(first, Const(1.0, c.dtype), grown)
    return Sketch(name, c.dtype, c.point_iterators, points, value, like=c)


def _of_all_others(algorithm: Algorithm, c: Computation, names: FreshNames) -> Sketch:
    """A reduction over pairs of terms of one value that differ."""
    own = {each: names.fresh(f"{each}_other") for each in c.over}
    dims = (*c.point_iterators, *own.values())
    others = names.fresh(f"{c.name}_others")
    renamed: dict[str, Expr] = {each: Iter(other) for each, other in own.items()}
    pairs = _pairs_that_differ(algorithm, c, others, dims)
    guards = tuple(replaced(guard, renamed) for guard in c.guards)
    return Sketch(
        others, c.dtype, c.point_iterators, sets.named(c.points, others), replaced(c.expr, renamed), guards,
        tuple(own.values()), pairs, product, c,
    )  # fmt: skip


def _pairs_that_differ(algorithm: Algorithm, c: Computation, name: str, dims: tuple[str, ...]) -> isl.Set:
    """The terms of a value, and the other terms of the same value."""
    frame = algorithm.frame(name, dims)
    variables = sets.variables(frame)
    count, over = len(c.iterators), len(c.over)
    first, second = variables[: count + over], [*variables[:count], *variables[count + over :]]
    both = sets.preimage(sets.named(c.points, None), sets.function(frame, None, first)).intersect(
        sets.preimage(sets.named(c.points, None), sets.function(frame, None, second))
    )
    same = sets.universe(frame)
    for one, other in zip(variables[count : count + over], variables[count + over :], strict=True):
        same = same.intersect(sets.as_set(one.eq_set(other)))
    return both.subtract(same)
