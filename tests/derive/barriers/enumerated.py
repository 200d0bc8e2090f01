"""Barriers by enumeration: every access of a kernel at small sizes, ordered by plain comparison of time vectors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import islpy as isl

from tests.programs.gpu.kernels import only_kernel
from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.loops import GpuThread
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Act:
    """One access of one thread: when, and how."""

    thread: Numbers
    sigma: Numbers
    writes: bool
    updates: bool
    deferred: int


def sigma(program: Program, statement: Statement) -> list[isl.Aff]:
    """The time vector without the coordinates of thread loops."""
    time = sets.outputs(program.times[statement.name])
    threads = [isinstance(program.loops[loop].tag, GpuThread) for loop in statement.loops]
    return [form for k, form in enumerate(time) if not (k % 2 and k // 2 < len(threads) and threads[k // 2])]


def acts(program: Program, sizes: Mapping[str, int]) -> dict[tuple[Numbers, str, Numbers], list[Act]]:
    """What is done in a program's kernel, by block and place."""
    nest, made = only_kernel(program), MemoryAccesses(program)
    found: dict[tuple[Numbers, str, Numbers], list[Act]] = defaultdict(list)
    for home in made.homes():
        for access in (*made.writers(home), *made.readers(home)):
            if access.actor.statement in nest.statements:
                for block, place, act in enumerated(nest, access, sizes):
                    found[block, home, place].append(act)
    return found


def enumerated(nest: KernelNest, access: MemoryAccess, sizes: Mapping[str, int]) -> list[tuple[Numbers, Numbers, Act]]:
    statement = access.actor.statement
    assert statement is not None
    space = statement.frame
    block, thread = nest.block_of(statement), nest.thread_of(statement)
    when = sets.function(space, None, sigma(nest.program, statement))
    parts = [block, thread, when]
    own = [sets.compose(access.instance, part) for part in parts]
    everything = sets.graph(sets.joined(*own, sets.renamed(access.place, None)), access.domain).range()
    ends = [sets.size(isl.Map.from_multi_aff(part).range()) for part in parts]
    found = []
    for point in sets.points(sets.fixed(everything, sizes)):
        pieces, at = [], 0
        for end in ends:
            pieces.append(point[at : at + end])
            at += end
        updates = statement.role is Role.UPDATE and access.is_write
        act = Act(pieces[1], pieces[2], access.is_write, updates, statement.link.deferred if access.is_write else 0)
        found.append((pieces[0], point[at:], act))
    return found


def rings(program: Program, sizes: Mapping[str, int]) -> dict[Numbers, set[Numbers]]:
    """For each block the times of its barriers; all threads come to each of them, each once."""
    nest = only_kernel(program)
    found: dict[Numbers, set[Numbers]] = defaultdict(set)
    for statement in nest.statements:
        if statement.role is not Role.BARRIER:
            continue
        block = nest.block_of(statement)
        count = sets.size(isl.Map.from_multi_aff(block).range())
        forms = [*sets.outputs(block), *sigma(program, statement), *sets.outputs(nest.thread_of(statement))]
        instances = statement.instances.intersect_params(program.context.params())
        where = instances.apply(sets.graph(sets.function(statement.frame, None, forms)))
        arrived: Counter[tuple[Numbers, Numbers]] = Counter()
        for point in sets.points(sets.fixed(where, sizes)):
            arrived[point[:count], point[count:-3]] += 1
        axes = [axis for axis, loop in enumerate(nest.thread_loops(statement)) if loop is not None]
        everyone = 1
        for axis in axes:
            everyone *= nest.shape[axis]
        assert set(arrived.values()) <= {everyone}, f"{statement.name} is under divergent control"
        for at, when in arrived:
            found[at].add(when)
    return found


def exposed(program: Program, sizes: Mapping[str, int]) -> int:
    """How many conflicts of different threads no barrier separates, though sigma orders them."""
    barriers, count = rings(program, sizes), 0
    for (block, _, _), here in acts(program, sizes).items():
        for x, y in product(here, here):
            conflict = (x.writes or y.writes) and (x.thread != y.thread or x.deferred) and x.sigma < y.sigma
            if conflict and sum(x.sigma < b < y.sigma for b in barriers[block]) < max(1, x.deferred):
                count += 1
    return count
