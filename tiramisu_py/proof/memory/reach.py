"""Memory is within reach: the host touches no GPU memory, a kernel no host memory, and shared memory and registers are
used only by their own block, or thread.

Registers that separate thread loops use belong to the threads with the numbers of those loops: a value is read by the
thread that has stored it, in whatever loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.loops import GpuThread, LoopId, Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import axes
from tiramisu_py.program.statement import FILES, Device, Role, Statement
from tiramisu_py.program.storage import Buffer, Home, Memory, Storage
from tiramisu_py.proof.memory.values import first_spot
from tiramisu_py.proof.violations.findings import Finding, Key, access_key, reading, words
from tiramisu_py.sets import smallest


def findings(flow: Flow, _: Key | None = None) -> Iterator[Finding]:
    """Every statement that cannot reach the memory it loads from or stores to."""
    program = flow.accesses.program
    nests = {s.name: nest for nest in flow.kernels for s in nest.statements}
    for statement, storage, does in used(flow):
        buffer = program.buffers[storage.buffer]
        found = _fault(program, nests.get(statement.name), statement, buffer, does)
        if found is not None:
            message, repair = found
            witness = Witness({}, reader=(statement.source, ()), element=(buffer.name, ()))
            key = Key("reach", (statement.name, buffer.name))
            yield Finding.of(key, Violation("reach", message, witness, repair=repair))
    for buffer in program.buffers.values():
        if buffer.per_thread and not any(s.name in flow.accesses.partials for s in program.storages_in(buffer.name)):
            for home in flow.accesses.homes_of(buffer.name):
                yield from _of_other_threads(flow, home)


def _of_other_threads(flow: Flow, home: Home) -> Iterator[Finding]:
    """Every read of a value that only other threads have in their registers."""
    for read in flow.accesses.readers(home):
        stored = [w for w in flow.accesses.writers(home) if w.source == read.source]
        if not stored:
            continue
        own = sets.union_of(write.domain.apply(_in_thread(write)) for write in stored)
        bad = read.domain.subtract(own.apply(_in_thread(read).reverse()))
        anywhere = sets.union_of(write.domain.apply(_in_thread(write, any_thread=True)) for write in stored)
        bad = bad.intersect(anywhere.apply(_in_thread(read, any_thread=True).reverse()))
        if not bad.is_empty():
            key = Key("registers of another thread", access_key(read))
            yield Finding(key, partial(_in_words, flow, read, stored, bad))


def _in_thread(access: MemoryAccess, any_thread: bool = False) -> isl.Map:
    """``access -> [owner, thread, value]``; without the thread, if it may be any."""
    owner = sets.outputs(access.place)[: access.owners - (3 if any_thread else 0)]
    values = sets.outputs(access.value)
    return sets.graph(sets.function(access.domain.get_space(), None, [*owner, *values]), access.domain)


def _in_words(flow: Flow, read: MemoryAccess, stored: Sequence[MemoryAccess], bad: isl.Set) -> Violation:
    program, spot = flow.accesses.program, first_spot(read, bad)
    place = smallest.evaluated(read.place, spot.at, spot.params)
    owner, mine = place[: read.owners - 3], place[read.owners - 3 : read.owners]
    at = smallest.singleton(_in_thread(read, any_thread=True).get_space().range(), (*owner, *spot.named[1]))
    at = sets.at_params(at, spot.params)
    write = next(w for w in stored if not at.intersect(w.domain.apply(_in_thread(w, any_thread=True))).is_empty())
    having = first_spot(write, at.apply(_in_thread(write, any_thread=True).reverse()).intersect(write.domain))
    other = smallest.evaluated(write.place, having.at, spot.params)[read.owners - 3 : read.owners]
    witness = Witness(spot.params, spot.named, spot.computed(program), spot.element)
    assert write.actor.statement is not None and read.actor.statement is not None
    message = (
        f"{reading(program, spot)} reads {words(spot.named)} in thread {_thread(mine)} of a block, and thread "
        f"{_thread(other)} has it in its registers, {witness}"
    )
    written = write.actor.statement.handle
    copies = _replicas(program, read, write.actor.statement)
    repair = (
        f"{copies}give {read.actor.statement.handle} thread loops that run over it as those of {written} do, or "
        f"{read.source}.store_in(tm.SHARED)"
    )
    return Violation("reach", message, witness, repair=repair)


def _replicas(program: Program, read: MemoryAccess, writer: Statement) -> str:
    """The command that gives all threads along a reader's loop copies of a value that does not depend on it."""
    reader = read.actor.statement
    assert reader is not None and read.coords is not None
    named = set[int]().union(*(sets.axes_of(form) for form in sets.outputs(read.value)))
    for number, form in zip(reader.loops, sets.outputs(read.coords), strict=True):
        loop = program.loops[number]
        along = isinstance(loop.tag, GpuThread) and loop.name not in program.loop_names(writer)
        if along and not sets.axes_of(form) & named:
            return f"{writer.source}.replicate({loop.name}) and thread loops as those of {reader.handle}; or "
    return ""


