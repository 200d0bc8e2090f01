"""Kernels are well formed: what is tagged can be launched, within the limits of a GPU, with no divergent barrier."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Call, Const
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import UnsupportedError, Violation, Witness
from tiramisu_py.program.kernels import MOST_ALONG, MOST_THREADS, KernelNest, axis_name
from tiramisu_py.program.loops import Bulk, Combine, GpuBlock, GpuThread, Loop, LoopId, Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.proof.findings import Finding, handle

#: Bytes of shared memory that a block can have at most (compute capability 9.0; more than 48 KiB are asked for).
MOST_SHARED_OPTED = 227 * 1024

#: What is wrong: a name for it that other states of the program can be asked for, and the violation.
Fault = tuple[str, Violation]


def findings(flow: Flow) -> Iterator[Finding]:
    """Everything in a kernel, or around one, that no GPU can launch."""
    for key, violation in _faults(flow):
        yield Finding(violation, partial(_persists, key=key))


def _persists(flow: Flow, key: str) -> bool:
    return any(found == key for found, _ in _faults(flow))


def _faults(flow: Flow) -> Iterator[Fault]:
    program = flow.touches.program
    for statement in program.statements.values():
        yield from _misplaced(program, statement)
    for nest in flow.kernels:
        faults = list(structure(nest))
        yield from faults
        if not faults:
            yield from _limits(nest)
            yield from _divergent(nest)


def well_formed(nest: KernelNest) -> bool:
    """Whether the blocks and threads of a kernel can be numbered."""
    return not any(True for _ in structure(nest))


def _fault(kind: str, key: str, statement: Statement, message: str, repair: str = "") -> Fault:
    witness = Witness({}, reader=(statement.source or statement.name, ()))
    return f"{key} {statement.name}", Violation(kind, message, witness, repair=repair)


# -- outside of kernels


def _misplaced(program: Program, statement: Statement) -> Iterator[Fault]:
    """Loops of a statement that are tagged where the tag means nothing."""
    loops = [program.loops[loop] for loop in statement.loops]
    inside = program.kernel_of(statement) is not None
    for loop in loops:
        if isinstance(loop.tag, GpuThread) and not inside:
            message = f"loop {loop.name} of {handle(statement)} runs on threads, but no loop around it runs on blocks"
            repair = f"{handle(statement)}.tag_gpu(blocks=[...], threads=[{loop.name}])"
            yield _fault("reach", "thread", statement, message, repair)
            break
    if program.queue_of(statement) is not None or statement.role is Role.WAIT:
        yield from _issued_concurrently(program, statement, loops)
    yield from _bulk(program, statement, loops)


def _issued_concurrently(program: Program, statement: Statement, loops: list[Loop]) -> Iterator[Fault]:
    for loop in loops[: program.host_depth(statement)]:
        if isinstance(loop.tag, Parallel | Vector):
            what = "a kernel" if statement.transfer is None else "a transfer"
            what = "a wait" if statement.role is Role.WAIT else what
            message = (
                f"{handle(statement)} is {what} inside the {loop.tag.name} loop {loop.name}: operations are put on "
                "their sequences by one thread of the host"
            )
            yield _fault("reach", "issued", statement, message, f"leave loop {loop.name} sequential")
            return


def _bulk(program: Program, statement: Statement, loops: list[Loop]) -> Iterator[Fault]:
    bulk = [isinstance(loop.tag, Bulk) for loop in loops]
    if not any(bulk):
        return
    first = loops[bulk.index(True)]
    if statement.transfer is None:
        message = f"loop {first.name} of {handle(statement)} is collapsed to one operation, but it is no transfer's"
        yield _fault("reach", "bulk", statement, message)
    elif not all(bulk[bulk.index(True) :]):
        inner = loops[bulk.index(True) + bulk[bulk.index(True) :].index(False)].name
        message = f"loop {first.name} of {statement.name} is collapsed to one operation, but loop {inner} inside is not"
        yield _fault("reach", "bulk", statement, message, f"{statement.name}.collapse_many({first.name}, {inner})")
    elif len(program.with_this_loop(first.id)) > 1:
        others = ", ".join(handle(s) for s in program.with_this_loop(first.id) if s is not statement)
        message = f"loop {first.name} of {statement.name} is one operation, but {others} is inside it as well"
        yield _fault("reach", "bulk", statement, message)


# -- structure


def structure(nest: KernelNest) -> Iterator[Fault]:
    """What keeps the blocks and threads of a kernel from being numbered; one fault at most for each statement."""
    program = nest.program
    blocks = nest.blocks
    for statement in nest.statements:
        fault = _nested(nest, statement, blocks) or _tags(nest, statement) or _foreign(statement)
        if fault is not None:
            yield fault
            return
    launches = {tag.launch for loop in blocks if isinstance(tag := program.loops[loop].tag, GpuBlock)}
    if len(launches) > 1:
        names = ", ".join(program.loops[loop].name for loop in blocks)
        message = f"the block loops {names} of the kernel of {nest.name} are launched in different ways"
        yield _fault("reach", "launch", nest.statements[0], message, "give all of them in one tag_gpu")
        return
    yield from _unnumbered(nest)


def _nested(nest: KernelNest, statement: Statement, blocks: tuple[LoopId, ...]) -> Fault | None:
    program, outside = nest.program, len(nest.host)
    names = ", ".join(program.loops[loop].name for loop in blocks)
    if statement.loops[outside : outside + len(blocks)] != blocks:
        message = f"{handle(statement)} is inside the kernel of {nest.name}, but does not share its block loops {names}"
        return _fault("reach", "blocks", statement, message, "statements of one kernel share all of its block loops")
    for loop in statement.loops[outside + len(blocks) :]:
        if isinstance(program.loops[loop].tag, GpuBlock):
            between = program.loops[statement.loops[outside + len(blocks)]].name
            message = (
                f"loop {program.loops[loop].name} of {handle(statement)} runs on blocks, but loop {between} between it "
                f"and the block loops {names} does not"
            )
            return _fault("reach", "blocks", statement, message, f"interchange it with {between}")
    axes = [tag.axis for loop in blocks if isinstance(tag := program.loops[loop].tag, GpuBlock)]
    if len(set(axes)) < len(axes):
        message = f"two of the block loops {names} of {handle(statement)} run along the same axis"
        return _fault("reach", "axes", statement, message)
    return None


def _tags(nest: KernelNest, statement: Statement) -> Fault | None:
    program, seen = nest.program, dict[int, Loop]()
    for loop in (program.loops[number] for number in statement.loops[len(nest.host) :]):
        if isinstance(loop.tag, GpuThread):
            if loop.tag.axis in seen:
                first = seen[loop.tag.axis].name
                axis = axis_name(loop.tag.axis)
                message = f"loops {first} and {loop.name} of {handle(statement)} both run on threads along axis {axis}"
                return _fault("reach", "threads", statement, message)
            seen[loop.tag.axis] = loop
        if isinstance(loop.tag, Parallel | Bulk):
            what = "is parallel on the host" if isinstance(loop.tag, Parallel) else "is collapsed to one transfer"
            message = f"loop {loop.name} of {handle(statement)} {what}, inside the kernel of {nest.name}"
            return _fault("reach", "host loop", statement, message, f"tag {loop.name} with threads=, or leave it")
        if isinstance(loop.tag, GpuBlock | GpuThread) and loop.tag.combine is Combine.PRIVATE:
            message = f"loop {loop.name} of {handle(statement)} combines with tm.PRIVATE: that is for the host"
            return _fault("reach", "combine", statement, message, "use combine=tm.ATOMIC or combine=tm.TREE")
    return None


def _foreign(statement: Statement) -> Fault | None:
    """What only the host can do."""
    if statement.transfer is not None:
        message = f"the transfer {statement.name} is inside a kernel: the host starts transfers"
        return _fault("reach", "transfer", statement, message, f"order {statement.name} before or after the kernel")
    if statement.role is Role.WAIT:
        message = f"the wait {statement.name} is inside a kernel: the host and operation sequences wait"
        return _fault("reach", "wait", statement, message, f"order {statement.name} before or after the kernel")
    for expression in (statement.body, *statement.guards):
        for node in walk(expression):
            if isinstance(node, Call) and node.extern is not None and not node.extern.source:
                message = (
                    f"{handle(statement)} calls {node.function} in a kernel, and there is no source of {node.function} "
                    "that a GPU could run"
                )
                repair = f"tm.extern({node.function!r}, ..., source=...)"
                return _fault("reach", "extern", statement, message, repair)
    return None


def _unnumbered(nest: KernelNest) -> Iterator[Fault]:
    loops = dict.fromkeys(loop for s in nest.statements for loop in s.loops if nest.program.loops[loop].is_gpu)
    for loop in loops:
        try:
            nest.corner(loop)
        except UnsupportedError as error:
            statement = next(s for s in nest.statements if loop in s.loops)
            message, _, repair = str(error).partition(": ")
            yield _fault("reach", "corner", statement, f"{message} ({handle(statement)})", repair)
            return


# -- limits


def _limits(nest: KernelNest) -> Iterator[Fault]:
    yield from _threads(nest)
    yield from _shared(nest)


def _threads(nest: KernelNest) -> Iterator[Fault]:
    some, shape = nest.statements[0], nest.shape
    extents = " x ".join(str(extent) for extent in shape if extent > 1) or "1"
    count = shape[0] * shape[1] * shape[2]
    where = f"the kernel of {nest.name}"
    for axis, extent in enumerate(shape):
        if extent > MOST_ALONG[axis]:
            most = f"a block has {MOST_ALONG[axis]:,} at most"
            message = f"{where} has {extent:,} threads along axis {axis_name(axis)}; {most}"
            yield _fault("bounds", "along", some, message, "split a thread loop by less")
            return
    if count > MOST_THREADS:
        message = f"{where} has {extents} = {count:,} threads in a block; a block has {MOST_THREADS:,} at most"
        yield _fault("bounds", "count", some, message, "split a thread loop by less")


def _shared(nest: KernelNest) -> Iterator[Fault]:
    buffers = shared_buffers(nest)
    for buffer in buffers:
        if not all(isinstance(extent, Const) for extent in buffer.extents):
            shape = ", ".join(map(str, buffer.extents))
            message = f"{buffer.name} is in shared memory and has the shape [{shape}], which is not constant"
            repair = "split the loops around what is copied by constants"
            yield _fault("bounds", "extents", nest.statements[0], message, repair)
            return
    total = sum(map(shared_bytes, buffers))
    if total > MOST_SHARED_OPTED:
        parts = ", ".join(f"{buffer.name} {shared_bytes(buffer):,}" for buffer in buffers)
        message = (
            f"the kernel of {nest.name} needs {total:,} bytes of shared memory in each block ({parts}); "
            f"a block has {MOST_SHARED_OPTED:,} at most"
        )
        yield _fault("bounds", "shared", nest.statements[0], message, "make the tiles smaller")


def shared_buffers(nest: KernelNest) -> list[Buffer]:
    """The buffers in shared memory that a kernel's statements use."""
    program = nest.program
    names: dict[str, None] = {}
    for statement in nest.statements:
        if statement.stores:
            used = [statement.target, *statement.sources.values(), statement.source]
            names |= dict.fromkeys(program.storages[name].buffer for name in used if name in program.storages)
    return [program.buffers[name] for name in names if program.buffers[name].memory is Memory.SHARED]


