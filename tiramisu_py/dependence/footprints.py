"""Footprints: bounding boxes of the values that an iteration of some loops uses, which size local buffers; and where
the part of an array that a call takes is in a buffer, by constant steps from element to element.
"""

from __future__ import annotations

from contextlib import suppress

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.extents import at_least_zero
from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass

#: A box around more pieces than this is that around one piece around them: the least of many takes isl minutes.
MOST_PIECES = 8


@dataclass(frozen=True)
class Box:
    """A box around a footprint: its corner (functions of the scope coordinates) and its extents."""

    corner: list[isl.Aff]
    extents: tuple[Expr, ...]


def footprint_box(footprint: isl.Map, context: isl.Set, what: str) -> Box:
    """The smallest box around ``scope coordinates -> value indices``, of constant size if possible."""
    corner, extents = [], []
    for axis in range(sets.out_size(footprint)):
        low, extent = side(sets.component(footprint, axis), context, what)
        corner.append(low)
        extents.append(extent)
    return Box(corner, tuple(extents))


def side(footprint: isl.Map, context: isl.Set, what: str) -> tuple[isl.Aff, Expr]:
    space = footprint.get_space().domain()
    if footprint.is_empty():
        return sets.constant(space, 0), Const(0, int64)
    if footprint.n_basic_map() > MOST_PIECES:
        with suppress(CommandError, isl.Error):
            return side(sets.as_map(footprint.simple_hull()), context, what)
    interval = sets.interval_around(footprint)
    if interval is not None:
        return interval.low, Const(interval.extent, int64)
    return _whole_side(footprint.range(), space, context, what)


def _whole_side(values: isl.Set, space: isl.Space, context: isl.Set, what: str) -> tuple[isl.Aff, Expr]:
    try:
        top, low = sets.largest(values, 0), sets.smallest_coordinate(values, 0)
    except isl.Error:
        raise CommandError(f"the part of {what} that is needed has no bound") from None
    single = sets.least(low.gist(low.domain()))  # where there is something
    if single is None:
        zero = sets.constant(low.get_domain_space(), 0)
        below = not sets.as_set(low.lt_set(zero.to_pw_aff())).is_empty()
        single = _affine_below(low, values.intersect_params(context.params()), what) if below else zero
    size = top.sub(single.to_pw_aff()).add_constant_val(sets.integer(values.get_ctx(), 1))
    corner = sets.on_frame(single, space)
    return corner, at_least_zero(size, context)


def _affine_below(low: isl.PwAff, values: isl.Set, what: str) -> isl.Aff:
    """An affine form nowhere above `low`, the least of `values`; where nothing is needed, it does not matter."""
    found = sets.nearest_bounds(low, 1)
    if found:
        return found[0]
    least = sets.smallest_value(values, 0)
    if least is None:
        raise CommandError(f"the part of {what} that is needed has no affine lower bound")
    return sets.constant(low.get_domain_space(), least)


def local_index(program: Program, footprint: isl.Map, depth: int, what: str) -> tuple[tuple[Expr, ...], isl.MultiAff]:
    """The extents of a box around a footprint, and ``[scope coordinates..., value...] -> value - corner``."""
    box = footprint_box(footprint, program.context, what)
    space = sets.sized_frame(program.algorithm.param_space, None, depth + len(box.extents))
    variables = sets.variables(space)
    outer = sets.function(space, None, variables[:depth])
    index = []
    for variable, corner in zip(variables[depth:], box.corner, strict=True):
        at = sets.compose(outer, sets.function(corner.get_domain_space(), None, [corner]))
        index.append(variable.sub(sets.outputs(at)[0]))
    return box.extents, sets.function(space, None, index)


def steps_of(program: Program, storage: Storage, position: int) -> tuple[int, ...] | None:
    """By how much each index of the buffer grows with an index of the values, by its position; None without such steps.

    ``b[j, i + 2]`` of ``v[i, j]`` gives (0, 1) for i; ``b[i % 4]`` has none.
    """
    dim = len(program.frame(storage)) + position
    found = [sets.stride(form, dim) for form in sets.outputs(storage.index)]
    steps = tuple(step for step in found if step is not None)
    return steps if len(steps) == len(found) else None
