"""Sets of values as boxes: one copy moves one box."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

#: A set of more pieces than this is not split into boxes.
PIECES = 4


def boxes(values: isl.Set, scope: int, allowed: isl.Set) -> list[isl.Set]:
    """Values ``[scope coordinates, indices]`` as few boxes of indices, each for given scope coordinates.

    If the values are a box, or a few boxes, these are exact. Otherwise the result is the box around the values if it
    is a subset of `allowed`, or else the values themselves.
    """
    values = values.coalesce()
    around = box_around(values, scope)
    if around.is_subset(values):
        return [around]
    pieces = sets.basic_sets(values)
    if len(pieces) <= PIECES:
        hulls = [box_around(piece, scope) for piece in pieces]
        if all(hull.is_subset(piece) for hull, piece in zip(hulls, pieces, strict=True)):
            return hulls
    return [around if around.is_subset(allowed) else values]


def loops_outside(program: Program, transfer: Statement, shared: int) -> int:
    """The least number of a transfer's outermost loops, at least `shared`, inside which one copy moves a box."""
    for count in range(shared, len(transfer.loops)):
        if _is_box(program, transfer, transfer.instances, count):
            return count
    return len(transfer.loops)


def copies_of(program: Program, transfer: Statement) -> list[isl.Set]:
    """The copies that the host makes for a transfer: for each box, the iterations of the outer loops that copy it.

    The outer loops are the host's, and as many further ones as are needed for each copy to move a box.
    """
    instances = transfer.instances.intersect_params(program.context).coalesce()
    for count in range(program.host_depth(transfer), len(transfer.loops) + 1):
        for parts in ([instances], sets.basic_sets(instances)):
            if all(_is_box(program, transfer, part, count) for part in parts):
                return [part.apply(sets.graph(sets.renamed(transfer.prefix(count), None))) for part in parts]
    return []


def _is_box(program: Program, transfer: Statement, instances: isl.Set, count: int) -> bool:
    """Whether the instances of a transfer access a box of elements in each iteration of its outermost loops."""
    storage = program.storages[transfer.memory.target]
    owner = transfer.prefix(len(program.frame(storage)))
    element = sets.outputs(sets.compose(sets.joined(owner, program.value_of(transfer)), storage.index))
    forms = [*sets.outputs(transfer.coords)[:count], *element]
    copied = instances.apply(sets.graph(sets.function(transfer.frame, None, forms))).coalesce()
    return bool(box_around(copied, count).is_subset(copied))


def box_around(values: isl.Set, scope: int) -> isl.Set:
    """The box around values ``[scope coordinates, indices]``, one for each vector of scope coordinates."""
    space = values.get_space()
    variables = sets.variables(space)
    found = sets.preimage(values.apply(_axes(space, variables[:scope])), _chosen(space, variables[:scope]))
    for variable in variables[scope:]:
        chosen = [*variables[:scope], variable]
        side = _without_holes(values.apply(_axes(space, chosen)).coalesce(), scope)
        found = found.intersect(sets.preimage(side, _chosen(space, chosen)))
    return found.coalesce()


def _without_holes(points: isl.Set, scope: int) -> isl.Set:
    """The interval of the last coordinate, without gaps (strides), for each vector of the `scope` coordinates before.

    If parts begin at different parameters, their hull has no lower bound; the bounds of the parts are used instead.
    """
    side = sets.as_set(points.simple_hull())
    is_bounded = sets.is_bounded_at(side, scope)
    if is_bounded and not sets.has_divisions(side):
        return side
    side = side if is_bounded else points
    space, variables = side.get_space(), sets.variables(side.get_space())
    outside = sets.graph(sets.function(space, None, variables[:scope]), side)
    relation = outside.reverse().apply_range(sets.graph(sets.function(space, None, variables[scope:])))
    lows, highs = sets.component_bounds(relation)
    domain = relation.domain()
    full = sets.box(lows, highs, domain.get_space()).intersect_domain(domain)
    return sets.named(sets.flat_pairs(full, ""), sets.tuple_name(space) or None)


def _chosen(space: isl.Space, chosen: list[isl.Aff]) -> isl.MultiAff:
    return sets.function(space, None, chosen)


def _axes(space: isl.Space, chosen: list[isl.Aff]) -> isl.Map:
    return sets.graph(_chosen(space, chosen))
