"""The order inside a kernel: the thread of each instance, and the accesses that a barrier separates.

Every thread of a block runs the statements of its kernel in the order of *sigma*: their time without the coordinates
of thread loops. Between two threads of one block there is no other order than that of barriers: x comes before y where
some barrier b has sigma(x) < sigma(b) < sigma(y). A deferred copy x needs as many barriers as it says, one after
another. Between two blocks of one launch there is no order at all. In a
launch with a grid a block may go on as another one, in the memory that it has: a barrier at the end of the one, or at
the beginning of the other, is what orders the accesses of their threads.

The *clock* of a statement is the vector of its loop coordinates, without thread loops and without loops over ranks
(which run side by side). Two statements are ordered by the clock coordinates of the loops they share, and then by
their static positions.
"""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.loops import GpuBlock, GpuThread, Rank
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


def statement_of(access: MemoryAccess) -> Statement:
    """The statement of an access that is not the caller's."""
    assert access.actor.statement is not None
    return access.actor.statement


def ticking(program: Program, statement: Statement, count: int | None = None) -> list[int]:
    """The depths of a statement's outermost `count` loops (default: all), without thread and rank loops."""
    loops = statement.loops[:count]
    return [depth for depth, loop in enumerate(loops) if not isinstance(program.loops[loop].tag, GpuThread | Rank)]


def clock(program: Program, access: MemoryAccess, count: int | None = None) -> isl.Map:
    """The coordinates of the outermost `count` loops (default: all), without thread and rank loops."""
    assert access.coords is not None
    forms = sets.outputs(access.coords)
    kept = [forms[depth] for depth in ticking(program, statement_of(access), count)]
    return sets.graph(sets.function(access.domain.get_space(), None, kept), access.domain)


# -- threads and blocks


