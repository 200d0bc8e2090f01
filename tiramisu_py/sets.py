"""isl objects with named dimensions: the only module that addresses dimensions by number.

Everything is built from objects, never from text. A *frame* is the space of one tuple: its name, the names of its
dimensions, over all parameters of the function. Affine expressions live on a frame; maps are built from lists of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

_SET = isl.dim_type.set
_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_PARAM = isl.dim_type.param
_DIV = isl.dim_type.div

Piecewise = isl.PwAff


def frame(context: isl.Context, params: Sequence[str], name: str | None, dims: Sequence[str]) -> isl.Space:
    """The space of the tuple ``name[dims]`` over `params`."""
    space = isl.Space.create_from_names(context, set=list(dims), params=list(params))
    return space if name is None else space.set_tuple_name(_SET, name)


def sized_frame(like: isl.Space, name: str | None, size: int) -> isl.Space:
    """A tuple of `size` unnamed dimensions over the parameters of `like`."""
    space = like.params().add_unnamed_tuple_ui(size)
    return space if name is None else space.set_tuple_name(_SET, name)


def size(of: isl.Set | isl.Space) -> int:
    """How many dimensions a set has."""
    return int(of.dim(_SET))


def in_size(of: isl.Map | isl.MultiAff) -> int:
    """How many input dimensions a map has."""
    return int(of.dim(_IN))


def out_size(of: isl.Map | isl.MultiAff) -> int:
    """How many output dimensions a map has."""
    return int(of.dim(_OUT))


def tuple_name(of: isl.Set | isl.Space) -> str:
    """The name of a set's tuple, or an empty string."""
    space = of.get_space() if isinstance(of, isl.Set) else of
    return (space.get_tuple_name(_SET) if space.has_tuple_name(_SET) else None) or ""


def in_name(of: isl.Map) -> str:
    """The name of a map's input tuple, or an empty string."""
    return (of.get_tuple_name(_IN) if of.has_tuple_name(_IN) else None) or ""


def out_name(of: isl.Map) -> str:
    """The name of a map's output tuple, or an empty string."""
    return (of.get_tuple_name(_OUT) if of.has_tuple_name(_OUT) else None) or ""


def params(of: isl.Set | isl.BasicSet | isl.Map | isl.Space) -> list[str]:
    """The names of the parameters."""
    return [of.get_dim_name(_PARAM, i) or "" for i in range(of.dim(_PARAM))]


def dim_names(of: isl.Set | isl.Space) -> list[str | None]:
    """The names of a set's dimensions, None where one has none."""
    return [of.get_dim_name(_SET, i) for i in range(of.dim(_SET))]


# -- affine expressions on a frame


def variables(space: isl.Space) -> list[isl.Aff]:
    """The dimensions of a frame, each as an affine expression on it."""
    local = isl.LocalSpace.from_space(space)
    return [isl.Aff.var_on_domain(local, _SET, i) for i in range(space.dim(_SET))]


def parameter(space: isl.Space, name: str) -> isl.Aff:
    """A parameter as an affine expression on a frame."""
    position = space.find_dim_by_name(_PARAM, name)
    if position < 0:
        raise KeyError(name)
    return isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _PARAM, position)


def constant(space: isl.Space, value: int) -> isl.Aff:
    """A constant as an affine expression on a frame."""
    return isl.Aff.val_on_domain_space(space, integer(space.get_ctx(), value))


def integer(context: isl.Context, value: int) -> isl.Val:
    """An isl integer of any size."""
    if -(2**31) <= value < 2**31:
        return isl.Val.int_from_si(context, value)
    return isl.Val.read_from_str(context, str(value))


def is_constant(aff: isl.Aff) -> bool:
    """Whether an affine expression is an integer constant."""
    return bool(aff.is_cst()) and bool(aff.get_constant_val().is_int())


def constant_of(aff: isl.Aff) -> int:
    """The value of a constant affine expression."""
    return int(aff.get_constant_val().to_python())


