"""Memory of a GPU: for each array, the box that kernels and transfers access there.

    by@gpu1[R, C], of which GPU 1 computes rows G to R   -->   by@gpu1[R - G, C], from row G on

A dimension is cut if that saves more than a border. The last one is cut at multiples of the warp size (for floats, the
elements that a warp loads at once), so that accesses keep their alignment. Arrays that the caller keeps on a GPU stay
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.device_boxes import BoxSide, DeviceBox
from tiramisu_py.lower.ranks.local_boxes import elements_of
from tiramisu_py.lower.statements.instances import INSIDE, array_name
from tiramisu_py.lower.statements.templates import of_operands
from tiramisu_py.program.loops import Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Buffer, Memory

#: A dimension of constant extent is cut only if that saves at least 1/LEAST of it.
LEAST = 8


def device_boxes(program: Program, accesses: MemoryAccesses) -> Mapping[str, DeviceBox]:
    """The boxes that are smaller than their buffers, by the names of the arrays."""
    found = {}
    for buffer in program.buffers.values():
        if buffer.scope or buffer.memory in (*INSIDE, Memory.HOST_MAPPED) or _is_combined(program, buffer):
            continue
        for device, accessed in _accessed(accesses, buffer):
            sides = tuple(_side(program, buffer, accessed, axis) for axis in range(len(buffer.extents)))
            if any(sides):
                found[array_name(buffer, device)] = DeviceBox(buffer, device, sides)
    return found


def _is_combined(program: Program, buffer: Buffer) -> bool:
    """Whether lanes keep partial results of an element, which are added to it even if there are no terms."""
    return any(
        program.storages[statement.memory.target].buffer == buffer.name
        and statement.role is Role.UPDATE
        and program.kernel_of(statement) is not None
        and any(isinstance(program.loops[loop].tag, Vector) for loop in statement.loops)
        for statement in program.storing
    )


def _accessed(accesses: MemoryAccesses, buffer: Buffer) -> Iterator[tuple[int, isl.Set]]:
    """The elements that are accessed on each GPU, except in the caller's own array."""
    parts = list[tuple[int, isl.Set]]()
    for access in accesses.of_buffer(buffer.name):
        device = access.device
        if device is None or access.actor.statement is None or (buffer.argument and device == buffer.device):
            continue
        parts.append((device, elements_of(accesses.program, access)))
    for device, accessed in sets.united_by_key(parts).items():
        yield device, accessed.coalesce()


def _side(program: Program, buffer: Buffer, accessed: isl.Set, axis: int) -> BoxSide | None:
    context, is_last = program.context, axis == len(buffer.extents) - 1
    line = sets.component_of(accessed, axis).intersect_params(context).coalesce()
    whole = _form(program, buffer.extents[axis])
    if whole is None or line.is_empty():
        return None
    there = line.params()
    lows = sets.nearest_bounds(sets.smallest_coordinate(line, 0).coalesce(), 1)
    highs = sets.nearest_bounds(sets.largest(line, 0).coalesce(), -1)
    bounds = _tightest(there, lows, highs)
    if bounds is None:
        return None
    low, highs = bounds
    if not any(_saves(there, whole, sets.plus(high.sub(low), 1)) for high in highs):
        return None
    first, end, row = _expression(low), _least(highs), program.targets.gpu.warp
    if is_last:
        first = _multiple(arithmetic.floor_divided(first, row), row)
    if is_last and axis > 0:
        end = _multiple(arithmetic.floor_divided(arithmetic.plus(end, row - 1), row), row)
    extent = simplified(arithmetic.subtracted(end, first))
    negative = any(not context.is_subset(_is_at_least(sets.plus(high, 1), low)) for high in highs)
    return BoxSide(first, arithmetic.larger(extent, arithmetic.number(0)) if negative else extent)


def _form(program: Program, extent: Expr) -> isl.PwAff | None:
    try:
        return Affine(program.context.get_space(), {}).value(extent)
    except NotAffine:
        return None


def _tightest(there: isl.Set, lows: list[isl.Aff], highs: list[isl.Aff]) -> tuple[isl.Aff, list[isl.Aff]] | None:
    """The largest lower bound, up to a border, and the upper bounds whose minimum applies; None if there are none."""
    near = sets.interval_between(lows, highs)
    if near is not None:
        return near.low, [sets.plus(near.low, near.extent - 1)]
    short = [[_most(there, b.sub(a)) for b in lows] for a in lows]
    last = [(max(n for n in by if n is not None), a) for by, a in zip(short, lows, strict=True) if None not in by]
    if not last or not highs:
        return None
    kept: list[isl.Aff] = []
    for high in highs:
        if not any(_is_never_above(there, other, high) for other in kept):
            kept = [other for other in kept if not _is_never_above(there, high, other)] + [high]
    return min(last, key=lambda found: found[0])[1], kept


def _is_never_above(there: isl.Set, a: isl.Aff, b: isl.Aff) -> bool:
    most = _most(there, a.sub(b))
    return most is not None and most <= 0


def _most(there: isl.Set, form: isl.Aff | isl.PwAff) -> int | None:
    """The largest value of a form of the parameters; None if it is unbounded."""
    piece = form if isinstance(form, isl.PwAff) else form.to_pw_aff()
    return sets.greatest(piece.intersect_params(there))


def _saves(there: isl.Set, whole: isl.PwAff, extent: isl.Aff) -> bool:
    """Whether an extent can be smaller than the whole by more than a border."""
    most = _most(there, whole.sub(extent.to_pw_aff()))
    size = _most(there, whole)
    return most is None or (size is not None and most * LEAST >= size)


def _multiple(count: Expr, row: int) -> Expr:
    """The number of elements in `count` rows."""
    return simplified(arithmetic.times(count, row))


def _expression(form: isl.Aff) -> Expr:
    return simplified(of_operands(_as_quotient(form), ()))


def _as_quotient(form: isl.Aff) -> isl.Aff:
    """``R - (2*R + 2) // 3`` as ``R // 3``: the rest after a quotient, written as a quotient."""
    taken = sets.terms(form)
    if taken.denominator != 1 or [coefficient for coefficient, _ in taken.divs] != [-1]:
        return form
    space, inner = form.get_domain_space(), taken.divs[0][1]
    gap = sets.constant(space, taken.constant).sub(inner)
    for coefficient, name in taken.params:
        gap = gap.add(sets.scaled(sets.parameter(space, name), coefficient))
    by = sets.terms(gap).denominator
    if sets.terms(gap).divs:
        return form
    return sets.floor_div(sets.plus(sets.scaled(gap, by), by - 1), by)


def _least(highs: list[isl.Aff]) -> Expr:
    """One more than the minimum of some last indices."""
    end, *others = (_expression(sets.plus(high, 1)) for high in highs)
    for other in others:
        end = arithmetic.smaller(end, other)
    return end


def _is_at_least(a: isl.Aff, b: isl.Aff) -> isl.Set:
    return a.to_pw_aff().ge_set(b.to_pw_aff()).params()