def same_block(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of one launch and one block."""
    return _blocks(nest, a).apply_range(_blocks(nest, b).reverse())


def other_block(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of one launch, but different blocks."""
    host, depth = len(nest.host), len(nest.host) + len(nest.blocks)
    before, after = _blocks(nest, a), _blocks(nest, b)
    return _different(before, after, host, range(host, depth))


def other_group(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of one launch, one of them by a last block that has not counted the block of the other.

    A last block has counted those with its own coordinates of the block loops that are not counted.
    """
    host, depth = len(nest.host), len(nest.host) + len(nest.blocks) - len(nest.counted)
    return _different(a.prefix(depth), b.prefix(depth), host, range(host, depth))


def same_thread(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of one launch, one block and one thread."""
    return _threads(nest, a).apply_range(_threads(nest, b).reverse())


def other_thread(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of one launch and one block, but different threads."""
    depth = len(nest.host) + len(nest.blocks)
    loops = zip(nest.thread_loops(statement_of(a)), nest.thread_loops(statement_of(b)), strict=True)
    axes = [depth + axis for axis, pair in enumerate(loops) if pair != (None, None)]
    return _different(_threads(nest, a), _threads(nest, b), depth, axes)


def contending(nest: KernelNest, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map:
    """The pairs ``a -> b`` that only a barrier can order: pairs of different threads of one block.

    Pairs of one thread are included if the earlier access is a deferred copy, which only barriers complete.
    """
    found = pairs.intersect(other_thread(nest, a, b))
    first, second = statement_of(a), statement_of(b)
    if not (first.link.deferred or second.link.deferred):
        return found
    own = pairs.intersect(same_thread(nest, a, b))
    before, after = clock(nest.program, a), clock(nest.program, b)
    if first.link.deferred:
        found = found.union(own.intersect(_through(before, earlier(nest, first, second), after)))
    if second.link.deferred:
        found = found.union(own.intersect(_through(before, earlier(nest, second, first).reverse(), after)))
    return found


def _through(before: isl.Map, times: isl.Map, after: isl.Map) -> isl.Map:
    return before.apply_range(times).apply_range(after.reverse())


def _blocks(nest: KernelNest, access: MemoryAccess) -> isl.Map:
    """``access -> [loops of the host, blocks]``."""
    return access.prefix(len(nest.host) + len(nest.blocks))


def _threads(nest: KernelNest, access: MemoryAccess) -> isl.Map:
    """``access -> [loops of the host, blocks, thread along x, y, z]``."""
    statement = statement_of(access)
    who = sets.joined(nest.block_of(statement), nest.thread_of(statement))
    return sets.graph(sets.compose(access.instance, who), access.domain)


def _different(before: isl.Map, after: isl.Map, equal: int, positions: range | list[int]) -> isl.Map:
    """The pairs whose images agree in the first dimensions, and differ at one of the positions."""
    space = before.get_space().range()
    alike = sets.equal_prefix(isl.Map.universe(space.map_from_set()), equal)
    apart = sets.no_pair(alike)
    for position in positions:
        apart = apart.union(sets.less_at(alike, position)).union(sets.greater_at(alike, position))
        alike = sets.equal_at(alike, position)
    return _through(before, apart, after)


# -- barriers


def barriers(nest: KernelNest) -> tuple[Statement, ...]:
    """The barriers of a kernel."""
    return tuple(s for s in nest.statements if s.role is Role.BARRIER)


def earlier(nest: KernelNest, first: Statement, second: Statement) -> isl.Map:
    """``clock -> clock`` over all loops: the pairs of one block in which `first` comes before `second` in sigma."""
    program = nest.program
    depth = shared(first, second)
    count = len(ticking(program, first, depth))
    outside = len(ticking(program, first, len(nest.host) + len(nest.blocks)))
    alike = sets.equal_prefix(isl.Map.universe(_clocks(program, first, second)), outside)
    found = sets.no_pair(alike)
    for position in range(outside, count):
        found = found.union(sets.less_at(alike, position))
        alike = sets.equal_at(alike, position)
    positions = program.positions
    apart = first is not second and positions[first.name][depth] < positions[second.name][depth]
    return found.union(alike) if apart else found


def _clocks(program: Program, first: Statement, second: Statement) -> isl.Space:
    params = program.algorithm.param_space
    one, other = len(ticking(program, first)), len(ticking(program, second))
    return sets.sized_frame(params, None, one).map_from_domain_and_range(sets.sized_frame(params, None, other))


def separated(nest: KernelNest, first: Statement, second: Statement) -> isl.Map:
    """``clock -> clock`` over all loops: the pairs of one block with a barrier between `first` and `second`.

    After a deferred copy there are as many barriers as it needs, each after the one before.
    """
    found = isl.Map.empty(_clocks(nest.program, first, second))
    for barrier, before in passed(nest, first, max(1, first.link.deferred)).items():
        found = found.union(before.apply_range(earlier(nest, nest.program.statements[barrier], second)))
    return found.coalesce()


def passed(nest: KernelNest, first: Statement, count: int) -> dict[str, isl.Map]:
    """``clock -> clock`` of `first` and of a barrier, by its name, that is the `count`-th after it or a later one."""
    ringing = {barrier: _ringing(nest.program, barrier) for barrier in barriers(nest)}
    reached = {b: earlier(nest, first, b).intersect_range(when) for b, when in ringing.items()}
    for _ in range(count - 1):
        steps = {
            b: [times.apply_range(earlier(nest, a, b)).intersect_range(when) for a, times in reached.items()]
            for b, when in ringing.items()
        }
        reached = {b: sets.union_of(parts).coalesce() for b, parts in steps.items()}
    return {barrier.name: times for barrier, times in reached.items()}


def _ringing(program: Program, barrier: Statement) -> isl.Set:
    """The clocks of a barrier's instances."""
    forms = sets.outputs(barrier.coords)
    kept = [forms[depth] for depth in ticking(program, barrier)]
    instances = barrier.instances.intersect_params(program.context.params())
    return instances.apply(sets.graph(sets.function(barrier.frame, None, kept)))


def unsynchronised(nest: KernelNest, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map:
    """The subset of `pairs` (``a -> b`` of one block) that no barrier separates in sigma, in either direction."""
    first, second = statement_of(a), statement_of(b)
    before, after = clock(nest.program, a), clock(nest.program, b)
    times = pairs.apply_domain(before).apply_range(after)
    left = without_separated(nest, first, second, times)
    if left.is_empty():
        return sets.no_pair(pairs)
    return pairs.intersect(_through(before, left, after))


def across_rounds(nest: KernelNest, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of one element of a block's memory, by different threads, that two rounds of a block may run in turn.

    A block of a launch with a `grid` goes on with a block that is further along axis 0: any such block may be the next.
    Its accesses come after those of the block before where a barrier comes after these there, or before them here.
    """
    program, outside = nest.program, len(nest.host) + len(nest.blocks)
    elements = sets.graph(a.element, a.domain).apply_range(sets.graph(b.element, b.domain).reverse())
    axes = [tag.axis if isinstance(tag := program.loops[loop].tag, GpuBlock) else None for loop in nest.blocks]
    first, second = _threads(nest, a), _threads(nest, b)
    alike = isl.Map.universe(first.get_space().range().map_from_set())
    going_on = len(nest.host) + axes.index(0)
    for position in range(outside):
        alike = sets.less_at(alike, position) if position == going_on else sets.equal_at(alike, position)
    apart = sets.no_pair(alike)
    for position in range(outside, outside + 3):
        apart = apart.union(sets.less_at(alike, position)).union(sets.greater_at(alike, position))
    found = elements.intersect(_through(first, apart, second))
    found = found.intersect_domain(_without_barrier(nest, a, later=True))
    if statement_of(a).link.deferred > 1:
        return found  # which takes more barriers than the one before what comes later
    return found.intersect_range(_without_barrier(nest, b))


def _without_barrier(nest: KernelNest, access: MemoryAccess, *, later: bool = False) -> isl.Set:
    """The instances of an access with no barrier before them in their block, or with none (or too few) after them."""
    statement, times = statement_of(access), clock(nest.program, access)
    found = access.domain
    if later:
        for then in passed(nest, statement, max(1, statement.link.deferred)).values():
            found = found.subtract(times.intersect_range(then.domain()).domain())
        return found
    for barrier in barriers(nest):
        met = earlier(nest, barrier, statement).intersect_domain(_ringing(nest.program, barrier)).range()
        found = found.subtract(times.intersect_range(met).domain())
    return found


def without_separated(nest: KernelNest, first: Statement, second: Statement, times: isl.Map) -> isl.Map:
    """The subset of `times` (``clock -> clock`` of one block) that no barrier separates, in either direction."""
    left = times.subtract(separated(nest, first, second))
    return left if left.is_empty() else left.subtract(separated(nest, second, first).reverse())