def floor_div(aff: isl.Aff, divisor: int) -> isl.Aff:
    """``floor(aff / divisor)``, divisor > 0."""
    return aff.scale_down_val(integer(aff.get_ctx(), divisor)).floor()


def modulo(aff: isl.Aff, divisor: int) -> isl.Aff:
    """``aff mod divisor``, from 0 to divisor - 1."""
    return aff.mod_val(integer(aff.get_ctx(), divisor))


def scaled(aff: isl.Aff, factor: int) -> isl.Aff:
    """``factor * aff``."""
    return aff.scale_val(integer(aff.get_ctx(), factor))


def plus(aff: isl.Aff, value: int) -> isl.Aff:
    """``aff + value``."""
    return aff.add_constant_val(integer(aff.get_ctx(), value))


# -- functions: lists of affine expressions


def function(space: isl.Space, name: str | None, outputs: Sequence[isl.Aff]) -> isl.MultiAff:
    """The function from the frame `space` to ``name[outputs]``."""
    context = space.get_ctx()
    listed = isl.AffList.alloc(context, len(outputs))
    for aff in outputs:
        listed = listed.add(aff)
    target = space.map_from_domain_and_range(sized_frame(space, name, len(outputs)))
    return isl.MultiAff.from_aff_list(target, listed)


def outputs(of: isl.MultiAff) -> list[isl.Aff]:
    """The components of a function."""
    return [of.get_at(i) for i in range(of.dim(_OUT))]


def identity(space: isl.Space) -> isl.MultiAff:
    """The function that maps each element of a frame to itself."""
    return isl.MultiAff.identity_on_domain_space(space)


def compose(inner: isl.MultiAff, outer: isl.MultiAff) -> isl.MultiAff:
    """``x -> outer(inner(x))``; tuple names in between need not match."""
    domain = outer.get_space().domain()
    return outer.pullback_multi_aff(_retargeted(inner, domain))


def _retargeted(of: isl.MultiAff, domain: isl.Space) -> isl.MultiAff:
    if domain.has_tuple_name(_SET):
        return of.set_tuple_name(_OUT, domain.get_tuple_name(_SET))
    return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of


def renamed(of: isl.MultiAff, name: str | None) -> isl.MultiAff:
    """The same function into the tuple `name`."""
    if name is None:
        return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of
    return of.set_tuple_name(_OUT, name)


def from_frame(of: isl.MultiAff, space: isl.Space) -> isl.MultiAff:
    """The same function on another frame of as many dimensions (a renamed tuple)."""
    return of.pullback_multi_aff(_retargeted(identity(space), of.get_space().domain()))


def prefix(of: isl.MultiAff, count: int) -> isl.MultiAff:
    """The first `count` components of a function (its tuple loses its name)."""
    return renamed(of.drop_dims(_OUT, count, of.dim(_OUT) - count), None)


def joined(*functions: isl.MultiAff) -> isl.MultiAff:
    """The components of several functions on one frame, one after another."""
    space = functions[0].get_space().domain()
    return function(space, None, [aff for f in functions for aff in outputs(f)])


def graph(of: isl.MultiAff, domain: isl.Set | None = None) -> isl.Map:
    """A function as a map, on `domain` only if one is given."""
    relation = isl.Map.from_multi_aff(of)
    return relation if domain is None else relation.intersect_domain(domain)


# -- sets and maps


def universe(space: isl.Space) -> isl.Set:
    """All elements of a frame."""
    return isl.Set.universe(space)


def empty(space: isl.Space) -> isl.Set:
    """No element of a frame."""
    return isl.Set.empty(space)


def as_set(of: isl.Set | isl.BasicSet) -> isl.Set:
    """A set, whatever islpy gave."""
    return of if isinstance(of, isl.Set) else of.to_set()


def as_map(of: isl.Map | isl.BasicMap) -> isl.Map:
    """A map, whatever islpy gave."""
    return of if isinstance(of, isl.Map) else of.to_map()


def named(of: isl.Set, name: str | None) -> isl.Set:
    """The same set under another tuple name."""
    if name is None:
        return of.reset_tuple_id() if of.has_tuple_id() else of
    return of.set_tuple_name(name)