def _thread(number: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, number))})"


def used(flow: Flow) -> Iterator[tuple[Statement, Storage, str]]:
    """The storages that each statement stores to or loads from, with the verb for it."""
    program = flow.accesses.program
    for statement in program.acting:
        if statement.stores:
            yield statement, program.storages[statement.memory.target], "stores to"
        for source in flow.accesses.sources(statement):
            yield statement, program.storage_for(statement, source), "reads"


def _fault(
    program: Program, nest: KernelNest | None, statement: Statement, buffer: Buffer, does: str
) -> tuple[str, str] | None:
    who = f"{statement.handle} {does} {buffer.name}"
    if buffer.argument and buffer.memory is Memory.HOST_MAPPED and axes(program):
        return f"{who}, a unified array, in a function of ranks, which have no part of such arrays", _of_ranks(buffer)
    if buffer.memory is Memory.FILE and axes(program):
        words = f"{who}, which is in a file, in a function of ranks, whose files are not agreed on"
        return words, "keep its values in memory, or run the part with files as a function of its own on each rank"
    if statement.link.transfer is not None and buffer.name in _ends(
        program, statement
    ):  # the host reads what its conditions name
        return _transferred(program, statement, buffer)
    if buffer.memory is Memory.FILE:
        return f"{who}, which is in a file: only transfers touch files", _through_memory(program, statement, buffer)
    if nest is None:
        return _from_host(program, statement, who, buffer) or _in_threads(program, who, buffer)
    if buffer.memory is Memory.SHARED:
        return _shared(program, nest, who, buffer)
    if buffer.memory is Memory.REGISTER:
        return _register(program, nest, statement, who, buffer, does == "reads")
    if nest.blocks[0] in buffer.scope:
        loops = _names(program, buffer.scope)
        where = f"in {buffer.memory.value} memory, once for each iteration of ({loops}) inside of a kernel"
        own = [storage.source for storage in program.storages_in(buffer.name)]
        repair = f"{own[0]}.store_in(tm.SHARED), or tm.REGISTER where one thread alone uses it"
        return f"{who}, which is {where}: a kernel cannot allocate such memory", repair
    return None


def _of_ranks(buffer: Buffer) -> str:
    return f"keep {buffer.name} in tm.HOST memory: transfers copy what each rank's GPU reads"


def _through_memory(program: Program, statement: Statement, buffer: Buffer) -> str:
    """How to have values in memory that are kept in a file."""
    source = next(storage.source for storage in program.storages_in(buffer.name))
    f, own = program.algorithm.name, source == buffer.name
    first = f"{source}.store_in(tm.HOST), then " if own else ""
    return f"{first}{f}.create_xfer(..., {source}[...], tm.CPU2FILE) and tm.FILE2CPU, or {source}.offload(...)"


def _devices_at(program: Program, transfer: Statement, buffer: Buffer) -> list[Device]:
    """The devices of the ends of a transfer that are in this buffer."""
    assert transfer.link.transfer is not None
    devices = transfer.link.transfer.source, transfer.link.transfer.target
    return [device for name, device in zip(_ends(program, transfer), devices, strict=True) if name == buffer.name]


def _ends(program: Program, transfer: Statement) -> tuple[str, str]:
    """The buffers that a transfer copies from and to."""
    return program.storage_for(transfer, transfer.source).buffer, program.storages[transfer.memory.target].buffer


def _from_host(program: Program, statement: Statement, who: str, buffer: Buffer) -> tuple[str, str] | None:
    if buffer.memory is Memory.SHARED:
        return f"{who} on the host, but {buffer.name} is in shared memory, which only its kernel reaches", (
            "copy it to global memory inside the kernel, or compute it there"
        )
    if buffer.memory is Memory.GPU:
        message = f"{who} on the host, but {buffer.name} is in GPU memory alone"
        both = _on_both(program, buffer)
        if statement.is_call:
            return message, both
        return message, f"run {statement.handle} on the GPU with tag_gpu, or {both}"
    return None


def _in_threads(program: Program, who: str, buffer: Buffer) -> tuple[str, str] | None:
    """Memory that only one host thread at a time allocates, but that each iteration of a concurrent loop needs."""
    tags = ((program.loops[loop], program.loops[loop].tag) for loop in buffer.scope)
    loop = next((loop for loop, tag in tags if isinstance(tag, Parallel | Vector)), None)
    if buffer.memory not in (Memory.PINNED, Memory.HOST_MAPPED) or loop is None:
        return None
    where = f"in {buffer.memory.value} memory, once for each iteration of the concurrent loop {loop.name}"
    own = next(storage.source for storage in program.storages_in(buffer.name))
    return f"{who}, which is {where}: one thread of the host allocates such memory", f"{own}.store_in(tm.HOST)"


