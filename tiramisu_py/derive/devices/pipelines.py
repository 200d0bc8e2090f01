"""Pipelines, loops of the host around kernels: each iteration uploads the values that it is the first to read.

    copy all of x to the GPU         for k: copy to the GPU what k reads of x, less what was brought for 0 .. k
    for k: kernel y = f(x)    -->           kernel y = f(x)
    copy all of y to the host               copy to the host what k stores of y

A value is uploaded for its first read: the lexicographic minimum, over all its readers on that GPU, of their times in
the loops that the host runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.dependence.value_boxes import box_around
from tiramisu_py.derive.devices.needs import keys
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name


@dataclass(frozen=True, eq=False)
class FirstRead:
    """Values that are first read in iterations of loops of the host: ``coordinates of the loops -> value``."""

    loops: tuple[LoopId, ...]
    values: isl.Map


# -- the loops


def pipelines(program: Program, given: object) -> frozenset[LoopId]:
    """The loops that ``pipeline=`` names; raises `CommandError` for any that is not a host loop around kernels."""
    wanted = list(given) if isinstance(given, list | tuple) else [given]
    found: set[LoopId] = set()
    for each in wanted:
        found |= _named(program, loop_name(each))
    return frozenset(found)


def _named(program: Program, name: str) -> set[LoopId]:
    on_gpus = [s for s in program.storing if program.kernel_of(s) is not None]
    around = [(s, loop) for s in on_gpus if (loop := find(program, s, name)) is not None]
    outside = {loop for s, loop in around if s.depth(loop) < program.host_depth(s)}
    if not around:
        raise CommandError(f"pipeline={name}: {_why_none(program, on_gpus, name)}")
    if not outside:
        statement, loop = around[0]
        kind = program.loops[loop].tag
        raise CommandError(
            f"pipeline={name}: loop {name} is {'a loop' if kind is None else f'a {kind.name} loop'} inside the kernel "
            f"of {statement.name}; the loops of a pipeline are the host's, as a split outside of the kernel makes them"
        )
    for one in (program.loops[number] for number in outside):
        if one.tag is not None:
            raise CommandError(
                f"pipeline={name}: the iterations of loop {name} do not follow one another, since it is tagged by "
                f"{one.tagged_by}; the loops of a pipeline are sequential ones of the host around kernels"
            )
    return outside


def _why_none(program: Program, on_gpus: Sequence[Statement], name: str) -> str:
    if not on_gpus:
        return "nothing runs on a GPU; run loops inside of it on one first (tag_gpu, gpu_tile)"
    if any(loop.name == name for loop in program.loops.values()):
        return f"no kernel is inside loop {name}; one of the host goes around kernels with tm.gpu(chunk=...) or split"
    around = dict.fromkeys(loop for s in on_gpus for loop in s.loops[: program.host_depth(s)])
    names = ", ".join(program.loops[loop].name for loop in around if not program.loops[loop].is_rank)
    known = (
        f"those around kernels are {names}"
        if names
        else "split one and leave the outer loop to the host, or partition with tm.gpu(chunk=...)"
    )
    return f"no loop is called {name}; {known}"


def depth_in(program: Program, statement: Statement, along: frozenset[LoopId]) -> int:
    """The number of a kernel's loops down to its innermost pipeline loop; 0 if there is none."""
    if program.kernel_of(statement) is None:
        return 0
    host = statement.loops[: program.host_depth(statement)]
    return max((depth + 1 for depth, loop in enumerate(host) if loop in along), default=0)


# -- first reads


def first_reads(
    program: Program, readers: Sequence[MemoryAccess], values: isl.Set, spare: isl.Set, along: frozenset[LoopId]
) -> Iterator[FirstRead]:
    """The values whose first reader is in a pipeline, by the loops of that reader; each value once.

    The values that an iteration reads are extended to the box around them if the added values are to `spare`.
    """
    inside = [r for r in readers if r.actor.statement is not None]
    depths = {r: depth_in(program, statement_of(r), along) for r in inside}
    if not any(depths.values()):
        return
    size = 2 * max(depths[r] or program.host_depth(statement_of(r)) for r in inside)
    parts = list[tuple[tuple[LoopId, ...], isl.Map]]()
    piped: set[tuple[LoopId, ...]] = set()
    for reader in inside:
        statement = statement_of(reader)
        depth = depths[reader] or program.host_depth(statement)
        loops = statement.loops[:depth] if depths[reader] else (-1, len(parts))
        parts.append((loops, _time(program, reader, depth, size).intersect_domain(values)))
        piped |= {loops} if depths[reader] else set()
    times = sets.united_by_key(parts)
    times = {loops: _in_boxes(time, values.union(spare)) if loops in piped else time for loops, time in times.items()}
    first = sets.union_of(times.values()).lexmin()
    for loops in piped:
        found = first.intersect(times[loops])
        chosen = sets.variables(found.get_space().range())[1 : 2 * len(loops) : 2]
        coordinates = sets.graph(sets.function(found.get_space().range(), None, chosen))
        moved = found.apply_range(coordinates).reverse().coalesce()
        if not moved.is_empty():
            yield FirstRead(loops, moved)


def _in_boxes(times: isl.Map, allowed: isl.Set) -> isl.Map:
    """``value -> time`` with the values of each time extended to their box, if all of it is `allowed`."""
    scope = sets.out_size(times)
    around = box_around(sets.flat_pairs(times.reverse(), ""), scope)
    forms = sets.variables(around.get_space())
    name = sets.in_name(times)
    value, time = (sets.function(around.get_space(), *part) for part in ((name, forms[scope:]), (None, forms[:scope])))
    boxed = sets.graph(value, around).reverse().apply_range(sets.graph(time, around))
    return boxed.coalesce() if boxed.domain().is_subset(allowed) else times


def _time(program: Program, reader: MemoryAccess, depth: int, size: int) -> isl.Map:
    """``value -> [position, coordinate, position, coordinate, ...]`` of the reader's outermost loops."""
    assert reader.coords is not None
    space, coords = reader.domain.get_space(), sets.outputs(reader.coords)
    time: list[isl.Aff] = []
    for position, coordinate in zip(program.positions[reader.actor.name][:depth], coords, strict=False):
        time += [sets.constant(space, position), coordinate]
    time += [sets.constant(space, 0)] * (size - len(time))
    return keys(reader).reverse().apply_range(sets.graph(sets.function(space, None, time), reader.domain)).coalesce()
