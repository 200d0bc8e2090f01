"""Sizes of arrays: boxes around sets of indices, as expressions of the parameters."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import DeclarationError


def extents_of(indices: isl.Set, context: isl.Set) -> tuple[Expr, ...]:
    """For each dimension of a set the largest index plus one, at least 0: the smallest array from index 0."""
    return tuple(extent_of(indices, axis, context) for axis in range(sets.size(indices)))


def default_place(domain: isl.Set, axes: Sequence[int] | None = None) -> isl.MultiAff:
    """Where values are in the array of their own: at their indices, less the first ones where these may be negative.

    With `axes` only these indices say where a value is.
    """
    space = sets.sized_frame(domain.get_space().params(), None, sets.size(domain))
    forms = sets.variables(space)
    for axis, form in enumerate(forms):
        low = first_index(domain, axis)
        if low is not None:
            ((_, first),) = low.to_pw_aff().insert_domain(space).get_pieces()
            forms[axis] = form.sub(first)
    return sets.function(space, None, forms if axes is None else [forms[axis] for axis in axes])


def default_extents(domain: isl.Set, context: isl.Set, axes: Sequence[int] | None = None) -> tuple[Expr, ...]:
    """The extents of the array of their own in which values are at `default_place`."""
    return extents_of(sets.named(domain, None).apply(sets.graph(default_place(domain, axes))), context)


def first_indices(domain: isl.Set, context: isl.Set, axes: Sequence[int]) -> tuple[Expr, ...]:
    """The indices of the first element of that array: 0 where no index may be negative."""
    lows = (first_index(domain, axis) for axis in axes)
    return tuple(Const(0, int64) if low is None else of_params(low.to_pw_aff(), context) for low in lows)


def first_index(indices: isl.Set, axis: int) -> isl.Aff | None:
    """The smallest index of one dimension, a function of the parameters, if it may be negative; None if it may not.

    Where it is no single form, a smaller one for all parameters; None where there is none either.
    """
    space = indices.get_space().params()
    least = sets.smallest_value(indices, axis)
    if indices.is_empty() or (least is not None and least >= 0):
        return None
    if least is not None:
        return sets.constant(space, least)
    pieces = sets.smallest_coordinate(indices, axis).coalesce().get_pieces()
    return pieces[0][1] if len(pieces) == 1 else None


#: Up to this extent a temporary gets a constant size, large enough for all parameters: indices are then simpler.
MOST_CONSTANT = 4096


def room_for(indices: isl.Set, context: isl.Set) -> tuple[Expr, ...]:
    """The extents of a temporary that holds a set of indices: small constants if they suffice for all parameters."""
    most = [sets.largest_value(indices, axis) for axis in range(sets.size(indices))]
    return tuple(
        extent_of(indices, axis, context) if top is None or not 0 <= top < MOST_CONSTANT else Const(top + 1, int64)
        for axis, top in enumerate(most)
    )


def extent_of(indices: isl.Set, axis: int, context: isl.Set) -> Expr:
    """The largest index of one dimension plus one, at least 0; raises `DeclarationError` where it is unbounded."""
    if indices.is_empty():
        return Const(0, int64)
    try:
        top = sets.largest(indices, axis).add_constant_val(sets.integer(indices.get_ctx(), 1))
    except isl.Error:
        raise DeclarationError(f"dimension {axis} of {sets.tuple_name(indices)} has no largest index") from None
    return at_least_zero(top, context)


def at_least_zero(form: isl.PwAff, context: isl.Set) -> Expr:
    """``max(form, 0)`` as an expression; the maximum is left out if the form is never negative.

    A form of one piece is extended to all parameters: where the set is empty, its formula still gives the extent.
    """
    whole = form.coalesce()
    if whole.n_piece() == 1:
        whole = whole.get_pieces()[0][1].to_pw_aff()
    elif not context.params().is_subset(whole.domain().params()):
        whole = whole.union_max(sets.constant(whole.get_space().domain(), 0).to_pw_aff())
    expression = of_params(whole, context)
    negative = whole.neg().pos_set().intersect_params(context.params())
    return expression if negative.is_empty() else Binary("max", expression, Const(0, int64), int64)