def with_dims(of: isl.Set, names: Iterable[str]) -> isl.Set:
    """The same set with names for its dimensions."""
    for i, name in enumerate(names):
        of = of.set_dim_name(_SET, i, name)
    return of


def project_prefix(of: isl.Set, count: int) -> isl.Set:
    """The projection of a set onto its first `count` dimensions."""
    return of.project_out(_SET, count, of.dim(_SET) - count)


def project_range_prefix(of: isl.Map, count: int) -> isl.Map:
    """A map whose images keep their first `count` dimensions."""
    return of.project_out(_OUT, count, of.dim(_OUT) - count)


def equal_prefix(of: isl.Map, count: int) -> isl.Map:
    """The pairs of a relation between like tuples that agree in their first `count` dimensions."""
    for i in range(count):
        of = of.equate(_IN, i, _OUT, i)
    return of


def less_at(of: isl.Map, position: int) -> isl.Map:
    """The pairs of a relation between like tuples whose input is less in dimension `position`."""
    return of.order_lt(_IN, position, _OUT, position)


def fixed(of: isl.Set, values: Mapping[str, int]) -> isl.Set:
    """A set at given parameter values, without parameters."""
    for i, name in enumerate(params(of)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[name]))
    return of.project_out(_PARAM, 0, of.dim(_PARAM))


def fixed_map(of: isl.Map, values: Mapping[str, int]) -> isl.Map:
    """A map at given parameter values, without parameters."""
    for i, name in enumerate(params(of)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[name]))
    return of.project_out(_PARAM, 0, of.dim(_PARAM))


def coordinates(point: isl.Point, count: int) -> tuple[int, ...]:
    """The first `count` coordinates of a point."""
    return tuple(int(point.get_coordinate_val(_SET, i).to_python()) for i in range(count))


def param_values(point: isl.Point, names: Sequence[str]) -> dict[str, int]:
    """The parameters of a point, by name."""
    return {name: int(point.get_coordinate_val(_PARAM, i).to_python()) for i, name in enumerate(names)}


def points(of: isl.Set) -> list[tuple[int, ...]]:
    """All elements of a finite set without parameters, in lexicographic order."""
    found: list[tuple[int, ...]] = []
    count = of.dim(_SET)
    of.foreach_point(carrying(lambda point: found.append(coordinates(point, count))))
    return sorted(found)


def carrying(callback: Callable[..., None]) -> Callable[..., None]:
    """The callback, unchanged: one named place for what isl calls back into; a callback must not raise."""
    return callback


def least(aff: isl.PwAff | isl.Aff) -> isl.Aff | None:
    """The single affine expression of a piecewise one, or None where it has several pieces."""
    if isinstance(aff, isl.Aff):
        return aff
    merged = aff.coalesce()
    return merged.as_aff() if merged.isa_aff() else None


def largest(of: isl.Set, axis: int) -> isl.PwAff:
    """The largest coordinate of one dimension, as a function of the parameters."""
    return of.dim_max(axis)


def smallest_coordinate(of: isl.Set, axis: int) -> isl.PwAff:
    """The smallest coordinate of one dimension, as a function of the parameters."""
    return of.dim_min(axis)


def out_dim_names(of: isl.Map) -> list[str | None]:
    """The names of a map's output dimensions, None where one has none."""
    return [of.get_dim_name(_OUT, i) if of.has_dim_name(_OUT, i) else None for i in range(of.dim(_OUT))]


def aligned_map(of: isl.Map, domain: isl.Space, out: str | None) -> isl.Map:
    """A map given as text, on the frame `domain` and into the tuple `out`, with all parameters of the frame."""
    of = of.align_params(domain.params())
    of = of.set_tuple_name(_IN, tuple_name(domain)) if tuple_name(domain) else of
    if out is None:
        return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of
    return of.set_tuple_name(_OUT, out)


