"""Races inside a kernel: between the blocks of one launch, and between the threads of one block.

Blocks have no order. Accesses by two threads of a block are ordered if a barrier is between them. Updates of one
reduction are excepted if the loops over these blocks or threads say how partial results are combined.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, LoopId
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.proof.kernels.structure import well_formed
from tiramisu_py.proof.memory.races import all_pairs, pair_key, pair_spots, statements
from tiramisu_py.proof.violations.findings import Finding, Key, Spot, reading, words
from tiramisu_py.proof.violations.repairs import own_buffer, own_tile
from tiramisu_py.sets import smallest

#: The sort of findings about two accesses.
_RACE = "race in a kernel"


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every pair of accesses of one kernel that conflict and have no order."""
    nests = nests_by_statement(flow)
    for a, b in all_pairs(flow, _RACE, sought) if nests else ():
        yield from _between(flow, nests, a, b)
        yield from _rounds(flow, nests, a, b)


def nests_by_statement(flow: Flow) -> dict[str, KernelNest]:
    """The kernel of each statement, malformed kernels left out: `proof.kernels.structure` says what is wrong."""
    return {s.name: nest for nest in flow.kernels if well_formed(nest) for s in nest.statements}


def _between(flow: Flow, nests: dict[str, KernelNest], a: MemoryAccess, b: MemoryAccess) -> Iterator[Finding]:
    nest, other = nests.get(a.actor.name), nests.get(b.actor.name)
    if nest is not None and other is not None and nest is not other and nest.first == other.first:
        yield from _between_parts(flow, nest, a, b)
    if nest is None or other is not nest or (a is b and _alone(a)):
        return
    conflict = flow.same_place(a, b)
    if conflict.is_empty():
        return
    bad = across_blocks(nest, a, b, conflict)
    if not bad.is_empty() and not (bad := flow.exclusions.possible(a, b, bad)).is_empty():
        yield Finding(pair_key(_RACE, a, b), partial(_block_race, flow, nest, a, b, bad))
    bad = across_threads(nest, a, b, conflict)
    if not bad.is_empty() and not (bad := flow.exclusions.possible(a, b, bad)).is_empty():
        yield Finding(pair_key(_RACE, a, b), partial(_thread_race, flow, nest, a, b, bad))


