"""Vectors whose lanes are apart in memory: accesses that move to another row, or far along one, from lane to lane.

Given a loop of a statement, its step in an access is ``element(next iteration) - element(this one)``, where the
iterations of all other loops are the same. A processor loads and stores a vector of such elements one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import constant
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.loops import LoopId, Vector
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Memory, Storage
from tiramisu_py.records import dataclass

#: Elements at most so many apart in a row come in whole vectors, and are picked from these.
MOST_STEP = 4


@dataclass(frozen=True, eq=False)
class StridedLanes:
    """A statement in a vector loop, and the arrays whose elements are apart in its vectors, each once."""

    statement: Statement
    loop: LoopId
    arrays: tuple[str, ...]


def vector_loop(program: Program, statement: Statement) -> LoopId | None:
    """The loop over the lanes of a statement's vectors; None without one."""
    return next((loop for loop in statement.loops if isinstance(program.loops[loop].tag, Vector)), None)


def strided_lanes(program: Program, statement: Statement) -> StridedLanes | None:
    """The arrays that are apart in a statement's vectors; None if there are none, and in kernels."""
    loop = vector_loop(program, statement)
    if loop is None or not statement.stores or program.kernel_of(statement) is not None:
        return None
    arrays = strided_along(program, statement, loop)
    return StridedLanes(statement, loop, arrays) if arrays else None


def strided_along(program: Program, statement: Statement, loop: LoopId) -> tuple[str, ...]:
    """The arrays whose elements are apart from one iteration of a loop to the next, those that are read first."""
    moving, found = _Moving(program, statement, loop), list[str]()
    for storage, value in _values(program, statement):
        if storage.buffer not in found and program.in_scope(statement, storage):
            frame = statement.prefix(len(program.frame(storage)))
            if moving.is_apart(storage, sets.compose(sets.joined(frame, sets.renamed(value, None)), storage.index)):
                found.append(storage.buffer)
    return tuple(found)


def _values(program: Program, statement: Statement) -> Iterator[tuple[Storage, isl.MultiAff]]:
    """Each value that a statement accesses as a function of the instance, and its storage; not at computed indices."""
    target = program.value_of(statement)
    if statement.moves:
        yield program.storage_for(statement, statement.source), target
    reader = Affine(
        statement.frame, dict(zip(program.point_names(statement), sets.outputs(statement.point), strict=False))
    )
    for expression in () if statement.moves else (statement.body, *statement.guards):
        for access in accesses(expression):
            if access.indices:
                try:
                    forms = [reader.single(index) for index in access.indices]
                except NotAffine:
                    continue
                yield program.storage_for(statement, access.source), sets.function(statement.frame, None, forms)
    yield program.storages[statement.memory.target], target


class _Moving:
    """The changes from one iteration of a loop to the next."""

    def __init__(self, program: Program, statement: Statement, loop: LoopId) -> None:
        self.program, self.statement = program, statement
        self.depth = statement.depth(loop)
        self._pairs: isl.Map | None = None

    def is_apart(self, storage: Storage, element: isl.MultiAff) -> bool:
        """Whether an element is in another row in the next iteration, or far away in its own."""
        buffer = self.program.buffers[storage.buffer]
        if buffer.memory is Memory.REGISTER or not buffer.extents:
            return False
        indices = sets.outputs(element)
        sizes = [constant(each) for each in buffer.extents]
        if buffer.strides is not None:
            sizes = [2 if constant(each) != 1 else 1 for each in buffer.strides]
            rows, near = ([at for at, size in enumerate(sizes) if (size == 1) is one] for one in (False, True))
        else:
            last = max((at for at, size in enumerate(sizes) if size != 1), default=0)
            rows, near = list(range(last)), [last]
        axes = self._axes()
        if not any(sets.axes_of(indices[at]) & axes for at in rows):
            return any(abs(step) > MOST_STEP for at in near for step in self._near_steps(indices[at], axes))
        return any(self._step(indices[at]) != 0 for at in rows)

    def _near_steps(self, index: isl.Aff, axes: set[int]) -> list[int]:
        steps = [sets.stride(index, axis) for axis in sets.axes_of(index) & axes]
        return [step for step in steps if step is not None] if len(steps) == 1 else []

    def _axes(self) -> set[int]:
        """The dimensions of the instances that may change with the loop: those in forms that share one with it."""
        forms = [sets.axes_of(form) for form in sets.outputs(self.statement.coords)]
        found, before = set(forms[self.depth]), set[int]()
        while found != before:
            before = set(found)
            for form in forms:
                found |= form if form & found else set()
        return found

    def _step(self, index: isl.Aff) -> int | None:
        """How far an index moves; None if that is no constant."""
        forms = sets.function(self.statement.frame, None, [index])
        ends = sets.graph(forms, self.statement.instances)
        moved = self._neighbours().apply_domain(ends).apply_range(ends)
        if moved.is_empty():
            return 0
        low, high = sets.least_distance(moved, 0), sets.least_distance(moved.reverse(), 0)
        return low if low is not None and high is not None and low == -high else None

    def _neighbours(self) -> isl.Map:
        """``instance -> instance`` in the next iteration of the loop, and the same of all others."""
        if self._pairs is None:
            coords = sets.graph(self.statement.coords, self.statement.instances)
            self._pairs = coords.apply_range(sets.shifted_out(sets.graph(_same(coords)), self.depth, 1)).apply_range(
                coords.reverse()
            )
        return self._pairs


def _same(of: isl.Map) -> isl.MultiAff:
    return sets.identity(of.get_space().range())


def contiguous_loop(program: Program, lanes: StridedLanes, usable: Sequence[LoopId]) -> LoopId | None:
    """The loop along which fewest arrays are apart, the innermost of equal ones; None if none is better."""
    apart = {loop: len(strided_along(program, lanes.statement, loop)) for loop in usable}
    better = [loop for loop in usable if apart[loop] < len(lanes.arrays)]
    return min(reversed(better), key=apart.__getitem__, default=None)


def carries(program: Program, loop: LoopId) -> bool:
    """Whether two iterations of a loop, in one iteration of the loops around it, access one place and one writes it."""
    flow = Flow(MemoryAccesses(program))
    inside = {each.name for each in program.with_this_loop(loop)}
    buffers = {program.storages[each.memory.target].buffer for each in program.with_this_loop(loop) if each.stores}
    for home in (home for buffer in buffers for home in flow.accesses.homes_of(buffer)):
        writes = [each for each in flow.accesses.writers(home) if each.actor.name in inside]
        reads = [each for each in flow.accesses.readers(home) if each.actor.name in inside]
        if any(_carries(flow, write, other, loop) for write in writes for other in (*writes, *reads)):
            return True
    return False


def _carries(flow: Flow, a: MemoryAccess, b: MemoryAccess, loop: LoopId) -> bool:
    assert a.actor.statement is not None and b.actor.statement is not None
    depth = a.actor.statement.depth(loop)
    if shared(a.actor.statement, b.actor.statement) <= depth:
        return False
    times = flow.same_place(a, b).apply_domain(a.prefix(depth + 1)).apply_range(b.prefix(depth + 1))
    inside = sets.equal_prefix(times, depth)
    return not inside.subtract(sets.equal_at(inside, depth)).is_empty()
