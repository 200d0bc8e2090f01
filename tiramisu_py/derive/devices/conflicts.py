"""Dependences on operations without a wait: pairs of statements, and their distance."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import Memory, MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.happens_before import Happens
from tiramisu_py.dependence.kernel_order import statement_of
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import foreseen
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Home
from tiramisu_py.records import dataclass

#: Two accesses, by what they access, and by the statement, the source and the kind of each.
Pair = tuple[Home, tuple[str, str, bool], tuple[str, str, bool]]


@dataclass(frozen=True)
class Distance:
    """The distance of a dependence: a number of iterations of the innermost of `depth` loops."""

    depth: int
    later: int = 0

    def at_once(self) -> Distance:
        """This distance with no iterations in between."""
        return Distance(self.depth)


@dataclass(frozen=True, eq=False)
class DeviceConflict:
    """Two dependent statements without a wait between them, with the least distance of the dependence."""

    first: Statement
    second: Statement
    need: Distance
    pair: Pair


def distance(pairs: isl.Map) -> Distance:
    """The least distance between iterations; in no pair does the second come before the first."""
    depth = sets.in_size(pairs)
    for position in range(depth):
        later = sets.least_distance(pairs, position)
        if later is None or later < 0:
            return Distance(position + 1)
        if later:
            return Distance(position + 1, later)
        pairs = sets.equal_at(pairs, position)
    return Distance(depth)


class Conflicts:
    """The conflicts of a program to which waits are added: ordered pairs stay ordered."""

    def __init__(self) -> None:
        self._memory: Memory = {}
        self._ordered: set[Pair] = set()

    def of(self, program: Program, only: frozenset[Pair] | None = None) -> Iterator[DeviceConflict]:
        """Pairs of statements with conflicting accesses in no guaranteed order; `only` the given ones, if any."""
        if not Happens(program).operations:
            return
        accesses = MemoryAccesses(foreseen(program), memory=self._memory)
        flow, happens = Flow(accesses), Happens(accesses.program)
        for x, y in _pairs(accesses):
            first, second = (program.statements[statement_of(access).name] for access in (x, y))
            pair = (x.home, _key(x), _key(y))
            if not _crosses(program, first, second) or (pair in self._ordered if only is None else pair not in only):
                continue
            unordered = happens.unordered(x, y, flow.same_place(x, y))
            if unordered.is_empty():
                self._ordered |= {pair} if only is None else set()
            else:
                depth = min(shared(first, second), program.host_depth(first), program.host_depth(second))
                iterations = unordered.apply_domain(x.prefix(depth)).apply_range(y.prefix(depth))
                yield DeviceConflict(first, second, distance(iterations), pair)


def _key(access: MemoryAccess) -> tuple[str, str, bool]:
    return (access.actor.name, access.source, access.is_write)


def _crosses(program: Program, first: Statement, second: Statement) -> bool:
    queue = program.queue_of(first)
    return queue is not None and queue != program.queue_of(second)


def _pairs(accesses: MemoryAccesses) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    for home in accesses.homes():
        writes = [t for t in accesses.writers(home) if t.actor.statement is not None]
        reads = [t for t in accesses.readers(home) if t.actor.statement is not None]
        for k, write in enumerate(writes):
            for other in (*reads, *writes[k + 1 :]):
                yield write, other
                yield other, write
