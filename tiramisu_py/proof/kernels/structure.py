"""Kernels are well formed: tagged loops can be launched, within the limits of a GPU, with no divergent barrier.

Barriers are under uniform control: if one thread of a block reaches a barrier, all do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Call
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.kernels import KernelNest, axis_name, is_locked
from tiramisu_py.program.loops import Bulk, Combine, GpuBlock, GpuThread, Loop, LoopId, Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.kernels import limits
from tiramisu_py.proof.kernels.bundled_blocks import of_bundles
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, fault


def findings(flow: Flow, _: Key | None = None) -> Iterator[Finding]:
    """Everything in a kernel, or around one, that no GPU can launch."""
    program = flow.accesses.program
    for statement in program.statements.values():
        yield from _misplaced(program, statement)
    for nest in flow.kernels:
        faults = list(structure(nest))
        yield from faults
        if not faults:
            yield from limits.faults(nest)
            yield from _divergent_barriers(nest)


def well_formed(nest: KernelNest) -> bool:
    """Whether the blocks and threads of a kernel can be numbered."""
    return not any(True for _ in structure(nest))


# -- outside of kernels


def _misplaced(program: Program, statement: Statement) -> Iterator[Finding]:
    """Loops of a statement with a tag that has no meaning there."""
    loops = [program.loops[loop] for loop in statement.loops]
    inside = program.kernel_of(statement) is not None
    for loop in loops:
        if isinstance(loop.tag, GpuThread) and not inside:
            message = f"loop {loop.name} of {statement.handle} runs on threads, but no loop around it runs on blocks"
            repair = f"{statement.handle}.tag_gpu(blocks=[...], threads=[{loop.name}])"
            yield fault("reach", "thread", statement, message, repair)
            break
    if _is_issued(program, statement):
        yield from _issued_concurrently(program, statement, loops)
    yield from _bulk(program, statement, loops)


def _is_issued(program: Program, statement: Statement) -> bool:
    """Whether a statement is put on a sequence by the host, is a wait, or calls other ranks."""
    calls = statement.link.message is not None or statement.calls_ranks
    return program.queue_of(statement) is not None or statement.role is Role.WAIT or calls


def _issued_concurrently(program: Program, statement: Statement, loops: list[Loop]) -> Iterator[Finding]:
    for loop in loops[: program.host_depth(statement)]:
        if isinstance(loop.tag, Parallel | Vector):
            what = "a kernel" if statement.link.transfer is None else "a transfer"
            what = "a wait" if statement.role is Role.WAIT else what
            why = "operations are put on their sequences by one thread of the host"
            if statement.link.message is not None:
                what, why = "a half of an exchange", "messages are exchanged by one thread of each rank"
            if statement.calls_ranks:
                what, why = "a call of all ranks", "ranks are called by one thread of each of them"
            message = f"{statement.handle} is {what} inside the {loop.tag.name} loop {loop.name}: {why}"
            yield fault("reach", "issued", statement, message, f"leave loop {loop.name} sequential")
            return


def _bulk(program: Program, statement: Statement, loops: list[Loop]) -> Iterator[Finding]:
    loops = [loop for loop in loops if not loop.is_rank]
    bulk = [isinstance(loop.tag, Bulk) for loop in loops]
    if not any(bulk):
        return
    first = loops[bulk.index(True)]
    if statement.link.transfer is None and statement.link.message is None and not statement.calls_ranks:
        message = f"loop {first.name} of {statement.handle} is collapsed to one operation, but this is not a transfer"
        yield fault("reach", "bulk", statement, message)
    elif not all(bulk[bulk.index(True) :]):
        inner = loops[bulk.index(True) + bulk[bulk.index(True) :].index(False)].name
        message = f"loop {first.name} of {statement.name} is collapsed to one operation, but loop {inner} inside is not"
        yield fault("reach", "bulk", statement, message, f"{statement.name}.collapse_many({first.name}, {inner})")
    elif len(program.with_this_loop(first.id)) > 1:
        others = ", ".join(s.handle for s in program.with_this_loop(first.id) if s is not statement)
        message = f"loop {first.name} of {statement.name} is one operation, but {others} is inside it as well"
        yield fault("reach", "bulk", statement, message)


# -- structure

_SHARED = "statements of one kernel share all of its block loops"


def structure(nest: KernelNest) -> Iterator[Finding]:
    """The fault that keeps the blocks and threads of a kernel from being numbered; at most one."""
    program = nest.program
    blocks = nest.blocks
    apart = _parted(nest)
    if apart is not None:
        yield apart
        return
    for statement in nest.statements:
        found = _nested(nest, statement, blocks) or _tags(nest, statement) or _foreign(statement)
        if found is not None:
            yield found
            return
    launches = {tag.launch for loop in blocks if isinstance(tag := program.loops[loop].tag, GpuBlock)}
    if len(launches) > 1:
        names = ", ".join(program.loops[loop].name for loop in blocks)
        message = f"the block loops {names} of the kernel of {nest.handle} are launched in different ways"
        yield fault("reach", "launch", nest.statements[0], message, "give all of them in one tag_gpu")
        return
    yield from (of_bundles(nest) if nest.launch.together else _unnumbered(nest))


def _parted(nest: KernelNest) -> Finding | None:
    """The fault of a kernel whose last block cannot go on: its parts share too little, or are not in order."""
    other, program = nest.other_part, nest.program
    if other is None or not nest.is_last:
        return None
    counting = other.blocks
    locked = next((program.loops[loop] for loop in counting if is_locked(program, loop)), None)
    if locked is not None:
        counted = ", ".join(program.loops[loop].name for loop in other.counted)
        message = (
            f"the blocks of loop {locked.name} add one after another ({locked.tagged_by}), and in the same kernel the "
            f"last block of loop {counted} goes on with {nest.handle}: its blocks cannot be counted and wait in turn"
        )
        repair = f"use combine=tm.ATOMIC for loop {locked.name}, or give {nest.handle} a kernel of its own"
        return fault("reach", "locked", nest.statements[0], message, repair)
    names = ", ".join(program.loops[loop].name for loop in counting)
    if nest.blocks != tuple(loop for loop in counting if loop not in other.counted) or other.launch.grid is not None:
        first = nest.statements[0]
        message = (
            f"{first.handle} is in the kernel of {other.handle}, outside of block loops whose last block goes on, but "
            f"its block loops are not the outermost ones of {names}"
        )
        return fault("reach", "blocks", first, message, _SHARED)
    depth = len(nest.host) + len(nest.blocks)
    position, last = program.positions, program.loops[other.counted[-1]].name
    ends = max(position[s.name][depth] for s in other.statements)
    tickets = [s for s in nest.statements if s.role is Role.TICKET]
    for statement in nest.statements:
        taken = [t for t in tickets if position[t.name][depth] <= position[statement.name][depth]]
        if position[statement.name][depth] > ends and not _is_counted(nest, statement, taken):
            message = (
                f"{statement.handle} is for the last block of loop {last}, but no tickets tell which block that is"
            )
            return fault("race", "ticket", statement, message)
        if position[statement.name][depth] < ends:
            message = (
                f"{statement.handle} is in the kernel of {other.handle} before its loop {last} over blocks: the last "
                "block runs what comes after that loop, and no block what comes before"
            )
            repair = f"order it after {other.handle}, or give it a kernel of its own before"
            return fault("reach", "blocks", statement, message, repair)
    return None


def _is_counted(nest: KernelNest, statement: Statement, tickets: Sequence[Statement]) -> bool:
    """Whether tickets are taken wherever a statement of the last block is executed."""
    around = len(nest.host) + len(nest.blocks)
    groups = [
        sets.graph(s.prefix(around), s.instances.intersect_params(nest.program.context.params())).range()
        for s in (statement, *tickets)
    ]
    return bool(groups[0].is_subset(sets.union_of([sets.empty(groups[0].get_space()), *groups[1:]])))


def _nested(nest: KernelNest, statement: Statement, blocks: tuple[LoopId, ...]) -> Finding | None:
    program, first, depth = nest.program, nest.statements[0], len(nest.host) + len(blocks)
    names = ", ".join(program.loops[loop].name for loop in blocks)
    if statement.loops[len(nest.host) : depth] != blocks:
        message = f"{statement.handle} is in the kernel of {first.handle}, but outside of its block loops {names}"
        return fault("reach", "blocks", statement, message, _SHARED)
    for loop in statement.loops[depth:]:
        if isinstance(program.loops[loop].tag, GpuBlock):
            words = f"loop {program.loops[loop].name} of {statement.handle} runs on blocks"
            if loop == statement.loops[depth]:  # the block loops end here for another statement
                message = f"{words}, but {first.handle}, in the same kernel, is outside of it"
                return fault("reach", "blocks", statement, message, _SHARED)
            between = program.loops[statement.loops[depth]].name
            message = f"{words}, but loop {between} between it and the block loops {names} does not"
            return fault("reach", "blocks", statement, message, f"interchange it with {between}")
    axes = [tag.axis for loop in blocks if isinstance(tag := program.loops[loop].tag, GpuBlock)]
    if len(set(axes)) < len(axes):
        message = f"two of the block loops {names} of {statement.handle} run along the same axis"
        return fault("reach", "axes", statement, message)
    return None


def _tags(nest: KernelNest, statement: Statement) -> Finding | None:
    program, seen = nest.program, dict[int, Loop]()
    for loop in (program.loops[number] for number in statement.loops[len(nest.host) :]):
        if isinstance(loop.tag, GpuThread):
            if loop.tag.axis in seen:
                first = seen[loop.tag.axis].name
                axis = axis_name(loop.tag.axis)
                message = f"loops {first} and {loop.name} of {statement.handle} both run on threads along axis {axis}"
                return fault("reach", "threads", statement, message)
            seen[loop.tag.axis] = loop
        if isinstance(loop.tag, Parallel | Bulk):
            what = "is parallel on the host" if isinstance(loop.tag, Parallel) else "is collapsed to one transfer"
            message = f"loop {loop.name} of {statement.handle} {what}, inside the kernel of {nest.handle}"
            return fault("reach", "host loop", statement, message, f"tag {loop.name} with threads=, or leave it")
        if isinstance(loop.tag, GpuBlock | GpuThread) and loop.tag.combine is Combine.PRIVATE:
            message = f"loop {loop.name} of {statement.handle} combines with tm.PRIVATE: that is for the host"
            return fault("reach", "combine", statement, message, "use combine=tm.ATOMIC or combine=tm.TREE")
    return None


def _foreign(statement: Statement) -> Finding | None:
    """The fault of a statement in a kernel that does what only the host can do."""
    if statement.link.transfer is not None:
        message = f"the transfer {statement.name} is inside a kernel: the host starts transfers"
        return fault("reach", "transfer", statement, message, f"order {statement.name} before or after the kernel")
    if statement.link.message is not None:
        message = f"{statement.handle} is inside a kernel: ranks exchange messages on the host"
        return fault("reach", "message", statement, message, f"order {statement.handle} before or after the kernel")
    if statement.role is Role.WAIT:
        message = f"the wait {statement.name} is inside a kernel: the host and operation sequences wait"
        return fault("reach", "wait", statement, message, f"order {statement.name} before or after the kernel")
    for expression in (statement.body, *statement.guards):
        for node in walk(expression):
            if isinstance(node, StageCall) or (isinstance(node, Call) and node.extern is not None):
                message = f"{statement.handle} calls {node.function} in a kernel, but that is a function of the host"
                return fault("reach", "extern", statement, message, "compute it outside of the kernel")
    return None


def _unnumbered(nest: KernelNest) -> Iterator[Finding]:
    loops = dict.fromkeys(loop for s in nest.statements for loop in s.loops if nest.program.loops[loop].is_gpu)
    for loop in loops:
        try:
            nest.corner(loop)
        except UnsupportedError as error:
            statement = next(s for s in nest.statements if loop in s.loops)
            yield fault("reach", "corner", statement, f"{error.what} ({statement.handle})", error.repair)
            return


# -- in the report


def _convergent(program: Program) -> str:
    has_barriers = any(statement.role is Role.BARRIER for statement in program.statements.values())
    return "all threads of a block come to every barrier" if has_barriers else ""


SENTENCES = (Sentence(Topic.BARRIERS, _convergent),)


def _divergent_barriers(nest: KernelNest) -> Iterator[Finding]:
    """Barriers that some threads of a block reach and others do not."""
    for statement in nest.statements:
        if statement.role in (Role.BARRIER, Role.COMBINE):
            missing = _absent(nest, statement)
            if not missing.is_empty():
                loops = (loop for loop in nest.thread_loops(statement) if loop is not None)
                names = ", ".join(nest.program.loops[loop].name for loop in loops)
                what = statement.handle if statement.role is Role.COMBINE else f"the barrier {statement.name}"
                message = (
                    f"{what} is under divergent control: not every thread of a block comes to it "
                    f"(it is inside of thread loop {names})"
                )
                repair = "place it outside of thread loops, with at="
                yield fault("race", "divergent", statement, message, repair)


def _absent(nest: KernelNest, barrier: Statement) -> isl.Map:
    """``clock -> thread`` of the threads that do not reach a barrier when another thread of their block does.

    Of a combination, it is threads of the same tree: those of others have other values, or none.
    """
    loops = list(nest.thread_loops(barrier))
    if barrier.link.combination is not None:
        own = barrier.link.combination.threads
        loops = [loop if axis in own else None for axis, loop in enumerate(loops)]
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
