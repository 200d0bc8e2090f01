"""Storage for the levels of time tiles: a buffer of the tile, and the array through which passes exchange levels."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.values_read import existing
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Buffer, Storage
from tiramisu_py.schedule.locality.time_levels import Passes

#: Rows of a tile's buffer, and the tile's own points in them, begin at multiples of this number of elements.
ALIGNED = 16


def stored(program: Program, passes: Passes, source: str, local: str, scope: tuple[LoopId, ...]) -> Program:
    """The program with a buffer `local` for each tile, and the array folded to the levels that passes exchange."""
    asked, own = passes.asked, program.algorithm.computations[source].iterators
    space = sets.sized_frame(program.algorithm.param_space, None, len(scope) + len(own))
    outer, inner = sets.variables(space)[: len(scope)], sets.variables(space)[len(scope) :]
    if asked.wavefront is None:
        levels = passes.reach(source) + 1
        index, extents = [sets.modulo(inner[0], levels)], [_constant(levels)]
    else:
        levels = asked.steps - 1 if passes.is_direct(source) else asked.steps
        index, extents = [passes.number(outer[0], inner[0])], [_constant(max(levels, 1))]
    whole = extents_of(existing(program, source), program.context)
    for axis, dim in enumerate(own[1:], 1):
        if dim not in asked.tiles:
            index.append(inner[axis])
            extents.append(whole[axis])
            continue
        if asked.wavefront is not None and dim == asked.wavefront[0]:
            index.append(sets.modulo(inner[axis], passes.ring(source)))
            extents.append(_constant(passes.ring(source)))
            continue
        below, above = passes.halo[dim]
        most = asked.steps - 1 + passes.copied_in(source)
        by, rounded = asked.tiles[dim], ALIGNED if axis == len(own) - 1 else 1
        before = _up(below.slope * most + below.offsets[source], rounded)
        room = _up(before + by + above.slope * most + above.offsets[source], rounded)
        corner = sets.scaled(outer[1 + passes.dims.index(dim)], by)
        index.append(sets.plus(inner[axis].sub(corner), before))
        extents.append(_constant(room))
    buffer = Buffer(local, tuple(extents), program.algorithm.computations[source].dtype, scope=scope)
    program = program.with_buffer(buffer)
    program = program.with_storage(Storage(local, source, local, sets.function(space, None, index)))
    return _folded(program, passes, source)


def _folded(program: Program, passes: Passes, source: str) -> Program:
    """The program with a source's array folded to the levels that two passes keep, unless the user chose a layout."""
    storage, asked = program.storages[source], passes.asked
    if storage.chosen or storage.buffer != source or program.buffers[source].argument:
        return program
    kept = max(passes.kept[source], 1)
    space = storage.index.get_space().domain()
    level, *rest = sets.variables(space)
    number = sets.floor_div(sets.plus(level, -asked.origin), asked.steps)
    index, extents = [sets.modulo(number, 2)], [_constant(2)]
    if kept > 1:
        index.append(sets.modulo(level, kept))
        extents.append(_constant(kept))
    whole = extents_of(existing(program, source), program.context)
    program = program.with_buffer(replace(program.buffers[source], extents=(*extents, *whole[1:]), passed=None))
    return program.with_storage(replace(storage, index=sets.function(space, None, [*index, *rest]), chosen=True))


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _constant(value: int) -> Expr:
    return Const(value, int64)