def _between_parts(flow: Flow, nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> Iterator[Finding]:
    """Conflicts of the last block with blocks that it has not counted: those of another group."""
    bad = flow.same_place(a, b)
    if not bad.is_empty():
        bad = bad.intersect(kernel_order.other_group(nest, a, b))
    if not bad.is_empty() and not (bad := flow.exclusions.possible(a, b, bad)).is_empty():
        yield Finding(pair_key(_RACE, a, b), partial(_group_race, flow, nest, a, b, bad))


def _rounds(flow: Flow, nests: dict[str, KernelNest], a: MemoryAccess, b: MemoryAccess) -> Iterator[Finding]:
    """Conflicts in shared memory between two rounds of a persistent kernel."""
    nest = nests.get(a.actor.name)
    if nest is None or nest.launch.grid is None or a.buffer.memory is not Memory.SHARED:
        return
    for first, second in ((a, b), (b, a)) if nests.get(b.actor.name) is nest else ():
        bad = kernel_order.across_rounds(nest, first, second)
        if not bad.is_empty():
            yield Finding(pair_key(_RACE, a, b), partial(_round_race, flow, nest, first, second, bad))
            return


def _alone(write: MemoryAccess) -> bool:
    """Whether no two instances store to one place."""
    return bool(isl.Map.from_multi_aff(write.place).is_injective() or write.places.is_injective())


# -- what is not ordered


def across_blocks(nest: KernelNest, a: MemoryAccess, b: MemoryAccess, conflict: isl.Map) -> isl.Map:
    """The conflicts ``a -> b`` between different blocks of one launch."""
    if len(a.buffer.scope) >= len(nest.host) + len(nest.blocks):
        return sets.no_pair(conflict)  # each block has its own
    bad = conflict.intersect(kernel_order.other_block(nest, a, b))
    if bad.is_empty() or not one_reduction(a, b):
        return bad
    host = len(nest.host)
    fixed = [host + k for k, loop in enumerate(nest.blocks) if combine_of(nest.program, loop) is None]
    first, second = a.prefix(host + len(nest.blocks)), b.prefix(host + len(nest.blocks))
    alike = isl.Map.universe(first.get_space().range().map_from_set())
    for position in fixed:
        alike = sets.equal_at(alike, position)
    combined = first.apply_range(alike).apply_range(second.reverse())
    return bad.subtract(combined.intersect(a.values.apply_range(b.values.reverse())))


def across_threads(nest: KernelNest, a: MemoryAccess, b: MemoryAccess, conflict: isl.Map) -> isl.Map:
    """The conflicts ``a -> b`` between different threads of one block that no barrier separates."""
    if a.buffer.memory is Memory.REGISTER:
        return sets.no_pair(conflict)  # each thread has its own
    bad = kernel_order.contending(nest, a, b, conflict)
    if not bad.is_empty() and one_reduction(a, b):
        bad = bad.subtract(_combined_threads(nest, a, b))
    return bad if bad.is_empty() else kernel_order.unsynchronised(nest, a, b, bad)


def _combined_threads(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of updates of one value, by threads that differ only along axes whose loops combine."""
    (first, second), program = statements(a, b), nest.program
    axes = zip(nest.thread_loops(first), nest.thread_loops(second), strict=True)
    merges = [statement.role is Role.MERGE for statement in (first, second)]  # by one thread, atomically
    free = [
        all(merge or (loop is not None and combine_of(program, loop)) for loop, merge in zip(pair, merges, strict=True))
        for pair in axes
    ]
    one, other = nest.thread_of(first), nest.thread_of(second)
    before = sets.graph(sets.compose(a.instance, one), a.domain)
    after = sets.graph(sets.compose(b.instance, other), b.domain)
    alike = isl.Map.universe(before.get_space().range().map_from_set())
    for axis, combines in enumerate(free):
        alike = alike if combines else sets.equal_at(alike, axis)
    return before.apply_range(alike).apply_range(after.reverse()).intersect(a.values.apply_range(b.values.reverse()))


def one_reduction(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether both are updates of one reduction."""
    return a.adds and b.adds and a.source == b.source and a.is_write and b.is_write


def combine_of(program: Program, loop: LoopId) -> Combine | None:
    tag = program.loops[loop].tag
    return tag.combine if isinstance(tag, GpuBlock | GpuThread) else None


# -- in words


def _block_race(flow: Flow, nest: KernelNest, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, other = pair_spots(flow, a, b, bad)
    where = f"{_block(nest, one)} and {_block(nest, other)} of the kernel of {nest.handle}, which have no order"
    message = f"{_conflict(flow, one, other)}, by {where}, {witness}"
    if a.is_write and b.is_write and a.source == b.source and one.named != other.named:
        return Violation("race", message, witness, repair=_apart(a))
    if one_reduction(a, b):
        loops = ", ".join(nest.program.loops[loop].name for loop in nest.blocks)
        combined = f"combine partial results of different blocks: {_combined(nest, a)}"
        repair = f"{combined}; or keep the reduced loop out of blocks ({loops})"
        repair = flow.exclusions.advice(a, b, bad, repair)
        return Violation("race", message, witness, repair=repair)
    first, second = statements(a, b)
    apart = "give the dependence a loop inside of a block, or a loop of the host around the kernel"
    if _in_place(a, b):
        apart = own_buffer(a)
    elif first is not second:
        apart = f"end the kernel between {first.handle} and {second.handle}: tag each of them as a kernel of its own"
    return Violation("race", message, witness, repair=apart)


def _group_race(flow: Flow, nest: KernelNest, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, other = pair_spots(flow, a, b, bad)
    whole = nest.other_part if nest.is_last else nest
    assert whole is not None
    kept = [nest.program.loops[loop].name for loop in whole.blocks if loop not in whole.counted]
    counted = [nest.program.loops[loop].name for loop in whole.counted]
    message = (
        f"{_conflict(flow, one, other)}, by blocks of different iterations of loop {', '.join(kept)}, and the last "
        f"block of loop {', '.join(counted)} comes after those of its own iteration alone, {witness}"
    )
    late = next(s for s in statements(a, b) if not any(loop in s.loops for loop in whole.counted))
    return Violation("race", message, witness, repair=f"end the kernel before {late.handle}: give it one of its own")


def _thread_race(flow: Flow, nest: KernelNest, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, other = pair_spots(flow, a, b, bad)
    threads = f"{thread_words(nest, one)} and {thread_words(nest, other)}"
    if thread_words(nest, one) == thread_words(nest, other):
        threads = f"{thread_words(nest, one)}, whose deferred copy may not have happened"
    message = f"{_conflict(flow, one, other)}, by {_block(nest, one)}, {threads}, with no barrier between, {witness}"
    if one_reduction(a, b):
        if one.named != other.named:
            return Violation("race", message, witness, repair=_apart(a))
        repair = f"combine partial results of different threads: {_combined(nest, a)}"
        repair = flow.exclusions.advice(a, b, bad, repair)
        return Violation("race", message, witness, repair=repair)
    tile = own_tile(nest.program, a.storage) or own_tile(nest.program, b.storage)
    apart = own_buffer(a) if _in_place(a, b) else _barrier(nest, *_in_order(flow, one, other))
    return Violation("race", message, witness, repair=tile or apart)


def _round_race(flow: Flow, nest: KernelNest, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, other = pair_spots(flow, a, b, bad)
    threads = (
        f"{thread_words(nest, one)} of {_block(nest, one)} and {thread_words(nest, other)} of {_block(nest, other)}"
    )
    message = (
        f"{threads} both use {words(one.element)}, and with grid={nest.launch.grid} one block runs both rounds: no "
        f"barrier is between the two rounds, {witness}"
    )
    return Violation("race", message, witness)


def _in_place(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether a statement, or the terms of a merge, stores to elements from which it reads another source."""
    first, second = statements(a, b)
    return first.handle == second.handle and a.source != b.source


def _apart(write: MemoryAccess) -> str:
    """The advice where different values of one source share an element."""
    return f"keep {write.source} in a buffer that has an element for each of its values"


def _in_order(flow: Flow, one: Spot, other: Spot) -> tuple[MemoryAccess, MemoryAccess]:
    """The accesses of two spots, the earlier one first."""
    a, b = (smallest.singleton(spot.access.domain.get_space(), spot.at) for spot in (one, other))
    pair = isl.Map.from_domain_and_range(sets.at_params(a, one.params), sets.at_params(b, one.params))
    if flow.precedence.happens(other.access, one.access, pair.reverse()):
        return other.access, one.access
    return one.access, other.access


def _conflict(flow: Flow, one: Spot, other: Spot) -> str:
    if not other.access.is_write:
        reader = reading(flow.accesses.program, other)
        stored = "it is stored" if other.named == one.named else f"{words(one.named)} is stored"
        return f"{reader} reads {words(other.named)} from {words(one.element)}, where {stored}"
    does = "update" if one_reduction(one.access, other.access) else "store to"
    if one.named == other.named:
        return f"two executions for {words(one.named)} both {does} {words(one.element)}"
    return f"{words(one.named)} and {words(other.named)} both {does} {words(one.element)}"


def _combined(nest: KernelNest, access: MemoryAccess) -> str:
    """The command that combines partial results, atomically or in a tree."""
    return f"{tagged(nest, access)}, combine=tm.ATOMIC), or tm.TREE where all threads of a block add to one element"


def tagged(nest: KernelNest, access: MemoryAccess) -> str:
    statement, _ = statements(access, access)
    if statement.link.combination is not None:
        statement = nest.program.statements[statement.link.combination.of]
    outer = sorted(nest.blocks, key=lambda loop: _axis(nest.program, loop), reverse=True)
    blocks = ", ".join(nest.program.loops[loop].name for loop in outer)
    own = [loop for loop in nest.thread_loops(statement) if loop is not None]
    threads = ", ".join(nest.program.loops[loop].name for loop in reversed(own))
    return f"{statement.handle}.tag_gpu(blocks=[{blocks}], threads=[{threads}]"


def _barrier(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> str:
    first, second = statements(a, b)
    program = nest.program
    common = [program.loops[loop] for loop in first.loops[: shared(first, second)]]
    level = next(loop.name for loop in reversed(common) if not isinstance(loop.tag, GpuThread))
    if first is second:
        return f"run the loop that carries the dependence inside of a thread, or put a barrier into it at {level}"
    command = f"{program.algorithm.name}.barrier({first.handle}, {second.handle}, at={level})"
    return command if nest.launch.barriers else f"{command}, or leave barriers=False out"


def _block(nest: KernelNest, spot: Spot) -> str:
    statement, _ = statements(spot.access, spot.access)
    axes = {_axis(nest.program, loop): loop for loop in nest.blocks}
    loops = [axes.get(axis) for axis in range(max(axes) + 1)]
    return f"block {_tuple(_numbers(nest, spot, statement, loops))}"


def thread_words(nest: KernelNest, spot: Spot) -> str:
    statement, _ = statements(spot.access, spot.access)
    used = max((axis for axis, extent in enumerate(nest.shape) if extent > 1), default=0) + 1
    return f"thread {_tuple(_numbers(nest, spot, statement, nest.thread_loops(statement))[:used])}"


def _numbers(
    nest: KernelNest, spot: Spot, statement: Statement, loops: list[LoopId | None] | tuple[LoopId | None, ...]
) -> tuple[int, ...]:
    instance = smallest.evaluated(spot.access.instance, spot.at, spot.params)
    return smallest.evaluated(nest.numbers(statement, loops), instance, spot.params)


def _axis(program: Program, loop: LoopId) -> int:
    tag = program.loops[loop].tag
    assert isinstance(tag, GpuBlock | GpuThread)
    return tag.axis


def _tuple(numbers: tuple[int, ...]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"({', '.join(map(str, numbers))})"
