"""Barriers for the dependences between threads of a block: the minimum number, as far out as possible.

A kernel's statements form a tree of loops. A conflict of two accesses belongs to the innermost node that contains both
of them and at which they differ: to the node itself if two of its children conflict within one iteration (any barrier
between the two orders them), or to the node's loop if two of its iterations conflict (a barrier after the one child or
before the other orders them). Nodes are processed from the innermost to the outermost. At each node, the fewest places
between its children are chosen that order all conflicts not yet ordered by barriers further inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.kernels import KernelNest, kernels, renewed
from tiramisu_py.program.loops import GpuThread, LoopId, Vector
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.devices.place_waits import with_barrier


def with_barriers(program: Program, accesses: MemoryAccesses | None = None) -> Program:
    """The program with the barriers that its kernels need; kernels with barriers=False have only those of the user.

    A kernel whose threads cannot be numbered is left unchanged (the proof reports it). `accesses` are the program's
    accesses, if they have been computed already.
    """
    accessed = accesses or MemoryAccesses(program)
    for nest in kernels(program):
        if nest.launch.barriers:
            try:
                program = _settled(replace(nest, program=program), accessed)
            except UnsupportedError:
                continue
    return program


@dataclass(frozen=True, eq=False)
class Conflict:
    """Accesses to one place that only a barrier can order: pairs ``clock -> clock``, the first earlier in sigma."""

    first: Statement
    second: Statement
    times: isl.Map


def conflicts(nest: KernelNest, accesses: MemoryAccesses) -> list[Conflict]:
    """All conflicts of a kernel that a barrier can order."""
    found: dict[tuple[str, str], Conflict] = {}
    for a, b in _pairs(nest, accesses):
        pairs = kernel_order.contending(nest, a, b, a.places.apply_range(b.places.reverse()))
        pairs = _without_combined(nest, a, b, pairs)
        if pairs.is_empty():
            continue
        clocks = kernel_order.clock(nest.program, a), kernel_order.clock(nest.program, b)
        times = pairs.apply_domain(clocks[0]).apply_range(clocks[1])
        for new in _directed(nest, kernel_order.statement_of(a), kernel_order.statement_of(b), times):
            key = (new.first.name, new.second.name)
            known = found.get(key)
            found[key] = new if known is None else replace(new, times=new.times.union(known.times).coalesce())
    return list(found.values())


def _pairs(nest: KernelNest, accesses: MemoryAccesses) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """Pairs of accesses to one buffer instance by statements of a kernel, the first of them a write."""
    inside = {statement.name for statement in nest.statements}
    for home in accesses.homes():
        writes = [t for t in accesses.writers(home) if t.actor.name in inside]
        reads = [t for t in accesses.readers(home) if t.actor.name in inside] if writes else []
        for k, write in enumerate(writes):
            if write.buffer.memory is not Memory.REGISTER:
                yield from ((write, other) for other in (*reads, *writes[k:]))


def _without_combined(nest: KernelNest, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map:
    """The pairs, except for updates of one reduction that threads combine: these need no barrier in between.

    Neither do merges, which are atomic where several threads add to one element.
    """
    updates = a.is_write and b.is_write and a.adds and b.adds and a.source == b.source
    tags = [nest.program.loops[loop].tag for loop in kernel_order.statement_of(a).loops]
    tagged = any(isinstance(tag, GpuThread) and tag.combine is not None for tag in tags)
    if not updates or not (tagged or a.role is b.role is Role.MERGE):
        return pairs
    return pairs.subtract(a.values.apply_range(b.values.reverse()))


def _directed(nest: KernelNest, a: Statement, b: Statement, times: isl.Map) -> Iterator[Conflict]:
    forth = times.intersect(kernel_order.earlier(nest, a, b))
    if not forth.is_empty():
        yield Conflict(a, b, forth)
    back = times.reverse().intersect(kernel_order.earlier(nest, b, a))
    if not back.is_empty():
        yield Conflict(b, a, back)


# -- placing


def _settled(nest: KernelNest, accesses: MemoryAccesses) -> Program:
    """The program with the barriers that one kernel needs."""
    found = conflicts(nest, accesses)
    made: list[str] = []
    nodes = {s.loops[:depth] for s in nest.statements for depth in range(_outside(nest), len(s.loops) + 1)}
    for node in sorted(nodes, key=lambda loops: (-len(loops), loops)):
        for place in _places(nest, node, found):
            name = free_name(nest.program, f"{nest.name}_barrier")
            made.append(name)
            nest = _inserted(nest, node, place, name)
    return _pruned(nest, made, found).program


def _outside(nest: KernelNest) -> int:
    return len(nest.host) + len(nest.blocks)


def _places(nest: KernelNest, node: tuple[LoopId, ...], found: list[Conflict]) -> list[int]:
    """The places where a node needs barriers, each as the number of children before it; the last place first."""
    children = _children(nest, node)
    arcs: list[frozenset[int]] = []
    for conflict in found:
        if all(s.name in children for s in (conflict.first, conflict.second)):
            arcs += _arcs(nest, node, children, conflict)
    return sorted(fewest(arcs, len(set(children.values())) + 1), reverse=True)


def _children(nest: KernelNest, node: tuple[LoopId, ...]) -> dict[str, int]:
    """For each statement inside a node's loops, the number of the child that is or contains it."""
    depth, positions = len(node), nest.program.positions
    at = {s.name: positions[s.name][depth] for s in nest.statements if s.loops[:depth] == node}
    rank = {position: number for number, position in enumerate(sorted(set(at.values())))}
    return {name: rank[position] for name, position in at.items()}


