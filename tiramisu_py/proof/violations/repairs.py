"""Repairs of a refused program: the shift that makes a fusion legal, an order, a larger buffer, a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.dimension_names import dimension_names
from tiramisu_py.algorithm.domains.extents import extent_of
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import DeclarationError
from tiramisu_py.program.loops import AXES, GpuThread
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Device, Role, Statement
from tiramisu_py.program.storage import Memory, Storage


def shift_repair(flow: Flow, read: MemoryAccess, writes: Sequence[MemoryAccess]) -> str:
    """The orders and shifts that place a read after others' writes of its value; "" if none are known."""
    reader = read.actor.statement
    steps: dict[int, int] = {}
    orders: dict[str, None] = {}
    for write in writes:
        writer = write.actor.statement
        if reader is None or writer is None or writer is reader:
            continue
        found = minimal_shift(flow, read, write)
        if found is None:
            return f"let {reader.handle} share fewer loops with {writer.handle}{_unlike(flow, writer, reader)}"
        depth, distance = found
        if distance:
            steps[depth] = max(steps.get(depth, 0), distance)
        elif loop := _common_loop(flow, writer, reader):
            order = ", ".join(s.handle for s in (reader, writer))
            return f"{flow.accesses.program.algorithm.name}.order({order}, at={loop})"
        elif chain := _between(flow, writer, reader):
            return chain
        elif not _first(flow, writer, reader):
            orders[f"{reader.handle}.after({writer.handle}, {_level(flow, writer, reader)})"] = None
    names = () if reader is None else flow.accesses.program.loop_names(reader)
    shifts = [f"{reader.handle}.shift({names[depth]}, {by})" for depth, by in steps.items() if reader is not None]
    return " and ".join([*orders, *shifts])


def _between(flow: Flow, writer: Statement, reader: Statement) -> str:
    """The fusions that place a writer between a reader and what the writer reads, if these two share a loop."""
    program, needed = flow.accesses.program, set(writer.loads)
    if shared(writer, reader) or program.ranks.axes or flow.kernels:
        return ""
    for name in reversed(list(program.algorithm.computations)):
        own = program.statements_of(name)
        needed |= {read for s in own if s.memory.target in needed for read in s.loads}
    for member in program.storing:
        count = shared(member, reader)
        if member is not reader and member.memory.target in needed and count and member.source != reader.source:
            loop = program.loop_names(reader)[count - 1]
            first, last = f"{writer.handle}.fuse({member.handle}", f"{reader.handle}.fuse({writer.handle}"
            instead = f"in place of what lets {reader.handle} and {member.handle} share {loop}"
            return f"{first}, {loop}, shift=True) and {last}, {loop}, shift=True), {instead}"
    return ""


def _common_loop(flow: Flow, writer: Statement, reader: Statement) -> str:
    """The loop that a receive should share with the recurrence that reads the values it brings; "" if there is none."""
    program = flow.accesses.program
    if not writer.receives or writer.source != reader.source or shared(writer, reader):
        return ""
    mine, theirs = program.loop_names(writer), program.loop_names(reader)
    alike = [name for name, other in zip(mine, theirs, strict=False) if name == other]
    rank_loops = {loop.name for loop in program.loops.values() if loop.is_rank}
    return alike[0] if alike and alike[0] == mine[0] and alike[0] not in rank_loops else ""


def _level(flow: Flow, a: Statement, b: Statement) -> str:
    """The innermost loop that two statements share."""
    count = shared(a, b)
    return flow.accesses.program.loop_names(a)[count - 1] if count else "tm.root"


def minimal_shift(flow: Flow, read: MemoryAccess, write: MemoryAccess) -> tuple[int, int] | None:
    """The loop (by depth) that two statements share, and the least distance to shift the reader there.

    The distances are those of the value flow, ``write -> read`` of one value, whatever the places are. None where no
    constant distance will do; 0 where none is needed.
    """
    writer, reader = write.actor.statement, read.actor.statement
    assert writer is not None and reader is not None
    count = shared(writer, reader)
    pairs = flow.same_value(write, read)
    times = pairs.apply_domain(write.prefix(count)).apply_range(read.prefix(count))
    for depth in range(count):
        if times.is_empty():
            return depth, 0
        least = sets.least_distance(times, depth)
        if least is None:
            return None
        if least < 0:
            return depth, -least + (0 if _in_order(flow, times, depth, -least, writer, reader) else 1)
        times = sets.equal_at(times, depth)
    return count, 0


