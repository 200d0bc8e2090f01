"""The layout that a buffer keeps when it becomes local to an iteration of some loops."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.dependence.footprints import local_index, side
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Storage

Layout = tuple[tuple[Expr, ...], isl.MultiAff]


def kept_in(program: Program, storage: Storage, footprint: isl.Map, scope: tuple[LoopId, ...]) -> Layout:
    """The extents and the index of a buffer that keeps ``footprint``, scope coordinates -> values, in its layout.

    An index of the buffer that is affine in the value indices is counted from the corner of the footprint. One with a
    floor division or a modulo (of `fold`, or of `store_in`) stays as it is, so that `fold` and `store_at` commute.
    """
    forms = sets.outputs(storage.index)
    before = sets.in_size(storage.index) - len(value_names(program.algorithm.source(storage.source)))
    if not any(map(sets.has_floors, forms)) and _is_plain(forms, before, sets.in_size(storage.index)):
        return local_index(program, footprint, len(scope), storage.source)
    if program.buffers[storage.buffer].scope == scope and not storage.inner:
        return program.buffers[storage.buffer].extents, storage.index
    return _laid_out(program, storage, footprint, scope, [_of_values(storage, form, before) for form in forms])


def _is_plain(forms: list[isl.Aff], before: int, size: int) -> bool:
    """Whether each index of a buffer is a value index, counted from some corner."""
    return len(forms) == size - before and all(
        sets.stride(form, before + axis) == (1 if axis == own else 0)
        for own, form in enumerate(forms)
        for axis in range(size - before)
    )


def _of_values(storage: Storage, form: isl.Aff, before: int) -> isl.Aff:
    """A form of scope coordinates and values as one of values alone, without its corner, which depends on the scope."""
    space = sets.sized_frame(form.get_domain_space(), None, sets.in_size(storage.index) - before)
    moves = [sets.stride(form, position) for position in range(before)]
    corner = sets.constant(form.get_domain_space(), 0)
    for variable, by in zip(sets.variables(form.get_domain_space()), moves, strict=False):
        corner = corner if by is None else corner.add(sets.scaled(variable, by))
    if None in moves or (sets.has_floors(form) and any(moves)):
        raise CommandError(
            f"the buffer of {storage.source} is a ring whose start differs in each iteration of its loops: "
            "store_at comes before slide or fold"
        )
    rest = sets.function(form.get_domain_space(), None, [form.sub(corner)])
    zeros = [sets.constant(space, 0)] * before
    return sets.outputs(sets.compose(sets.function(space, None, [*zeros, *sets.variables(space)]), rest))[0]


def _laid_out(
    program: Program, storage: Storage, footprint: isl.Map, scope: tuple[LoopId, ...], forms: list[isl.Aff]
) -> Layout:
    buffer, depth = program.buffers[storage.buffer], len(scope)
    values = forms[0].get_domain_space()
    space = sets.sized_frame(values, None, depth + sets.size(values))
    variables = sets.variables(space)
    outer, own = (sets.function(space, None, part) for part in (variables[:depth], variables[depth:]))
    whole = extents_of(footprint.range().apply(sets.graph(sets.function(values, None, forms))), program.context)
    extents, index = list(buffer.extents), []
    for axis, form in enumerate(forms):
        single = sets.function(values, None, [form])
        at = sets.outputs(sets.compose(own, single))[0]
        if not sets.has_floors(form):
            corner, extent = side(footprint.apply_range(sets.graph(single)), program.context, storage.source)
            moved = sets.compose(outer, sets.function(corner.get_domain_space(), None, [corner]))
            if not extent.same_as(whole[axis]) or not sets.is_constant(corner):
                at, extents[axis] = at.sub(sets.outputs(moved)[0]), extent
        index.append(at)
    return tuple(extents), sets.function(space, None, index)
