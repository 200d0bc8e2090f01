"""Sets of values as boxes, which one copy moves."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

#: More pieces than this are moved as what they are.
PIECES = 4


def boxes(values: isl.Set, scope: int, allowed: isl.Set) -> list[isl.Set]:
    """Values ``[scope coordinates, indices]`` as few boxes of indices, each for given scope coordinates.

    They are the values exactly where these are a box, or a few; otherwise the box around them where it is `allowed`,
    or what they are.
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
    """How many of a transfer's loops are outside of one copy: at least those that are `shared`.

    What is copied at a time is then a box of elements.
    """
    storage = program.storages[transfer.target]
    owner = transfer.prefix(len(program.frame(storage)))
    element = sets.outputs(sets.compose(sets.joined(owner, program.value_of(transfer)), storage.index))
    loops = sets.outputs(transfer.coords)
    for count in range(shared, len(loops)):
        forms = [*loops[:count], *element]
        copied = transfer.instances.apply(sets.graph(sets.function(transfer.frame, None, forms))).coalesce()
        if box_around(copied, count).is_subset(copied):
            return count
    return len(loops)


def box_around(values: isl.Set, scope: int) -> isl.Set:
    """The box around values ``[scope coordinates, indices]``, for each scope coordinates."""
    space = values.get_space()
    variables = sets.variables(space)
    found = sets.preimage(values.apply(_axes(space, variables[:scope])), _chosen(space, variables[:scope]))
    for variable in variables[scope:]:
        chosen = [*variables[:scope], variable]
        side = sets.as_set(values.apply(_axes(space, chosen)).coalesce().simple_hull())
        found = found.intersect(sets.preimage(side, _chosen(space, chosen)))
    return found.coalesce()


def _chosen(space: isl.Space, chosen: list[isl.Aff]) -> isl.MultiAff:
    return sets.function(space, None, chosen)


def _axes(space: isl.Space, chosen: list[isl.Aff]) -> isl.Map:
    return sets.graph(_chosen(space, chosen))