def as_single_function(of: isl.Map) -> isl.MultiAff | None:
    """A single-valued map as one quasi-affine function, or None where it needs several pieces."""
    pieces = isl.PwMultiAff.from_map(of).coalesce()
    found: list[isl.MultiAff] = []
    pieces.foreach_piece(carrying(lambda domain, f: found.append(f)))
    return found[0] if len(found) == 1 else None


def lower_bounds(of: isl.Map) -> list[isl.Aff]:
    """Affine candidates for the least image of a map with one output dimension, as functions of its input."""
    found: list[isl.Aff] = []
    pieces = of.min_multi_pw_aff().get_at(0)
    pieces.foreach_piece(carrying(lambda domain, aff: found.append(aff)))
    return found


def span_above(of: isl.Map, lower: isl.Aff) -> tuple[int, int] | None:
    """The least and largest difference between the images of a one-dimensional map and `lower`; None if unbounded."""
    moved = of.sum(isl.Map.from_aff(lower.neg())).range()
    least_, most = moved.dim_min_val(0), moved.dim_max_val(0)
    if not (least_.is_int() and most.is_int()):
        return None
    return int(least_.to_python()), int(most.to_python())


def component(of: isl.Map, axis: int) -> isl.Map:
    """A map with one output dimension, the others projected out."""
    of = of.project_out(_OUT, axis + 1, of.dim(_OUT) - axis - 1)
    return of.project_out(_OUT, 0, axis)


def flat_pairs(of: isl.Map, name: str) -> isl.Set:
    """The pairs of a map as one set ``name[input dimensions, output dimensions]``."""
    return of.wrap().flatten().set_tuple_name(name)


def on_frame(aff: isl.Aff, space: isl.Space) -> isl.Aff:
    """An affine form of the parameters alone, on the frame `space`."""
    if not aff.get_domain_space().is_params():
        aff = aff.project_domain_on_params()
    return aff.to_pw_aff().insert_domain(space).as_aff()


def without_dim_names(of: isl.MultiAff) -> isl.MultiAff:
    """The same function on a frame of unnamed dimensions."""
    return from_frame(of, sized_frame(of.get_space(), None, of.dim(_IN)))


# -- for the proof


def params_as_dims(of: isl.Set | isl.Map) -> isl.Set:
    """The parameter values for which a set or a relation is not empty, as a set of points without parameters."""
    values = isl.Set.from_params(of.params())
    return values.move_dims(_SET, 0, _PARAM, 0, values.dim(_PARAM))


def preimage(of: isl.Set, function: isl.MultiAff) -> isl.Set:
    """The elements that a function sends into a set."""
    return of.preimage_multi_aff(function)


def parameter_constraints(of: isl.BasicSet) -> list[tuple[bool, dict[str, int], int]] | None:
    """The constraints of a set of parameter values: whether it is an equation, the coefficients, and the constant.

    Each says ``sum(coefficient * parameter) + constant >= 0`` (or ``= 0``); None where divisions occur.
    """
    if of.dim(isl.dim_type.div):
        return None
    found: list[tuple[bool, dict[str, int], int]] = []
    names = params(of)
    for constraint in of.get_constraints():
        values = [int(constraint.get_coefficient_val(_PARAM, i).to_python()) for i in range(len(names))]
        factors = {name: value for name, value in zip(names, values, strict=True) if value}
        found.append((constraint.is_equality(), factors, int(constraint.get_constant_val().to_python())))
    return found


# -- constraints as plain numbers


def is_bounded_at(of: isl.Set, axis: int) -> bool:
    """Whether one dimension has finitely many coordinates, at any parameter values."""
    return bool(component_of(of, axis).is_bounded())


def component_of(of: isl.Set, axis: int) -> isl.Set:
    """The projection of a set onto one dimension."""
    of = of.project_out(_SET, axis + 1, of.dim(_SET) - axis - 1)
    return of.project_out(_SET, 0, axis)


def interval(of: isl.Set, axis: int) -> tuple[int, int] | None:
    """The least and the largest coordinate of one dimension of a finite set without parameters, None if it is empty."""
    low, high = of.dim_min_val(axis), of.dim_max_val(axis)
    if not (low.is_int() and high.is_int()):
        return None
    return int(low.to_python()), int(high.to_python())


