"""Sets of points: restricted, projected, listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import islpy as isl

from tiramisu_py.sets.forms import greatest, parameter
from tiramisu_py.sets.frames import carrying, dim_names, integer, number, params, tuple_name, with_params

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param
_Union = TypeVar("_Union", isl.UnionSet, isl.UnionMap)
_Named = TypeVar("_Named", isl.Set, isl.Map)


def universe(space: isl.Space) -> isl.Set:
    """The universe of a frame."""
    return isl.Set.universe(space)


def empty(space: isl.Space) -> isl.Set:
    """The empty set of a frame."""
    return isl.Set.empty(space)


def as_set(of: isl.Set | isl.BasicSet) -> isl.Set:
    """A set or basic set as a set."""
    return of if isinstance(of, isl.Set) else of.to_set()


def named(of: isl.Set, name: str | None) -> isl.Set:
    """The set under another tuple name."""
    if name is None:
        return of.reset_tuple_id() if of.has_tuple_id() else of
    return of.set_tuple_name(name)


def with_dims(of: isl.Set, names: Iterable[str]) -> isl.Set:
    """The set with names for its dimensions."""
    for i, name in enumerate(names):
        of = of.set_dim_name(_SET, i, name)
    return of


def freed(of: isl.Set, position: int) -> isl.Set:
    """A set without its constraints on one dimension (eliminated, not projected out)."""
    name = of.get_tuple_name() if of.has_tuple_name() else None
    names = [of.get_dim_name(_SET, i) or f"i{i}" for i in range(of.dim(_SET))]
    wide = of.project_out(_SET, position, 1).insert_dims(_SET, position, 1)
    return with_dims(named(wide, name), names)


def within(aff: isl.Aff, low: int, end: int) -> isl.Set:
    """The elements of a frame where a form is at least `low` and less than `end`."""
    domain = aff.get_domain_space()
    least, most = (
        isl.Aff.val_on_domain_space(domain, integer(domain.get_ctx(), value)).to_pw_aff() for value in (low, end - 1)
    )
    form = aff.to_pw_aff()
    return as_set(form.ge_set(least)).intersect(as_set(form.le_set(most)))


def project_prefix(of: isl.Set, count: int) -> isl.Set:
    """The projection of a set onto its first `count` dimensions."""
    return of.project_out(_SET, count, of.dim(_SET) - count)


def fixed(of: isl.Set, values: Mapping[str, int]) -> isl.Set:
    """A set at given parameter values, without parameters."""
    for i, name in enumerate(params(of)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[name]))
    return of.project_out(_PARAM, 0, of.dim(_PARAM))


def at_params(of: isl.Set, values: Mapping[str, int]) -> isl.Set:
    """A set intersected with given parameter values; the parameters are kept."""
    for i, name in enumerate(params(of)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[name]))
    return of


def points(of: isl.Set) -> list[tuple[int, ...]]:
    """All elements of a finite set without parameters, in lexicographic order."""
    found: list[tuple[int, ...]] = []
    count = of.dim(_SET)
    of.foreach_point(carrying(lambda point: found.append(coordinates(point, count))))
    return sorted(found)


def coordinates(point: isl.Point, count: int) -> tuple[int, ...]:
    """The first `count` coordinates of a point."""
    return tuple(number(point.get_coordinate_val(_SET, i)) for i in range(count))


def param_values(point: isl.Point, names: Sequence[str]) -> dict[str, int]:
    """The parameters of a point, by name."""
    return {name: number(point.get_coordinate_val(_PARAM, i)) for i, name in enumerate(names)}


def in_context(of: isl.Set, context: isl.Context) -> isl.Set:
    """A set in another isl context: those of two contexts cannot be combined."""
    return isl.Set.read_from_str(context, str(of))


def largest(of: isl.Set, axis: int) -> isl.PwAff:
    """The largest coordinate of one dimension, as a function of the parameters."""
    return of.dim_max(axis)


def smallest_coordinate(of: isl.Set, axis: int) -> isl.PwAff:
    """The smallest coordinate of one dimension, as a function of the parameters."""
    return of.dim_min(axis)


def component_of(of: isl.Set, axis: int) -> isl.Set:
    """The projection of a set onto one dimension."""
    of = of.project_out(_SET, axis + 1, of.dim(_SET) - axis - 1)
    return of.project_out(_SET, 0, axis)


def is_bounded_at(of: isl.Set, axis: int) -> bool:
    """Whether one dimension is bounded, for all parameter values."""
    return bool(component_of(of, axis).is_bounded())


def interval(of: isl.Set, axis: int) -> tuple[int, int] | None:
    """The least and the largest coordinate of one dimension of a finite set without parameters, None if it is empty."""
    low, high = of.dim_min_val(axis), of.dim_max_val(axis)
    if not (low.is_int() and high.is_int()):
        return None
    return number(low), number(high)


def basic_sets(of: isl.Set) -> list[isl.Set]:
    """The convex pieces of a set, made disjoint."""
    found: list[isl.Set] = []
    of.make_disjoint().foreach_basic_set(carrying(lambda piece: found.append(piece.to_set())))
    return found


def has_divisions(of: isl.Set) -> bool:
    """Whether a set has integer divisions: for strides, or for the tile of a point."""
    return any(piece.dim(isl.dim_type.div) > 0 for piece in of.get_basic_sets())


def count_of_divisions(of: isl.Set) -> int:
    """The number of integer divisions in all pieces of a set: of what operations on it multiply."""
    return sum(int(piece.dim(isl.dim_type.div)) for piece in of.get_basic_sets())


def extended(of: isl.Set, space: isl.Space) -> isl.Set:
    """All elements of the frame `space` whose first coordinates are in a set of fewer dimensions."""
    added = space.dim(_SET) - of.dim(_SET)
    wide = of.add_dims(_SET, added) if added else of
    return with_dims(named(wide, tuple_name(space) or None), [name or "" for name in dim_names(space)])


def flat_product(a: isl.Set, b: isl.Set, name: str | None) -> isl.Set:
    """The pairs of elements of two sets, as one tuple."""
    return named(a.flat_product(b), name)


def has_lower_bound(of: isl.Set) -> bool:
    """Whether the first dimension of a set has a lower bound."""
    return bool(of.dim_has_any_lower_bound(_SET, 0))


def at_least_zero(space: isl.Space, name: str) -> isl.Set:
    """The parameter values for which one parameter is at least 0."""
    return as_set(parameter(space, name).to_pw_aff().nonneg_set()).params()


def nonnegative(space: isl.Space) -> isl.Set:
    """The parameter values with all parameters at least 0."""
    inside = isl.Set.universe(space.params())
    for i in range(inside.dim(_PARAM)):
        inside = inside.lower_bound_val(_PARAM, i, integer(space.get_ctx(), 0))
    return inside


def equalities(of: isl.Set) -> int:
    """The number of independent equations of a set: 0 for a set of full dimension."""
    return sum(1 for constraint in of.affine_hull().get_constraints() if constraint.is_equality())


def tied_axes(of: isl.Set) -> list[set[int]]:
    """The dimensions in each equation that holds for all points of a set."""
    every = [each for each in of.affine_hull().get_constraints() if each.is_equality()]
    return [{axis for axis in range(of.dim(_SET)) if each.involves_dims(_SET, axis, 1)} for each in every]


def thin_dimensions(of: isl.Set) -> int:
    """The number of dimensions in which a set is not longer than a constant, whatever the parameters are."""
    return sum(each is not None for each in lengths(of))


def lengths(of: isl.Set) -> list[int | None]:
    """The most values that a set has in each dimension, whatever the parameters are; None if they say how many."""
    return [_length(component_of(of, axis)) for axis in range(of.dim(_SET))]


def _length(line: isl.Set) -> int | None:
    longest = isl.Map.from_domain_and_range(line, line).deltas().dim_max_val(0)
    return number(longest) + 1 if longest.is_int() else None


def params_as_dims(of: isl.Set | isl.Map) -> isl.Set:
    """The parameter values for which a set or a relation is not empty, as a set of points without parameters."""
    values = isl.Set.from_params(of.params())
    return values.move_dims(_SET, 0, _PARAM, 0, values.dim(_PARAM))


def steps_of_params(of: isl.Set) -> dict[str, tuple[int, int]]:
    """The parameters that have only every n-th value: n, and the remainder of each value by n."""
    values = params_as_dims(of)
    found = dict[str, tuple[int, int]]()
    for position, name in enumerate(params(of)):
        alone = values.project_out(_SET, position + 1, values.dim(_SET) - position - 1).project_out(_SET, 0, position)
        info = alone.get_stride_info(0)
        step, offset = number(info.get_stride()), info.get_offset()
        if step > 1 and not alone.is_empty():
            found[name] = step, number(offset.get_constant_val()) % step
    return found


def largest_value(of: isl.Set, axis: int) -> int | None:
    """The largest coordinate of one dimension over all parameter values; None if it is unbounded or the set empty."""
    most = of.dim_max_val(axis)
    return number(most) if most.is_int() else None


def smallest_value(of: isl.Set, axis: int) -> int | None:
    """The least coordinate of one dimension over all parameter values; None if it is unbounded or the set empty."""
    found = at_any_params(of).dim_min_val(axis)
    return number(found) if found.is_int() else None


def most(form: isl.PwAff, of: isl.Set) -> int | None:
    """The greatest value of a form on a set over all parameter values; None if it is unbounded or the set empty."""
    return greatest(form.intersect_domain(of))


def with_params_below(of: isl.Set, end: int) -> isl.Set:
    """The elements of a set for parameters that are all less than a number."""
    for position in range(of.dim(_PARAM)):
        of = of.upper_bound_val(_PARAM, position, integer(of.get_ctx(), end - 1))
    return of


def with_more_params(of: _Named, names: Sequence[str]) -> _Named:
    """A set or a relation with additional, unconstrained parameters."""
    return of.align_params(with_params(of.get_space().params(), names))


def without_params(of: _Named, names: Sequence[str]) -> _Named:
    """A set or a relation with some parameters projected out."""
    for name in names:
        position = of.find_dim_by_name(_PARAM, name)
        if position >= 0:
            of = of.project_out(_PARAM, position, 1)
    return of


def without_union_params(of: _Union, names: Sequence[str]) -> _Union:
    """A union of sets or of maps with some parameters projected out."""
    for name in names:
        position = of.get_space().find_dim_by_name(_PARAM, name)
        if position >= 0:
            of = of.project_out(_PARAM, position, 1)
    return of


def dims_as_params(of: isl.Set, names: Sequence[str]) -> isl.Set:
    """A set of points as a set of parameter values: each dimension becomes the parameter of that name."""
    count = of.dim(_PARAM)
    for i in range(of.dim(_SET)):
        of = of.set_dim_name(_SET, i, names[i])
    return as_set(of.move_dims(_PARAM, count, _SET, 0, of.dim(_SET)).params())


def where_equal(of: isl.Set, form: isl.Aff, name: str) -> isl.Set:
    """The elements of a set (which has the parameter) at which a form equals a parameter."""
    return of.intersect(form.to_pw_aff().eq_set(parameter(of.get_space(), name).to_pw_aff()))


def param_between(of: isl.Set, name: str, low: int, high: int) -> isl.Set:
    """The elements of a set for values of a parameter from `low` to `high`."""
    position = of.find_dim_by_name(_PARAM, name)
    context = of.get_ctx()
    return of.lower_bound_val(_PARAM, position, integer(context, low)).upper_bound_val(
        _PARAM, position, integer(context, high)
    )


def with_sizes(of: isl.Set, sizes: Iterable[tuple[str, int]]) -> isl.Set:
    """The elements of a set (which has the parameters) for these parameter values."""
    for name, value in sizes:
        of = param_between(of, name, value, value)
    return of


def involved_params(of: isl.Set | isl.Map) -> list[str]:
    """The parameters on which a set or a relation depends, as it is written."""
    return [name for i, name in enumerate(params(of)) if of.involves_dims(_PARAM, i, 1)]


def at_any_params(of: isl.Set) -> isl.Set:
    """The elements that a set has for at least one parameter value, as a set without parameters."""
    return of.project_out(_PARAM, 0, of.dim(_PARAM))


def singleton(like: isl.Set, point: Sequence[int]) -> isl.Set:
    """One element of a frame."""
    found = isl.Set.universe(like.get_space())
    for i, value in enumerate(point):
        found = found.fix_val(_SET, i, integer(like.get_ctx(), value))
    return found


def with_inserted_dim(of: isl.Set, position: int) -> isl.Set:
    """A set with an unconstrained dimension inserted at a position; its tuple loses its name."""
    return named(of, None).insert_dims(_SET, position, 1)


def param_as_last_dim(of: isl.Set, name: str) -> isl.Set:
    """A set with a parameter as its last dimension; its tuple loses its name."""
    of, last = named(of, None), of.dim(_SET)
    position = of.find_dim_by_name(_PARAM, name)
    return of.insert_dims(_SET, last, 1) if position < 0 else of.move_dims(_SET, last, _PARAM, position, 1)


def with_zero(of: isl.Set) -> isl.Set:
    """A set with a last dimension that is 0; its tuple loses its name."""
    last = of.dim(_SET)
    return with_inserted_dim(of, last).fix_val(_SET, last, integer(of.get_ctx(), 0))


def constraints_at(of: isl.Set, axis: int) -> isl.Set:
    """The set defined by the constraints of a set that involve one dimension."""
    return of.drop_constraints_not_involving_dims(_SET, axis, 1)


def count(of: isl.Set) -> int:
    """The number of elements of a finite set without parameters."""
    return number(of.count_val())


def plain(of: isl.Set) -> isl.Set:
    """The set in as few pieces and constraints as isl finds."""
    return of.coalesce().detect_equalities().remove_redundancies()


def at_most(of: isl.Set, pieces: int) -> isl.Set:
    """A set, or a convex superset of it where it does not become one of so few pieces."""
    if of.n_basic_set() <= pieces:
        return of
    of = of.coalesce()
    return of if of.n_basic_set() <= pieces else hull(of)


def hull(of: isl.Set) -> isl.Set:
    """A convex superset of a set, defined by constraints that hold on all its pieces.

    Variables that only exist are dropped from several pieces: with three in each of five, isl does not end in ten
    minutes.
    """
    few = of if of.n_basic_set() == 1 else of.remove_unknown_divs()
    return as_set(few.unshifted_simple_hull())
