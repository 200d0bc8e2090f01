"""Distances of a relation as corners and directions, and the least integers that inequalities allow."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py.sets.frames import integer, number

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param

#: A corner (weight w > 0: the point vector / w) or a direction (weight 0) of a polyhedron.
Generator = tuple[int, tuple[int, ...]]


def generators(of: isl.Map) -> list[Generator]:
    """The corners and directions of the convex hull of all distances ``output - input``, over all parameters.

    A linear form with constant k is at least 0 for each distance if it is at least 0 for each generator, its constant
    taken w times: those of isl's dual, the coefficients of all such forms. Integer divisions are left out, which can
    only add distances.
    """
    deltas = of.deltas()
    deltas = deltas.project_out(_PARAM, 0, deltas.dim(_PARAM)).remove_divs().coalesce()
    if deltas.is_empty():
        return []
    found: dict[Generator, None] = {}
    for basic in deltas.coefficients().remove_redundancies().get_basic_sets():
        for constraint in basic.get_constraints():
            row = [number(constraint.get_coefficient_val(_SET, i)) for i in range(basic.dim(_SET))]
            found[row[0], tuple(row[1:])] = None
            if constraint.is_equality():
                found[-row[0], tuple(-each for each in row[1:])] = None
    return [one for one in found if any(one[1]) or one[0] > 0]


def least_integers(
    rows: Sequence[tuple[Sequence[int], int]], count: int, sums: Sequence[Sequence[int]]
) -> list[int] | None:
    """The least `count` integers x >= 0 with ``row . x + constant >= 0`` for each row; None if there are none.

    The first of the `sums` of variables, by their numbers, is least, then the second, and so on; then each variable.
    """
    first = len(sums)
    space = isl.Space.set_alloc(isl.Context(), 0, first + count)
    local = isl.LocalSpace.from_space(space)
    allowed = isl.BasicSet.universe(space)
    for variable in range(count):
        allowed = allowed.add_constraint(_row(local, {first + variable: 1}, 0))
    for number_of, group in enumerate(sums):
        total = {number_of: -1, **{first + variable: 1 for variable in group}}
        allowed = allowed.add_constraint(_row(local, total, 0, equal=True))
    for row, constant in rows:
        allowed = allowed.add_constraint(_row(local, {first + k: factor for k, factor in enumerate(row)}, constant))
    least = allowed.lexmin()
    if least.is_empty():
        return None
    point = least.sample_point()
    return [number(point.get_coordinate_val(_SET, first + variable)) for variable in range(count)]


def _row(local: isl.LocalSpace, factors: dict[int, int], constant: int, equal: bool = False) -> isl.Constraint:
    made = isl.Constraint.alloc_equality(local) if equal else isl.Constraint.alloc_inequality(local)
    for position, factor in factors.items():
        made = made.set_coefficient_val(_SET, position, integer(local.get_ctx(), factor))
    return made.set_constant_val(integer(local.get_ctx(), constant))
