"""Relations between tuples: prefixes, distances, boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tiramisu_py.sets.affine_functions import function, graph, identity
from tiramisu_py.sets.domains import coordinates
from tiramisu_py.sets.forms import constant, modulo, plus, variables
from tiramisu_py.sets.frames import carrying, integer, number, params, sized_frame, tuple_name

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_PARAM = isl.dim_type.param

#: The number of pieces from which coalescing pays: later operations multiply the pieces.
_MANY = 8


def as_map(of: isl.Map | isl.BasicMap) -> isl.Map:
    """A map or basic map as a map."""
    return of if isinstance(of, isl.Map) else of.to_map()


def project_range_prefix(of: isl.Map, count: int) -> isl.Map:
    """A map whose images keep their first `count` dimensions."""
    return of.project_out(_OUT, count, of.dim(_OUT) - count)


def project_domain_prefix(of: isl.Map, count: int, name: str) -> isl.Map:
    """A map whose inputs keep their first `count` dimensions, in the tuple `name`."""
    return of.project_out(_IN, count, of.dim(_IN) - count).set_tuple_name(_IN, name)


def equal_prefix(of: isl.Map, count: int) -> isl.Map:
    """The pairs of a relation between like tuples that agree in their first `count` dimensions."""
    for i in range(count):
        of = of.equate(_IN, i, _OUT, i)
    return of


def without(of: isl.Map, others: isl.Map) -> isl.Map:
    """The pairs of a relation that are not in another one of many pieces, most of which have nothing to do with it."""
    return of.subtract(others.intersect(of).coalesce())


def less_at(of: isl.Map, position: int) -> isl.Map:
    """The pairs of a relation between like tuples whose input is less in dimension `position`."""
    return of.order_lt(_IN, position, _OUT, position)


def greater_at(of: isl.Map, position: int) -> isl.Map:
    """The pairs of a relation between like tuples whose input is greater in dimension `position`."""
    return of.order_gt(_IN, position, _OUT, position)


def near_at(of: isl.Map, position: int, distance: int) -> isl.Map:
    """The pairs of a relation between like tuples that are less than `distance` apart in dimension `position`."""
    space = of.get_space()
    near = isl.Map.universe(space)
    for sign in (1, -1):
        apart = isl.Constraint.alloc_inequality(isl.LocalSpace.from_space(space))
        apart = apart.set_coefficient_val(_IN, position, integer(of.get_ctx(), sign))
        apart = apart.set_coefficient_val(_OUT, position, integer(of.get_ctx(), -sign))
        near = near.add_constraint(apart.set_constant_val(integer(of.get_ctx(), distance - 1)))
    return of.intersect(near)


def equal_at(of: isl.Map, position: int) -> isl.Map:
    """The pairs of a relation between like tuples that agree in dimension `position`."""
    return of.equate(_IN, position, _OUT, position)


def ahead_at(of: isl.Map, position: int, other: int, distance: int) -> isl.Map:
    """The pairs of a relation whose dimension `other` of the image is that of the argument at `position`, and so much
    more.
    """
    equal = isl.Constraint.alloc_equality(isl.LocalSpace.from_space(of.get_space()))
    for side, place, sign in ((_OUT, other, 1), (_IN, position, -1)):
        equal = equal.set_coefficient_val(side, place, integer(of.get_ctx(), sign))
    equal = equal.set_constant_val(integer(of.get_ctx(), -distance))
    return of.intersect(isl.Map.universe(of.get_space()).add_constraint(equal))


def ordered_at(space: isl.Space, position: int, other: int) -> isl.Map:
    """The pairs of a space whose dimension `position` is at most the dimension `other` of the image."""
    return isl.Map.universe(space).order_le(_IN, position, _OUT, other)


def fixed_map(of: isl.Map, values: Mapping[str, int]) -> isl.Map:
    """A map at given parameter values, without parameters."""
    for i, name in enumerate(params(of)):
        of = of.fix_val(_PARAM, i, integer(of.get_ctx(), values[name]))
    return of.project_out(_PARAM, 0, of.dim(_PARAM))


def aligned_map(of: isl.Map, domain: isl.Space, out: str | None) -> isl.Map:
    """A map given as text, on the frame `domain` and into the tuple `out`, with all parameters of the frame."""
    of = of.align_params(domain.params())
    of = of.set_tuple_name(_IN, tuple_name(domain)) if tuple_name(domain) else of
    if out is None:
        return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of
    return of.set_tuple_name(_OUT, out)


def lower_bounds(of: isl.Map) -> list[isl.Aff]:
    """Affine candidates for the least image of a map with one output dimension, as functions of its input.

    None where the map has no least image.
    """
    found: list[isl.Aff] = []
    try:
        pieces = of.min_multi_pw_aff().get_at(0)
    except isl.Error:
        return []
    pieces.foreach_piece(carrying(lambda domain, aff: found.append(aff)))
    return found


def span_above(of: isl.Map, lower: isl.Aff) -> tuple[int, int] | None:
    """The least and largest difference between the images of a one-dimensional map and `lower`; None if unbounded."""
    moved = of.sum(isl.Map.from_aff(lower.neg())).range()
    least_, most = moved.dim_min_val(0), moved.dim_max_val(0)
    if not (least_.is_int() and most.is_int()):
        return None
    return number(least_), number(most)


def never_below(of: isl.Map, lower: isl.Aff) -> bool:
    """Whether no image of a one-dimensional map is less than `lower` of its input."""
    moved = of.sum(isl.Map.from_aff(lower.neg())).range()
    least_ = moved.dim_min_val(0)
    return bool(least_.is_nonneg())


def component(of: isl.Map, axis: int) -> isl.Map:
    """A map with one output dimension, the others projected out."""
    of = of.project_out(_OUT, axis + 1, of.dim(_OUT) - axis - 1)
    return of.project_out(_OUT, 0, axis)


def flat_pairs(of: isl.Map, name: str) -> isl.Set:
    """The pairs of a map as one set ``name[input dimensions, output dimensions]``."""
    return of.wrap().flatten().set_tuple_name(name)


def freed_input(of: isl.Map, position: int) -> isl.Map:
    """A relation without its constraints on one input dimension (eliminated, not projected out)."""
    name = of.get_tuple_name(_IN) if of.has_tuple_name(_IN) else None
    wide = of.project_out(_IN, position, 1).insert_dims(_IN, position, 1)
    return wide if name is None else wide.set_tuple_name(_IN, name)


def no_pairs(domain: isl.Space, target: isl.Space) -> isl.Map:
    """The empty relation between two frames."""
    return isl.Map.empty(domain.map_from_domain_and_range(target))


def no_pair(of: isl.Map) -> isl.Map:
    """The empty relation between the tuples of a given relation."""
    return isl.Map.empty(of.get_space())


def range_named(of: isl.Map, name: str | None) -> isl.Map:
    """The relation into the tuple `name`."""
    if name is None:
        return of.reset_tuple_id(_OUT) if of.has_tuple_id(_OUT) else of
    return of.set_tuple_name(_OUT, name)


def least_distance(of: isl.Map, position: int) -> int | None:
    """The minimum of ``output - input`` in one dimension over all pairs and parameters; None if there is none."""
    deltas = of.deltas()
    deltas = deltas.project_out(_PARAM, 0, deltas.dim(_PARAM))
    least = deltas.dim_min_val(position)
    return number(least) if least.is_int() else None


def shifted_out(of: isl.Map, position: int, by: int) -> isl.Map:
    """A map whose images are moved by a constant in one dimension."""
    space = of.get_space().range()
    moved = [plus(aff, by) if i == position else aff for i, aff in enumerate(variables(space))]
    return of.apply_range(isl.Map.from_multi_aff(function(space, None, moved)))


def in_few_pieces(of: isl.Map) -> isl.Map:
    """The relation, coalesced if it has many pieces."""
    return of.coalesce() if of.n_basic_map() > _MANY else of


def skewed(of: isl.Map, outer: int, inner: int, by: int) -> isl.Map:
    """A relation between like tuples after ``x[inner] += by * x[outer]`` on both sides."""
    space = of.get_space().domain()
    moved = variables(space)
    moved[inner] = moved[inner].add(moved[outer].scale_val(integer(space.get_ctx(), by)))
    by_both = isl.Map.from_multi_aff(function(space, None, moved))
    return of.apply_domain(by_both).apply_range(by_both)


def negated(of: isl.Map) -> isl.Map:
    """A map with every output coordinate negated: its lexicographic minimum is the maximum of the map."""
    return of.neg()


def map_of_forms(forms: Sequence[isl.PwAff], space: isl.Space, name: str | None) -> isl.Map:
    """The map from a frame to ``name[forms]``, where each form may be piecewise."""
    context = space.get_ctx()
    listed = isl.PwAffList.alloc(context, len(forms))
    for form in forms:
        listed = listed.add(form)
    target = space.map_from_domain_and_range(sized_frame(space, name, len(forms)))
    return isl.MultiPwAff.from_pw_aff_list(target, listed).as_map()


def component_bounds(of: isl.Map) -> tuple[list[isl.PwAff], list[isl.PwAff]]:
    """The least and the largest image of a map in each output dimension, as functions of its input."""
    low, high = of.min_multi_pw_aff(), of.max_multi_pw_aff()
    count = of.dim(_OUT)
    return [low.get_at(i) for i in range(count)], [high.get_at(i) for i in range(count)]


def box(lows: Sequence[isl.PwAff], highs: Sequence[isl.PwAff], domain: isl.Space) -> isl.Map:
    """The relation from inputs to all the points between two functions of them, in each dimension."""
    result = isl.Map.from_domain_and_range(
        isl.Set.universe(domain), isl.Set.universe(domain.params().add_unnamed_tuple_ui(0))
    )
    for low, high in zip(lows, highs, strict=True):
        above = _from(isl.Map.from_pw_aff(low), False)
        result = result.flat_range_product(above.intersect(_from(isl.Map.from_pw_aff(high), True)))
    return result


def _from(of: isl.Map, down: bool) -> isl.Map:
    """The relation from inputs to all numbers not below (or not above) the image of a one-dimensional map."""
    line = of.get_space().range()
    return of.apply_range(isl.Map.lex_ge(line) if down else isl.Map.lex_le(line))


def out_parts(of: isl.Map, first: int, count: int) -> isl.Map:
    """A map with its images projected onto `count` dimensions from `first` on."""
    of = of.project_out(_OUT, first + count, of.dim(_OUT) - first - count)
    return of.project_out(_OUT, 0, first)


def on_line(of: isl.PwAff) -> isl.Set:
    """The values of a function of parameters and inputs, as a set of numbers."""
    return isl.Map.from_pw_aff(of).range()


def hull_of_pairs(of: isl.Map) -> isl.Map:
    """A convex superset of a relation, defined by constraints that hold on all its pieces."""
    return as_map(of.unshifted_simple_hull())


def basic_maps(of: isl.Map) -> list[isl.Map]:
    """The convex pieces of a relation; they may overlap."""
    return [piece.to_map() for piece in of.get_basic_maps()]


def difference(a: isl.Map, b: isl.Map) -> isl.Map:
    """``x -> y - z`` for the images y of one relation and z of another."""
    return a.sum(b.neg())


def pieces_of(of: isl.PwAff) -> list[isl.Set]:
    """The domains of the pieces of a piecewise form."""
    found: list[isl.Set] = []
    of.coalesce().foreach_piece(carrying(lambda domain, aff: found.append(domain)))
    return found


def with_prefix(of: isl.Set, count: int, name: str) -> isl.Map:
    """``name[first coordinates] -> point`` for the points of a set."""
    space = of.get_space()
    first = function(space, name, variables(space)[:count])
    return isl.Map.from_multi_aff(first).intersect_domain(of).reverse()


def leading_as_params(of: isl.Map, names: Sequence[str]) -> isl.Map:
    """A relation whose first input coordinates are parameters of these names, and no longer inputs."""
    count = of.dim(_PARAM)
    of = of.reset_tuple_id(_IN) if of.has_tuple_id(_IN) else of
    for position, name in enumerate(names):
        of = of.set_dim_name(_IN, position, name)
    return of.move_dims(_PARAM, count, _IN, 0, len(names))


def domain_named(of: isl.Map, name: str | None) -> isl.Map:
    """The relation from the tuple `name`."""
    if not name:
        return of.reset_tuple_id(_IN) if of.has_tuple_id(_IN) else of
    return of.set_tuple_name(_IN, name)


def with_inputs(of: isl.Map) -> isl.Map:
    """``x -> [x, y]`` for a relation ``x -> y``."""
    same = isl.Map.identity(of.get_space().domain().map_from_set()).intersect_domain(of.domain())
    return range_named(same.flat_range_product(of), None)


def affine_hull(of: isl.Map) -> isl.Map:
    """The affine hull of a relation: its equations, which extend a function beyond its domain."""
    return of.affine_hull().to_map()


def without_gaps(of: isl.Set) -> isl.Set:
    """A set with the gaps in its last coordinate filled, for each choice of the coordinates before."""
    count = of.dim(isl.dim_type.set) - 1
    space = of.get_space()
    pairs = function(space, None, variables(space)[:count]), function(space, None, variables(space)[count:])
    last = isl.Map.from_multi_aff(pairs[0]).intersect_domain(of).reverse()
    last = last.apply_range(isl.Map.from_multi_aff(pairs[1]))
    between = _from(last, True).intersect(_from(last, False))
    return between.wrap().flatten()


def side_by_side(a: isl.Map, b: isl.Map) -> isl.Map:
    """``x -> [y..., z...]`` for all ``x -> y`` of one relation and ``x -> z`` of another one; the range has no name."""
    return range_named(a.flat_range_product(b), None)


def with_own_parts(of: isl.Map, chosen: Sequence[int]) -> isl.Map:
    """``[x, chosen components of y] -> y`` for a relation ``x -> y``; the tuples lose their names."""
    count = of.dim(_IN)
    pairs = of.wrap().flatten()
    pairs = pairs.reset_tuple_id() if pairs.has_tuple_id() else pairs
    space = pairs.get_space()
    dims = variables(space)
    known = function(space, None, [*dims[:count], *(dims[count + axis] for axis in chosen)])
    whole = function(space, None, dims[count:])
    return isl.Map.from_multi_aff(known).intersect_domain(pairs).reverse().apply_range(isl.Map.from_multi_aff(whole))


def most_images(of: isl.Map, limit: int) -> int:
    """A bound of the number of images of each input, for all parameters; 0 if it is above a limit or not known."""
    apart = of.reverse().apply_range(of).deltas()
    apart = apart.project_out(_PARAM, 0, apart.dim(_PARAM)).coalesce()
    if not apart.is_bounded():
        return 0
    found = (number(apart.count_val()) + 1) // 2
    return found if found <= limit else 0


def step_of_images(of: isl.Map, position: int, by: int, group: int = 1) -> tuple[int, ...] | None:
    """The difference of the images of points that are `by` apart in one coordinate, and equal in the others.

    With a `group` only points whose coordinates are in one group of so many count. None if the difference is not the
    same for all of them, or there are none.
    """
    points = of.domain()
    space = points.get_space()
    own = variables(space)[position]
    if group > 1:
        within = modulo(own, group).to_pw_aff()
        last = constant(space, group - 1 - by).to_pw_aff()
        points = points.intersect(within.le_set(last))
    further = shifted_out(graph(identity(space), points), position, by)
    found = of.reverse().apply_range(further).apply_range(of).deltas()
    found = found.project_out(isl.dim_type.param, 0, found.dim(isl.dim_type.param)).coalesce()
    if found.is_empty() or not found.is_singleton():
        return None
    return coordinates(found.sample_point(), found.dim(isl.dim_type.set))
