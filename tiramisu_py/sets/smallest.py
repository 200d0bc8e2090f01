"""The smallest element of a set with parameters: least sum of the parameters first, then lexicographic.

A lexicographic minimum alone would give N = 1, M = 1000000 before N = 2, M = 2.
"""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets

#: A time before all others.
BEFORE_ALL: tuple[int, ...] = (-1,)


def smallest_params(of: isl.Set | isl.Map) -> dict[str, int]:
    """The parameters of least sum for which a set or a relation is not empty; it must not be empty for all."""
    names = sets.params(of)
    if not names:
        return {}
    values = sets.params_as_dims(of)
    total = sets.constant(values.get_space(), 0)
    for variable in sets.variables(values.get_space()):
        total = total.add(variable)
    least = values.min_val(total)
    if least.is_int():
        values = values.intersect(_equal(total, sets.number(least)))
    return dict(zip(names, first(values), strict=True))


def _equal(aff: isl.Aff, value: int) -> isl.Set:
    return sets.as_set(sets.plus(aff, -value).zero_basic_set())


def lexmin(of: isl.Set) -> isl.Set:
    """The lexicographic minimum of a set without parameters.

    isl's own function fails on some sets with integer divisions ("affine expression involves some of the domain
    dimensions"), rarely once the set is coalesced; and for some non-empty sets it finds no minimum. In these cases the
    dimensions are minimised one after another; a dimension without a minimum is maximised, or takes any value.
    """
    rest = of.coalesce()
    try:
        found = rest.lexmin()
    except isl.Error:
        found = sets.empty(of.get_space())
    return _by_dimensions(rest) if found.is_empty() and not rest.is_empty() else found


def _by_dimensions(rest: isl.Set) -> isl.Set:
    for variable in sets.variables(rest.get_space()):
        rest = rest.intersect(_equal(variable, _bound(rest, variable)))
    return rest


def _bound(of: isl.Set, variable: isl.Aff) -> int:
    for value in (of.min_val(variable), of.max_val(variable)):
        if value.is_int():
            return sets.number(value)
    return sets.number(variable.eval(of.sample_point()))


def first(of: isl.Set) -> tuple[int, ...]:
    """The lexicographically first element of a set without parameters, which must not be empty."""
    return sets.coordinates(lexmin(of).sample_point(), sets.size(of))


def at(of: isl.Set, params: dict[str, int]) -> isl.Set:
    """A set at given parameter values, without parameters."""
    return sets.fixed(of, params)


def image(of: isl.Set, function: isl.MultiAff, params: dict[str, int]) -> isl.Set:
    """The image, under a function at given parameter values, of a set without parameters."""
    return of.apply(sets.fixed_map(sets.graph(function), params))


def earliest(of: isl.Set, time: isl.MultiAff, params: dict[str, int]) -> tuple[int, ...]:
    """The element of least time (then the lexicographically first) of a set, at given parameter values."""
    return earliest_of(at(of, params), time, params)


def earliest_of(fixed: isl.Set, time: isl.MultiAff, params: dict[str, int]) -> tuple[int, ...]:
    """The element of least time (then the lexicographically first) of a set without parameters."""
    clock = sets.fixed_map(sets.graph(time), params)
    soonest = lexmin(fixed.apply(clock))
    return first(fixed.intersect(soonest.apply(clock.reverse())))


def singleton(space: isl.Space, coordinates: tuple[int, ...]) -> isl.Set:
    """The set of one element of a frame."""
    point = sets.universe(space)
    for variable, value in zip(sets.variables(space), coordinates, strict=True):
        point = point.intersect(_equal(variable, value))
    return point


def alone(like: isl.Set, coordinates: tuple[int, ...], params: dict[str, int]) -> isl.Set:
    """The set of one element, in the frame of another set, for given parameter values only (parameters are kept)."""
    return sets.at_params(singleton(like.get_space(), coordinates), params)


def evaluated(function: isl.MultiAff, coordinates: tuple[int, ...], params: dict[str, int]) -> tuple[int, ...]:
    """The value of a function at one element."""
    point = singleton(function.get_space().domain(), coordinates)
    return first(image(at(point, params), function, params))


def latest(of: isl.Set, time: isl.MultiAff, params: dict[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The greatest time in a set without parameters, and its element."""
    clock = sets.fixed_map(sets.graph(time), params)
    backwards = sets.negated(clock)
    last = lexmin(of.apply(backwards))
    when = tuple(-value for value in first(last))
    return when, first(of.intersect(last.apply(backwards.reverse())))