def shared_bytes(buffer: Buffer) -> int:
    """The bytes of a buffer with constant extents."""
    count = buffer.dtype.bytes
    for extent in buffer.extents:
        count *= int(extent.value) if isinstance(extent, Const) else 1
    return count


# -- barriers


def _divergent(nest: KernelNest) -> Iterator[Fault]:
    """Barriers that some thread of a block does not come to when others do."""
    for statement in nest.statements:
        if statement.role is Role.BARRIER:
            missing = _absent(nest, statement)
            if not missing.is_empty():
                loops = (loop for loop in nest.thread_loops(statement) if loop is not None)
                names = ", ".join(nest.program.loops[loop].name for loop in loops)
                message = (
                    f"the barrier {statement.name} is under divergent control: not every thread of a block comes to it "
                    f"(it is inside of thread loop {names})"
                )
                repair = "place it outside of thread loops, with at="
                yield _fault("race", "divergent", statement, message, repair)


def _absent(nest: KernelNest, barrier: Statement) -> isl.Map:
    """``clock -> thread`` of the threads that do not come to a barrier when another thread of their block does."""
    loops = nest.thread_loops(barrier)
    clocks = [aff for aff, loop in zip(sets.outputs(barrier.coords), barrier.loops, strict=True) if loop not in loops]
    instances = barrier.instances.intersect_params(nest.program.context.params())
    when = sets.graph(sets.function(barrier.frame, None, clocks), instances)
    used = [axis for axis, loop in enumerate(loops) if loop is not None]
    who = sets.graph(nest.numbers(barrier, [loops[axis] for axis in used]), instances)
    come = when.reverse().apply_range(who)
    everyone = sets.universe(who.get_space().range())
    for position, axis in enumerate(used):
        number = sets.variables(everyone.get_space())[position]
        everyone = everyone.intersect(sets.within(number, 0, nest.shape[axis]))
    return isl.Map.from_domain_and_range(when.range(), everyone).subtract(come)