#: Coefficients of the dimensions and of the floors so far, then the constant.
Row = tuple[tuple[int, ...], int]


def floors_and_rows(of: isl.Set) -> list[tuple[list[tuple[Row, int]], list[tuple[Row, bool]]]]:
    """The basic sets of a set without parameters, as numbers.

    Each is a list of floors ``(row, divisor)``, which extend the dimensions one after another by
    ``floor(row / divisor)``, and a list of constraints ``(row, is equality)``: ``row == 0`` or ``row >= 0``.
    """
    found: list[tuple[list[tuple[Row, int]], list[tuple[Row, bool]]]] = []
    for basic in of.compute_divs().get_basic_sets():
        listed = basic.get_constraints()
        floors = _floors(listed[0]) if listed else []
        found.append((floors, [(_constraint_row(c), bool(c.is_equality())) for c in listed]))
    return found


def _constraint_row(of: isl.Constraint) -> Row:
    dims = [of.get_coefficient_val(_SET, i) for i in range(of.dim(_SET))]
    divs = [of.get_coefficient_val(_DIV, i) for i in range(of.dim(_DIV))]
    return tuple(int(v.to_python()) for v in dims + divs), int(of.get_constant_val().to_python())


def _floors(of: isl.Constraint) -> list[tuple[Row, int]]:
    return [_floor(of.get_div(i), i) for i in range(of.dim(_DIV))]


def _floor(aff: isl.Aff, before: int) -> tuple[Row, int]:
    divisor = aff.get_denominator_val()
    dims = [aff.get_coefficient_val(_IN, i) for i in range(aff.dim(_IN))]
    divs = [aff.get_coefficient_val(_DIV, i) for i in range(before)]
    coefficients = tuple(int(v.mul(divisor).to_python()) for v in dims + divs)
    return (coefficients, int(aff.get_constant_val().mul(divisor).to_python())), int(divisor.to_python())


def no_pairs(domain: isl.Space, target: isl.Space) -> isl.Map:
    """The empty relation between two frames."""
    return isl.Map.empty(domain.map_from_domain_and_range(target))


def range_named(of: isl.Map, name: str | None) -> isl.Map:
    """The same relation into the tuple `name`."""
    if name is None:
        return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of
    return of.set_tuple_name(_OUT, name)


def extended_frame(space: isl.Space, extra: int) -> isl.Space:
    """A nameless frame with `extra` more dimensions than `space`."""
    return sized_frame(space, None, space.dim(_SET) + extra)


def map_of_forms(forms: Sequence[isl.PwAff], space: isl.Space, name: str) -> isl.Map:
    """The map from a frame to ``name[forms]``, where each form may be piecewise."""
    context = space.get_ctx()
    listed = isl.PwAffList.alloc(context, len(forms))
    for form in forms:
        listed = listed.add(form)
    target = space.map_from_domain_and_range(sized_frame(space, name, len(forms)))
    return isl.MultiPwAff.from_pw_aff_list(target, listed).as_map()


@dataclass(frozen=True)
class Terms:
    """A quasi-affine form, taken apart: ``(constant + dims + params + divs) / denominator``, all coefficients integers.

    Each of `divs` is a coefficient with the form under the floor.
    """

    denominator: int
    constant: int
    dims: tuple[int, ...]
    params: tuple[tuple[int, str], ...]
    divs: tuple[tuple[int, isl.Aff], ...]


def terms(aff: isl.Aff) -> Terms:
    """The coefficients of a quasi-affine form."""
    denominator = aff.get_denominator_val()

    def whole(value: isl.Val) -> int:
        return int(value.mul(denominator).to_python())

    def coefficients(kind: isl.dim_type) -> list[int]:
        return [whole(aff.get_coefficient_val(kind, i)) for i in range(aff.dim(kind))]

    names = (aff.get_dim_name(_PARAM, i) or "" for i in range(aff.dim(_PARAM)))
    kept = tuple((c, name) for c, name in zip(coefficients(_PARAM), names, strict=True) if c)
    divs = tuple((c, aff.get_div(i)) for i, c in enumerate(coefficients(isl.dim_type.div)) if c)
    return Terms(
        int(denominator.to_python()), whole(aff.get_constant_val()), tuple(coefficients(_IN)), kept, divs
    )