def _on_both(program: Program, buffer: Buffer) -> str:
    """How to keep a buffer that is only in GPU memory on the host as well."""
    derived = f"{program.algorithm.name}.derive_transfers()"
    if buffer.name in program.algorithm.inputs:
        return f"declare {buffer.name} without memory=tm.GPU_MEMORY: {derived} then copies it to where it is read"
    source = next(storage.source for storage in program.storages_in(buffer.name))
    return f"keep it on both: {source}.store_in(tm.HOST) and {derived}"


def _transferred(program: Program, statement: Statement, buffer: Buffer) -> tuple[str, str] | None:
    assert statement.link.transfer is not None
    who = f"the transfer {statement.name} copies {buffer.name}"
    if buffer.memory in (Memory.SHARED, Memory.REGISTER):
        return f"{who}, which is in {buffer.memory.value} memory: only its kernel reaches it", ""
    if (buffer.memory is Memory.FILE) != (FILES in _devices_at(program, statement, buffer)):
        return f"{who} to or from a file, which it is not kept in", ""
    if buffer.memory is Memory.HOST_MAPPED:
        remove = f"{program.algorithm.name}.remove({statement.name})"
        return f"{who}, which is host_mapped: every device addresses the one copy there is", remove
    if statement.link.transfer.source == statement.link.transfer.target:
        return f"{who} from a memory to itself", f"{program.algorithm.name}.remove({statement.name})"
    if buffer.memory is Memory.GPU and None in (statement.link.transfer.source, statement.link.transfer.target):
        advice = f"keep {buffer.name} in memory=tm.HOST"
        return f"{who} from or to the host, but {buffer.name} is in GPU memory alone", advice
    return None


def _shared(program: Program, nest: KernelNest, who: str, buffer: Buffer) -> tuple[str, str] | None:
    expected = nest.host + nest.blocks
    if buffer.scope == expected:
        return None
    loops = _names(program, nest.blocks)
    counted = nest.other_part.counted if nest.is_last and nest.other_part is not None else ()
    if set(counted) & set(buffer.scope):
        return (
            f"{who}, which is in the shared memory of each block of loop {_names(program, counted)}, in the last one",
            ("keep it in memory=tm.GPU_MEMORY, where all blocks reach it"),
        )
    if expected[: len(buffer.scope)] == buffer.scope:
        return f"{who}, which is in shared memory, but not within the block loops {loops} of its kernel", (
            f"compute it at {program.loops[nest.blocks[-1]].name}, or inside"
        )
    if buffer.scope[: len(expected)] != expected:
        where = f"in the shared memory of another kernel, with the block loops {_names(program, buffer.scope)}"
        advice = f"compute_at a block loop of this kernel ({loops}), or keep it in memory=tm.GPU_MEMORY"
        return f"{who}, which is {where}", advice
    inside = _names(program, buffer.scope[len(expected) :])
    return f"{who}, which is in shared memory, but exists once for each iteration of ({inside}) inside a block", (
        "reuse its elements in each iteration, or keep it in memory=tm.REGISTER"
    )


def _register(
    program: Program, nest: KernelNest, statement: Statement, who: str, buffer: Buffer, does_read: bool
) -> tuple[str, str] | None:
    outside: list[LoopId] = [
        loop for loop in statement.loops if isinstance(program.loops[loop].tag, GpuThread) and loop not in buffer.scope
    ]
    if buffer.per_thread or (does_read and set(nest.blocks) <= set(buffer.scope) and _all_have(program, buffer)):
        return None
    if outside or not set(nest.blocks) <= set(buffer.scope):
        names = _names(program, tuple(outside) or nest.blocks)
        where = f"in registers, but exists once for all iterations of ({names}), which different threads run"
        return f"{who}, which is {where}", "compute it inside of the thread loops, or keep it in memory=tm.SHARED"
    return None


def _all_have(program: Program, buffer: Buffer) -> bool:
    """Whether each thread has the results of trees in its own registers: started with a constant, merged by all."""
    stored = [s for s in program.storing if program.storages[s.memory.target].buffer == buffer.name]
    started = all(not s.loads for s in stored if s.role is not Role.MERGE)
    return started and any(s.role is Role.MERGE for s in stored)


def _names(program: Program, loops: tuple[LoopId, ...]) -> str:
    return ", ".join(program.loops[loop].name for loop in loops)