def _in_order(flow: Flow, times: isl.Map, depth: int, by: int, writer: Statement, reader: Statement) -> bool:
    """Whether pairs that a shift brings into one iteration of the loop are in order further inside."""
    level = sets.equal_at(sets.shifted_out(times, depth, by), depth)
    space = level.get_space().domain()
    late = isl.Map.lex_gt(space) if _first(flow, writer, reader) else isl.Map.lex_ge(space)
    return bool(level.is_disjoint(late))


def _first(flow: Flow, a: Statement, b: Statement) -> bool:
    """Whether a stands before b in the body of the loops they share."""
    depth = shared(a, b)
    return flow.precedence.positions[a.name][depth] < flow.precedence.positions[b.name][depth]


def storage_repair(flow: Flow, read: MemoryAccess) -> str:
    """The advice that keeps a value from being overwritten."""
    program = flow.accesses.program
    tile = own_tile(program, read.storage)
    if tile:
        return tile
    others = [s.source for s in program.storages_in(read.storage.buffer) if s.name != read.storage.name]
    if others:
        return f"keep {read.source} in a buffer of its own, or order the last read of it before {', '.join(others)}"
    command = larger_modulo(flow, read.storage)
    larger = f"keep more values of {read.source} at a time"
    return f"{larger}: {command}" if command else f"{larger}: store_in with another layout, or a buffer of full size"


def own_buffer(write: MemoryAccess) -> str:
    """The advice that keeps a statement from overwriting elements that it reads."""
    return f"store {write.source} in a buffer of its own, not over {write.buffer.name}"


def own_tile(program: Program, storage: Storage) -> str:
    """Where to compute a tile in shared memory that each thread would fill on its own; "" for any other storage."""
    buffer = program.buffers[storage.buffer]
    threads = [loop for loop in storage.inner if isinstance(program.loops[loop].tag, GpuThread)]
    computed = any(s.memory.target == storage.name and s.role is not Role.COPY for s in program.storing)
    if buffer.memory is not Memory.SHARED or not threads or not computed:
        return ""
    return (
        f"shared memory is one for all threads of a block: compute {storage.source} at the block loop "
        f"{program.loops[buffer.scope[-1]].name}, not at the thread loop {program.loops[threads[-1]].name}"
    )


def transfer_repair(flow: Flow, read: MemoryAccess, source: Device) -> str:
    """The commands that bring what a read needs from the memory of another device."""
    name = flow.accesses.program.algorithm.name
    return f"{name}.derive_transfers(), or {create_xfer(flow, read, source, read.device)}"


def create_xfer(flow: Flow, read: MemoryAccess, source: Device, target: Device) -> str:
    """The command that copies all values of what is read from one device to another."""
    program = flow.accesses.program
    name = program.algorithm.name
    domain = flow.accesses.values.domain(read.source)
    dims = dimension_names(program.algorithm, read.source)
    ranges = ", ".join(f"{dim}: {_range(domain, axis, program.context)}" for axis, dim in enumerate(dims))
    ends = ("cpu" if source is None else "gpu", "cpu" if target is None else "gpu")
    devices = [device for device in (source, target) if device is not None]
    options = f", device={devices[0]}" if devices[0] else ""
    options += f", to_device={devices[1]}" if len(devices) > 1 else ""
    direction = f"tm.{ends[0].upper()}2{ends[1].upper()}"
    return f"{name}.create_xfer({{{ranges}}}, {read.source}[{', '.join(dims) or '()'}], {direction}{options})"


def onto_gpu(flow: Flow, host: Statement, kernel: Statement) -> str:
    """The command that runs a statement of the host on the GPU that another one is on; "" if that does not apply."""
    program = flow.accesses.program
    nest = next((nest for nest in flow.kernels if kernel in nest.statements), None)
    tags = [program.loops[loop].tag for loop in host.loops]
    if nest is None or program.queue_of(host) is not None or any(tags):
        return ""
    names, blocks = program.loop_names(host), [program.loops[loop].name for loop in nest.blocks]
    chosen = blocks if set(blocks) <= set(names) else list(names[: len(AXES)])
    options = [f"blocks=[{', '.join(chosen)}]"] if chosen else []
    options += [f"device={nest.launch.device}"] if nest.launch.device else []
    return f"{host.handle}.tag_gpu({', '.join(options)})"


def _range(domain: isl.Set, axis: int, context: isl.Set) -> str:
    """The values of one dimension as the user writes them: ``R``, or ``(1, R - 1)``; dots where they have no form."""
    try:
        low = of_params(sets.smallest_coordinate(domain, axis), context)
        end = extent_of(domain, axis, context)
    except (isl.Error, DeclarationError, ValueError):
        return "..."
    return str(end) if str(low) == "0" else f"({low}, {end})"