def _arcs(
    nest: KernelNest, node: tuple[LoopId, ...], children: dict[str, int], conflict: Conflict
) -> Iterator[frozenset[int]]:
    """For each part of a conflict that belongs to the node, the places where a barrier would order it."""
    first, second = children[conflict.first.name], children[conflict.second.name]
    ticks = len(kernel_order.ticking(nest.program, conflict.first, len(node)))
    last = max(children.values()) + 1
    parting = shared(conflict.first, conflict.second) == len(node) and conflict.first is not conflict.second
    if parting and not _served(nest, conflict, sets.equal_prefix(conflict.times, ticks)):
        yield frozenset(range(first + 1, second + 1))
    if _carries(nest, node):
        times = sets.less_at(sets.equal_prefix(conflict.times, ticks - 1), ticks - 1)
        if not _served(nest, conflict, times):
            yield frozenset([*range(first + 1, last + 1), *range(1, second + 1)])


def _carries(nest: KernelNest, node: tuple[LoopId, ...]) -> bool:
    """Whether the iterations of a node's loop are in sigma's order."""
    return len(node) > _outside(nest) and not isinstance(nest.program.loops[node[-1]].tag, GpuThread | Vector)


def _served(nest: KernelNest, conflict: Conflict, times: isl.Map) -> bool:
    """Whether existing barriers separate these pairs of a conflict."""
    if times.is_empty():
        return True
    return bool(times.is_subset(kernel_order.separated(nest, conflict.first, conflict.second)))


# -- statements


def _inserted(nest: KernelNest, node: tuple[LoopId, ...], place: int, name: str) -> KernelNest:
    children = _children(nest, node)
    before = [statement for statement, child in children.items() if child < place]
    after = [statement for statement, child in children.items() if child >= place]
    program = with_barrier(nest.program, name, node, before[-1], None, "")
    orders = [Order(other, name, node[-1]) for other in before] + [Order(name, other, node[-1]) for other in after]
    return renewed(nest, program.with_(orders=(*program.orders, *orders)))


def _pruned(nest: KernelNest, made: list[str], found: list[Conflict]) -> KernelNest:
    """The kernel without the `made` barriers that the other barriers make redundant."""
    if len(made) < 2:
        return nest
    for name in made:
        without = _without(nest, name)
        if all(_served(without, conflict, conflict.times) for conflict in found):
            nest = without
    return nest


def _without(nest: KernelNest, name: str) -> KernelNest:
    program = nest.program
    statements = {key: s for key, s in program.statements.items() if key != name}
    orders = tuple(order for order in program.orders if name not in (order.before, order.after))
    return renewed(nest, program.with_(statements=statements, orders=orders))


# -- minimum hitting set on a circle: the fewest places such that each arc contains one


def fewest(arcs: Sequence[frozenset[int]], places: int) -> list[int]:
    """The fewest of the places 0, 1, ..., `places` - 1 such that each arc contains one; prefers late ones.

    Each arc is a run of consecutive places; place 0 follows the last one.
    """
    needs = list(dict.fromkeys(arcs))
    if not needs:
        return []
    best: list[int] | None = None
    for start in sorted(sorted(needs, key=len)[0], reverse=True):
        chosen = _from(start, needs, places)
        if best is None or len(chosen) < len(best):
            best = chosen
    assert best is not None
    return sorted(best)


def _from(start: int, needs: list[frozenset[int]], places: int) -> list[int]:
    """`start` and the fewest other places: on the circle cut at `start`, the arcs without it are intervals."""
    chosen = [start]
    left = [arc for arc in needs if start not in arc]

    def distance(place: int) -> int:
        return (place - start) % places

    for arc in sorted(left, key=lambda arc: max(map(distance, arc))):
        if not any(place in arc for place in chosen):
            chosen.append(max(arc, key=distance))
    return chosen
