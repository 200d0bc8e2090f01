"""Levels of a recurrence in other places: copies of them, rings that lead to them, and the recurrence once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access, Const, Iter
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.algorithm.types import int64
from tiramisu_py.program.editing import on_instances
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, LOADS, MemoryUse, Role, Statement, Transfer
from tiramisu_py.program.storage import Memory, Storage
from tiramisu_py.schedule.devices.transfers import collapsed
from tiramisu_py.schedule.locality.compute_at import moved_into
from tiramisu_py.schedule.locality.late_reads import Recurrence


def place_of_level(storage: Storage, of: Recurrence) -> isl.Aff:
    """The level, counted from the first one, in the frame of a storage's index."""
    space = storage.index.get_space().domain()
    return sets.plus(sets.variables(space)[of.axis], -of.base)


def with_form(storage: Storage, of: Recurrence, form: isl.Aff) -> isl.MultiAff:
    forms = sets.outputs(storage.index)
    forms[of.axis] = form
    return sets.function(storage.index.get_space().domain(), None, forms)


def loaded_from(source: str, storage: str) -> dict[str, str]:
    """The `sources` of what reads the values of a computation from a storage."""
    return {} if storage == source else {source: storage}


def as_copy(program: Program, statement: Statement, target: str) -> Statement:
    """The statement as a copy of the value that it computes."""
    body = _value(program, statement.source)
    return replace(
        statement,
        role=Role.COPY,
        body=body,
        memory=replace(statement.memory, target=target, sources={}, prefetches=()),
        guards=(),
    )


def _value(program: Program, source: str) -> Access:
    declared = program.algorithm.computations[source]
    return Access(source, tuple(map(Iter, declared.iterators)), declared.dtype)


def cloned(program: Program, loops: Sequence[LoopId]) -> tuple[Program, tuple[LoopId, ...]]:
    """The program with loops of the same names and tags, for other statements."""
    fresh: list[LoopId] = []
    for old in loops:
        loop = replace(program.loops[old], id=program.next_loop())
        program = program.with_loop(loop)
        fresh.append(loop.id)
    return program, tuple(fresh)


def with_ring(program: Program, of: Recurrence, loops: tuple[LoopId, ...], name: str) -> Program:
    """The program with a buffer of a segment that holds the levels that the next one reads, and that one."""
    return with_local(program, of, loops, name, sets.modulo, of.depth + 1, of.depth + 1)


def with_local(
    program: Program,
    of: Recurrence,
    loops: tuple[LoopId, ...],
    name: str,
    place: Callable[[isl.Aff, int], isl.Aff],
    width: int,
    size: int,
) -> Program:
    """The program with a buffer of the recurrence inside of `loops`, whose `size` levels are found by `place`."""
    storage = program.storages[of.source]
    own = program.buffers[storage.buffer]
    values = with_form(storage, of, place(place_of_level(storage, of), width))
    space = sets.extended_frame(storage.index.get_space().domain(), len(loops))
    inner = sets.function(space, None, sets.variables(space)[len(loops) :])
    extents = (*own.extents[: of.axis], Const(size, int64), *own.extents[of.axis + 1 :])
    buffer = replace(own, name=name, extents=extents, scope=loops, passed=None)
    return program.with_buffer(buffer).with_storage(Storage(name, of.source, name, sets.compose(inner, values)))


def levels_copied(
    program: Program,
    of: Recurrence,
    outer: tuple[LoopId, ...],
    pairs: isl.Map,
    name: str,
    way: tuple[str, str],
    command: str,
) -> Program:
    """The program with copies of a segment's first levels from one storage to another, those of `way`.

    From a file they are transfers of a level each, which the host waits for.
    """
    declared = program.algorithm.computations[of.source]
    dims = distinct([*(program.loops[loop].name for loop in outer), *declared.iterators])
    instances = sets.with_dims(sets.flat_pairs(pairs, name), dims)
    space = instances.get_space()
    variables = sets.variables(space)
    first = program.next_loop()
    loops = [Loop(first + k, iterator) for k, iterator in enumerate(declared.iterators)]
    statement = Statement(
        name=name,
        source=of.source,
        role=Role.COPY,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, of.source, variables[len(outer) :]),
        loops=(*outer, *(each.id for each in loops)),
        coords=sets.renamed(sets.identity(space), None),
        body=_value(program, of.source),
        memory=MemoryUse(target=way[1], sources={of.source: way[0]}),
    )
    program = program.with_loop(*loops)
    if program.buffers[program.storages[way[0]].buffer].memory is not Memory.FILE:
        return program.with_statement(statement)
    program = program.with_statement(
        replace(statement, link=replace(statement.link, transfer=Transfer(FILES, None, stream=LOADS)))
    )
    return collapsed(program, name, [loop.id for axis, loop in enumerate(loops) if axis != of.axis], command)


def levels_again(
    program: Program, of: Recurrence, outer: tuple[LoopId, ...], pairs: isl.Map, again: str
) -> tuple[Program, list[str]]:
    """The statements of the recurrence once more, inside the loops over segments, for the values of each."""
    names: list[str] = []
    for statement in of.own:
        wanted = again if len(of.own) == 1 else f"{again}_{statement.name}"
        name = wanted if wanted not in program.statements else free_name(program, wanted)
        program, loops = cloned(program, statement.loops)
        clone = on_instances(statement, name, sets.named(statement.instances, name), loops)
        clone = replace(
            clone, memory=replace(clone.memory, target=again, sources={**clone.memory.sources, of.source: again})
        )
        values = sets.graph(program.value_of(clone), clone.instances)
        pairs_here = pairs.apply_range(sets.range_named(values, None).reverse())
        program = program.with_statement(moved_into(program, clone, outer, pairs_here.coalesce()))
        names.append(name)
    return program, names


def folded(program: Program, of: Recurrence, window: int) -> Program:
    """The program in which the recurrence itself keeps `window` levels, which follow one another."""
    storage = program.storages[of.source]
    buffer = program.buffers[storage.buffer]
    index = with_form(storage, of, sets.modulo(place_of_level(storage, of), window))
    extents = (*buffer.extents[: of.axis], Const(window, int64), *buffer.extents[of.axis + 1 :])
    program = program.with_buffer(replace(buffer, extents=extents, passed=None))
    return program.with_storage(replace(storage, index=index))