def _unlike(flow: Flow, writer: Statement, reader: Statement) -> str:
    """The shared loop that the two statements count differently, since it was split by different sizes."""
    for loop, one, other in zip(writer.loops, sets.outputs(writer.coords), sets.outputs(reader.coords), strict=False):
        sizes = [divisors(form) for form in (one, other)]
        if loop in reader.loops and all(sizes) and sizes[0] != sizes[1]:
            taken = [
                f"{', '.join(map(str, size))} in {s.handle}" for size, s in zip(sizes, (writer, reader), strict=True)
            ]
            name = flow.accesses.program.loops[loop].name
            return f", or split them alike: one iteration of {name} takes {taken[0]}, and {taken[1]}"
    return ""


def divisors(form: isl.Aff) -> list[int]:
    """The divisors of a form's floor divisions."""
    return sorted(sets.terms(div).denominator for _, div in sets.terms(form).divs)


# -- folded buffers
#
# How many values a folded buffer has to keep: the smallest modulo that makes every read see its value.


#: How many larger modulos are tried.
_MORE = 16
#: What isl may do to find one that serves all reads.
OPERATIONS = 1_500_000


def larger_modulo(flow: Flow, storage: Storage) -> str:
    """The command that folds by a larger modulo, ``p.fold(r, 3)`` or ``p.store_in([i % 3])``; "" if none is near."""
    try:
        with sets.apart(flow.accesses.program.algorithm.isl_context, OPERATIONS):
            return _larger_modulo(flow, storage)
    except isl.Error:
        return ""


def _larger_modulo(flow: Flow, storage: Storage) -> str:
    program = flow.accesses.program
    declared = program.algorithm.source(storage.source)
    buffer = program.buffers[storage.buffer]
    alone = len(list(program.storages_in(buffer.name))) == 1
    if storage.inner or not isinstance(declared, Computation) or not alone:
        return ""
    scope = len(buffer.scope)
    for axis, dimension, modulo in _folds(program, storage):
        if dimension < scope:
            continue
        for larger in range(modulo + 1, modulo + 1 + _MORE):
            if _serves(flow, _folded(program, storage, axis, dimension, larger), buffer.name):
                if scope:
                    return f"{declared.name}.fold({declared.iterators[dimension - scope]}, {larger})"
                return f"{declared.name}.store_in([{_indices(storage, declared, axis, dimension, larger)}])"
    return ""


def _folds(program: Program, storage: Storage) -> Iterator[tuple[int, int, int]]:
    """The components of an index that are a value index modulo the extent: (component, value index, modulo)."""
    components = sets.outputs(storage.index)
    variables = sets.variables(storage.index.get_space().domain())
    for axis, extent in enumerate(program.buffers[storage.buffer].extents):
        if not isinstance(extent, Const):
            continue
        for dimension, variable in enumerate(variables):
            if components[axis].plain_is_equal(sets.modulo(variable, int(extent.value))):
                yield axis, dimension, int(extent.value)


def _folded(program: Program, storage: Storage, axis: int, dimension: int, modulo: int) -> Program:
    """The program with one component of a storage's index folded by another modulo."""
    components = sets.outputs(storage.index)
    space = storage.index.get_space().domain()
    components[axis] = sets.modulo(sets.variables(space)[dimension], modulo)
    buffer = program.buffers[storage.buffer]
    extents = (*buffer.extents[:axis], Const(modulo, int64), *buffer.extents[axis + 1 :])
    index = sets.function(space, None, components)
    program = program.with_buffer(replace(buffer, extents=extents, passed=None))
    return program.with_storage(replace(storage, index=index))


def _serves(flow: Flow, program: Program, buffer: str) -> bool:
    other = Flow(MemoryAccesses(program, flow.accesses.values))
    homes = other.accesses.homes_of(buffer)
    return all(other.unserved(read).is_empty() for home in homes for read in other.accesses.readers(home))


def _indices(storage: Storage, declared: Computation, axis: int, dimension: int, modulo: int) -> str:
    """The index as the user would write it."""
    written = [_component(component, declared) for component in sets.outputs(storage.index)]
    written[axis] = f"{declared.iterators[dimension]} % {modulo}"
    return ", ".join(written)


def _component(aff: isl.Aff, declared: Computation) -> str:
    for name, variable in zip(declared.iterators, sets.variables(aff.get_domain_space()), strict=True):
        if aff.plain_is_equal(variable):
            return name
    return str(sets.constant_of(aff)) if sets.is_constant(aff) else str(aff)
