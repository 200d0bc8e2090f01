"""Boxes around values: the least and the largest coordinate in each dimension, as sets and in words."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Expr


def smallest_box(of: isl.Set) -> isl.Set:
    """The points between the least and the largest coordinate of a set in each dimension, for each parameter value.

    Raises `isl.Error` for a set that is not bounded.
    """
    space = of.get_space()
    found = sets.universe(space)
    for axis, variable in enumerate(sets.variables(space)):
        low = sets.smallest_coordinate(of, axis).insert_domain(space)
        high = sets.largest(of, axis).insert_domain(space)
        form = variable.to_pw_aff()
        found = found.intersect(sets.as_set(form.ge_set(low))).intersect(sets.as_set(form.le_set(high)))
    return found.coalesce()


def ends_of_box(of: isl.Set, context: isl.Set) -> list[tuple[Expr, Expr]]:
    """The first index and the end of each dimension of the smallest box around a set, as expressions of parameters."""
    one = sets.integer(of.get_ctx(), 1)
    return [
        (
            of_params(sets.smallest_coordinate(of, axis), context),
            of_params(sets.largest(of, axis).add_constant_val(one), context),
        )
        for axis in range(sets.size(of))
    ]


def box_in_words(of: isl.Set, iterators: Sequence[str], context: isl.Set) -> str:
    """The smallest box around a set, which is not empty, as conditions on the iterators."""
    ends = ends_of_box(of, context)
    return " and ".join(f"{low} <= {i} < {end}" for i, (low, end) in zip(iterators, ends, strict=True)) or "one value"