def is_identity(of: isl.MultiAff) -> bool:
    """Whether each component of a function is its own dimension, as far as they go."""
    dims = variables(of.get_space().domain())
    found = outputs(of)
    return len(found) <= len(dims) and all(a.plain_is_equal(b) for a, b in zip(found, dims, strict=False))


def basic_sets(of: isl.Set) -> list[isl.Set]:
    """The convex pieces of a set, made disjoint."""
    found: list[isl.Set] = []
    of.make_disjoint().foreach_basic_set(carrying(lambda piece: found.append(piece.to_set())))
    return found


def project_domain_prefix(of: isl.Map, count: int, name: str) -> isl.Map:
    """A map whose inputs keep their first `count` dimensions, in the tuple `name`."""
    return of.project_out(_IN, count, of.dim(_IN) - count).set_tuple_name(_IN, name)


def greater_at(of: isl.Map, position: int) -> isl.Map:
    """The pairs of a relation between like tuples whose input is greater in dimension `position`."""
    return of.order_gt(_IN, position, _OUT, position)


def equal_at(of: isl.Map, position: int) -> isl.Map:
    """The pairs of a relation between like tuples that agree in dimension `position`."""
    return of.equate(_IN, position, _OUT, position)


# -- domains from smaller domains


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


def constraints(of: isl.Set) -> list[tuple[isl.Aff, bool]]:
    """The constraints of a convex set of parameters: forms that are at least 0, or (True) equal to 0."""
    found: list[tuple[isl.Aff, bool]] = []
    for basic in of.compute_divs().detect_equalities().remove_redundancies().get_basic_sets():
        found += [(c.get_aff(), bool(c.is_equality())) for c in basic.get_constraints()]
    return found


def at_params(of: isl.Set, values: Mapping[str, int]) -> isl.Set:
    """A set at given parameter values, which stay parameters."""
    for i, name in enumerate(params(of)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[name]))
    return of


def least_distance(of: isl.Map, position: int) -> int | None:
    """The least of ``output - input`` in one dimension over all pairs and parameters; None where there is none."""
    deltas = of.deltas()
    deltas = deltas.project_out(_PARAM, 0, deltas.dim(_PARAM))
    least = deltas.dim_min_val(position)
    return int(least.to_python()) if least.is_int() else None


def shifted_out(of: isl.Map, position: int, by: int) -> isl.Map:
    """A map whose images are moved by a constant in one dimension."""
    space = of.get_space().range()
    moved = [plus(aff, by) if i == position else aff for i, aff in enumerate(variables(space))]
    return of.apply_range(isl.Map.from_multi_aff(function(space, None, moved)))


def no_pair(of: isl.Map) -> isl.Map:
    """The empty relation between the tuples of another."""
    return isl.Map.empty(of.get_space())


def equalities(of: isl.Set) -> int:
    """How many independent equations hold on a set: 0 for one of full dimension."""
    return sum(1 for constraint in of.affine_hull().get_constraints() if constraint.is_equality())


def nonnegative(space: isl.Space) -> isl.Set:
    """The parameter values that are all at least 0."""
    inside = isl.Set.universe(space.params())
    for i in range(inside.dim(_PARAM)):
        inside = inside.lower_bound_val(_PARAM, i, integer(space.get_ctx(), 0))
    return inside


def negated(of: isl.Map) -> isl.Map:
    """A map with every output coordinate negated: its lexicographic minimum is the maximum of the map."""
    return of.neg()


def is_square(of: isl.MultiAff) -> bool:
    """Whether a function has as many components as dimensions."""
    return int(of.dim(_IN)) == int(of.dim(_OUT))
