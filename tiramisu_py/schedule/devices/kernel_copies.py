"""Copies for the threads of a block in its shared memory, and for each thread in its registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Access, Const, Iter, as_expr
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.dependence.footprints import local_index
from tiramisu_py.dependence.values_read import needed_values
from tiramisu_py.errors import CommandError, UnsupportedError
from tiramisu_py.program.kernels import KernelNest, all_threads, thread_number
from tiramisu_py.program.loops import AXES, GpuBlock, GpuThread, Loop, LoopId, Vector
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Link, MemoryUse, Role, Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import scope_of, statements
from tiramisu_py.schedule.devices.pipeline import check_deferred, pipelined
from tiramisu_py.schedule.devices.tag_gpu import check_limits, kernel_around
from tiramisu_py.schedule.locality.cached_copies import check_copy, laid_out
from tiramisu_py.schedule.locality.compute_at import loads
from tiramisu_py.schedule.locality.holes import without_holes
from tiramisu_py.schedule.nesting import check_nesting

#: How many neighbours a thread can copy at once.
WIDTHS = (1, 2, 4, 8)


@dataclass(frozen=True)
class KernelCopy:
    """A copy of a source in a kernel: its name, its loops and its storage."""

    name: str
    source: str
    iterators: tuple[str, ...]
    memory: Memory
    threads: tuple[str, ...] | None = None
    pad: int = 0
    deferred: bool = False
    buffers: int = 1
    vector: int = 1
    layout: tuple[object, ...] | None = None


@dataclass(frozen=True)
class CopyPlace:
    """Where a copy is made: its kernel, the loops around it, its readers, and the storage that it copies from."""

    kernel: KernelNest
    scope: tuple[LoopId, ...]
    readers: tuple[Statement, ...]
    origin: str


def cache(program: Program, consumer: Sequence[str], level: str, wanted: KernelCopy, command: str) -> Program:
    """Copy the values that the consumer reads in each iteration of a loop of its kernel, and let it read the copy."""
    check_copy(program, wanted.source, wanted.iterators, wanted.name)
    place = _place(program, consumer, level, wanted)
    needed = _needed(program, place, wanted)
    extents, index = _box(program, place, needed, wanted)
    program, statement = _copying(program, place, wanted, needed, index, extents, command)
    program = program.with_statement_before(statement, [reader.name for reader in place.readers])
    program = _stored(program, place, wanted, extents, index)
    for reader in place.readers:
        changed = program.statements[reader.name].loading(wanted.source, wanted.name)
        order = Order(statement.name, reader.name, place.scope[-1], command)
        program = program.with_statement(changed).with_(orders=(*program.orders, order))
    program = _after_origin(program, place, statement.name, wanted, command)
    if wanted.buffers > 1:
        program = pipelined(program, statement.name, wanted.buffers)
    for loop in statement.loops:
        check_nesting(program, loop)
    check_limits(program, [statement.name])
    return program


def _place(program: Program, consumer: Sequence[str], level: str, wanted: KernelCopy) -> CopyPlace:
    scope = scope_of(program, consumer, level)
    inside = [s for s in statements(program, consumer) if s.loops[: len(scope)] == scope]
    kernel = kernel_around(program, inside[0])
    if kernel is None:
        raise CommandError(f"{inside[0].name} is in no kernel: tag its loops with tag_gpu first")
    last = program.loops[kernel.blocks[-1]]
    if last.id not in scope:
        raise CommandError(
            f"loop {level} is outside of the kernel's blocks, and a copy belongs to one of them: choose "
            f"{last.name}, or a loop inside"
        )
    readers = tuple(s for s in inside if loads(s, wanted.source))
    if not readers:
        raise CommandError(f"{', '.join(consumer)} does not read {wanted.source} there")
    origins = {reader.memory.sources.get(wanted.source, wanted.source) for reader in readers}
    if len(origins) > 1:
        raise CommandError(f"{', '.join(consumer)} reads {wanted.source} from several copies: {', '.join(origins)}")
    place = CopyPlace(kernel, scope, readers, origins.pop())
    if wanted.memory is Memory.REGISTER:
        _check_own_threads(program, readers, scope, level)
    _check_possible(program, place, wanted)
    return place


def _check_possible(program: Program, place: CopyPlace, wanted: KernelCopy) -> None:
    level = program.loops[place.scope[-1]]
    if wanted.buffers == 2 and isinstance(level.tag, GpuBlock | GpuThread):
        raise CommandError(
            f"buffers=2: two buffers take turns in a sequential loop, and {level.name} is not sequential"
        )
    if wanted.deferred:
        check_deferred(program, wanted.source, place.origin)


def _check_own_threads(program: Program, readers: Sequence[Statement], scope: tuple[LoopId, ...], level: str) -> None:
    for reader in readers:
        for loop in reader.loops[len(scope) :]:
            if isinstance(program.loops[loop].tag, GpuThread):
                raise CommandError(
                    f"registers belong to one thread, and loop {level} is outside of the thread loop "
                    f"{program.loops[loop].name} of {reader.name}: choose that loop or one inside"
                )


def _needed(program: Program, place: CopyPlace, wanted: KernelCopy) -> isl.Map:
    """The values that each iteration of the scope reads; for a copy in shared memory, those that any thread reads."""
    parts = list[isl.Map]()
    for reader in place.readers:
        outer = sets.graph(reader.prefix(len(place.scope)), reader.instances)
        parts.append(outer.reverse().apply_range(needed_values(program, reader, wanted.source)))
    found = sets.union_of(parts)
    if wanted.memory is Memory.SHARED:
        for position, loop in enumerate(place.scope):
            if isinstance(program.loops[loop].tag, GpuThread):
                found = sets.freed_input(found, position)
    return without_holes(program, wanted.source, found)


def _box(
    program: Program, place: CopyPlace, needed: isl.Map, wanted: KernelCopy
) -> tuple[tuple[int, ...], isl.MultiAff]:
    extents, index = local_index(program, needed, len(place.scope), wanted.source)
    if not all(isinstance(extent, Const) for extent in extents):
        inner = program.loops[place.scope[-1]].name
        kind = "shared memory" if wanted.memory is Memory.SHARED else "registers"
        raise CommandError(
            f"the part of {wanted.source} that one iteration of {inner} reads has the extents "
            f"{', '.join(map(str, extents))}, and a copy in {kind} has constant ones: split the loops inside by a "
            f"constant; where {wanted.source} is read in several places, the part is the box around all of them"
        )
    return tuple(int(extent.value) for extent in extents if isinstance(extent, Const)), index


def _copying(
    program: Program,
    place: CopyPlace,
    wanted: KernelCopy,
    needed: isl.Map,
    index: isl.MultiAff,
    extents: tuple[int, ...],
    command: str,
) -> tuple[Program, Statement]:
    outer = [program.loops[loop].name for loop in place.scope]
    dims = distinct([*outer, *wanted.iterators])
    instances = sets.with_dims(sets.flat_pairs(needed, wanted.name), dims)
    space = instances.get_space()
    at = sets.outputs(sets.from_frame(index, space))
    own = [(Loop(0, name), form) for name, form in zip(wanted.iterators, at, strict=True)]
    if wanted.memory is Memory.SHARED:
        own, instances = _spread(place, wanted, instances, at, extents, command)
    first = program.next_loop()
    loops = [replace(loop, id=first + k) for k, (loop, _) in enumerate(own)]
    variables = sets.variables(space)
    coords = [*variables[: len(place.scope)], *(form for _, form in own)]
    declared = program.algorithm.source(wanted.source)
    statement = Statement(
        name=wanted.name,
        source=wanted.source,
        role=Role.COPY,
        dims=tuple(dims),
        instances=sets.with_dims(instances.coalesce(), dims),
        point=sets.function(space, wanted.source, variables[len(place.scope) :]),
        loops=place.scope + tuple(loop.id for loop in loops),
        coords=sets.function(space, None, coords),
        body=Access(wanted.source, tuple(map(Iter, value_names(declared))), declared.dtype),
        memory=MemoryUse(
            target=wanted.name, sources={} if place.origin == wanted.source else {wanted.source: place.origin}
        ),
        link=Link(deferred=int(wanted.deferred)),
    )
    return program.with_loop(*loops), statement


def _spread(
    place: CopyPlace, wanted: KernelCopy, instances: isl.Set, at: list[isl.Aff], extents: tuple[int, ...], command: str
) -> tuple[list[tuple[Loop, isl.Aff]], isl.Set]:
    """The copy's own loops, which deal its elements out to the threads of the block, and its instances.

    Inside a thread loop each thread copies its share: the instances are restricted to it.
    """
    *outer, last = at
    width = wanted.vector
    strips = [*outer, sets.floor_div(last, width) if width > 1 else last]
    sizes = [*extents[:-1], -(-extents[-1] // width)]
    try:
        found = spread(place.kernel.shape, wanted.iterators, wanted.threads, strips, sizes)
        own = list(found.turns)
        around = {_axis(place, loop): d for d, loop in enumerate(place.scope) if _axis(place, loop) is not None}
        for axis in reversed(range(len(found.numbers))):
            loop, number = found.numbers[axis]
            depth = around.get(axis)
            if depth is not None:
                instances = all_threads(place.kernel, instances, depth, place.scope[depth])
                thread = thread_number(place.kernel, instances.get_space(), depth, place.scope[depth])
                instances = instances.intersect(sets.as_set(thread.to_pw_aff().eq_set(number.to_pw_aff())))
            elif loop:
                own.append((Loop(0, loop, GpuThread(axis), command), number))
    except UnsupportedError as error:
        raise CommandError(str(error)) from None
    if width > 1:
        own.append((Loop(0, f"{wanted.iterators[-1]}_lane", Vector(width), command), sets.modulo(last, width)))
    return own, instances


def _axis(place: CopyPlace, loop: LoopId) -> int | None:
    tag = place.kernel.program.loops[loop].tag
    return tag.axis if isinstance(tag, GpuThread) else None


def _stored(
    program: Program, place: CopyPlace, wanted: KernelCopy, extents: tuple[int, ...], index: isl.MultiAff
) -> Program:
    """The buffer of the copy, and the storage through which it is read and filled."""
    declared = program.algorithm.source(wanted.source)
    per_block = len(place.kernel.host) + len(place.kernel.blocks)
    count = per_block if wanted.memory is Memory.SHARED else len(place.scope)
    if wanted.layout is not None:
        extents, index = _laid_out(program, wanted, extents, index)
    sizes = [*extents[:-1], extents[-1] + wanted.pad]
    buffer = Buffer(wanted.name, tuple(map(as_expr, sizes)), declared.dtype, wanted.memory, place.scope[:count])
    inner = place.scope[count:]
    program = program.with_buffer(buffer)
    return program.with_storage(Storage(wanted.name, wanted.source, wanted.name, index, inner=inner))


def _laid_out(
    program: Program, wanted: KernelCopy, extents: tuple[int, ...], index: isl.MultiAff
) -> tuple[tuple[int, ...], isl.MultiAff]:
    """The extents and the index of a copy with its own layout."""
    assert wanted.layout is not None
    box = tuple(map(as_expr, extents))
    room, layout = laid_out(program, wanted.name, wanted.iterators, wanted.layout, box)
    return tuple(int(extent.value) for extent in room if isinstance(extent, Const)), sets.compose(index, layout)


def _after_origin(program: Program, place: CopyPlace, name: str, wanted: KernelCopy, command: str) -> Program:
    made = program.storages[place.origin].buffer
    copied = place.origin != wanted.source
    filling = [s for s in program.storing if s.name != name and program.storages[s.memory.target].buffer == made]
    for producer in filling if copied else program.statements_of(wanted.source):
        sharing = producer.loops[: len(place.scope)] == place.scope
        order = Order(producer.name, name, place.scope[-1] if sharing else None, command)
        program = program.with_(orders=(*program.orders, order))
    return program


# -- the threads of a block that copy a tile: which thread copies which element


Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Spread:
    """How elements are dealt out: sequential loops with their coordinates, and a thread number for each axis x, y, z.

    A thread number comes with the name of its loop, which is empty if thread 0 does everything.
    """

    turns: tuple[tuple[Loop, isl.Aff], ...]
    numbers: tuple[tuple[str, isl.Aff], ...]


def spread(
    shape: Shape,
    iterators: Sequence[str],
    threads: Sequence[str] | None,
    at: Sequence[isl.Aff],
    extents: Sequence[int],
) -> Spread:
    """Deal out the elements `at` of a tile to the threads of a block cyclically, neighbours to neighbours.

    Each axis of the block takes one dimension, x the innermost, if the tile is large enough; otherwise the elements are
    dealt out in linear order. With `threads`, the dimensions named by these iterators are dealt out, the last one along
    x.
    """
    if threads is not None:
        axes = {len(threads) - 1 - k: iterators.index(name) for k, name in enumerate(threads)}
        widths = {a: shape[a] if shape[a] > 1 else extents[dim] for a, dim in axes.items()}
        return _by_dimensions(iterators, at, extents, axes, widths)
    used = [axis for axis, number in enumerate(shape) if number > 1]
    axes = {axis: len(extents) - 1 - k for k, axis in enumerate(used)}
    if all(dim >= 0 and extents[dim] >= shape[axis] for axis, dim in axes.items()):
        return _by_dimensions(iterators, at, extents, axes, {axis: shape[axis] for axis in axes})
    return _one_after_another(shape, iterators, at, extents)


def _by_dimensions(
    iterators: Sequence[str],
    at: Sequence[isl.Aff],
    extents: Sequence[int],
    axes: dict[int, int],
    widths: dict[int, int],
) -> Spread:
    zero = sets.constant(at[0].get_domain_space(), 0)
    numbers: list[tuple[str, isl.Aff]] = [("", zero)] * len(AXES)
    turns: list[tuple[Loop, isl.Aff]] = []
    axis_of = {dim: axis for axis, dim in axes.items()}
    for dim, (name, form) in enumerate(zip(iterators, at, strict=True)):
        axis = axis_of.get(dim)
        if axis is None:
            turns.append((Loop(0, name), form))
        elif extents[dim] <= widths[axis]:
            numbers[axis] = (name, form)
        else:
            turns.append((Loop(0, name), sets.floor_div(form, widths[axis])))
            numbers[axis] = (f"{name}_{AXES[axis]}", sets.modulo(form, widths[axis]))
    return Spread(tuple(turns), tuple(numbers))


def _one_after_another(shape: Shape, iterators: Sequence[str], at: Sequence[isl.Aff], extents: Sequence[int]) -> Spread:
    element = sets.constant(at[0].get_domain_space(), 0)
    for form, extent in zip(at, extents, strict=True):
        element = sets.scaled(element, extent).add(form)
    name = "_".join(iterators)
    numbers: list[tuple[str, isl.Aff]] = []
    before = 1
    for axis, number in enumerate(shape):
        part = sets.modulo(sets.floor_div(element, before), number)
        numbers.append((f"{name}_{AXES[axis]}" if number > 1 else "", part))
        before *= number
    turn = (Loop(0, name), sets.floor_div(element, before))
    return Spread((turn,) if prod(extents) > before else (), tuple(numbers))
