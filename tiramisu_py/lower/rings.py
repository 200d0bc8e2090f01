"""Rings of registers: a buffer folded along a serial loop becomes a window that moves on with the loop.

Registers have names and no numbers, so that index ``x % 32`` names none. But where iteration t of a loop only uses
values x from ``16 * t`` to ``16 * t + 31``, ``x - 16 * t`` is a constant once loops are unrolled: the buffer holds the
window of iteration t, and a rotation at the end of each iteration moves its contents by 16.

Before: ``v[x % 32]``. After: ``v[x - 16*t]``, and last in each iteration t ``for k in 0 .. 16: v[k] = v[k + 16]``.

Why it is the same: values of one iteration lie in one window, where different ones have different places just if they
have different remainders; what is stored in iteration s at place p is in iteration t at place p - 16 * (t - s), as each
iteration between moved it; and what would overwrite it there would have done so in the folded buffer too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import int64
from tiramisu_py.lower.ir import Block, Comment, For, Load, Node, Store
from tiramisu_py.program.loops import LoopId, Unroll, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.schedule.needed import needed_values


@dataclass(frozen=True, eq=False)
class Ring:
    """A buffer in registers whose window moves on by `step` elements of `axis` in each iteration of `level`."""

    buffer: str
    level: LoopId
    axis: int
    step: int


def in_windows(program: Program) -> tuple[Program, tuple[Ring, ...]]:
    """The program with the folded buffers in registers as windows, and what has to be moved for that."""
    rings: list[Ring] = []
    for buffer in list(program.buffers.values()):
        storages = list(program.storages_in(buffer.name))
        if buffer.memory is not Memory.REGISTER or len(storages) != 1:
            continue
        found = _windowed(program, buffer, storages[0])
        if found is not None:
            program = program.with_storage(found[0])
            rings.append(found[1])
    return program, tuple(rings)


def _windowed(program: Program, buffer: Buffer, storage: Storage) -> tuple[Storage, Ring] | None:
    storing = [s for s in program.storing if s.target == storage.name]
    loading = [s for s in program.acting if _loads(program, s, storage)]
    level = _level(program, buffer, storage, [*storing, *loading])
    if level is None:
        return None
    depth = len(buffer.scope) + 1
    stored = _used(storing, depth, lambda s: sets.graph(program.value_of(s), s.instances))
    loaded = _used(loading, depth, lambda s: needed_values(program, s, storage.source))
    if stored is None or loaded is None:
        return None
    stored, used = (of.intersect_params(program.context) for of in (stored, stored.union(loaded)))
    forms = sets.outputs(storage.index)
    for axis, extent in enumerate(buffer.extents):
        dim = _folded(forms[axis], extent, len(buffer.scope))
        if dim is None or not isinstance(extent, Const):
            continue
        for start, step in _starts(used, dim, depth - 1):
            window = _window(stored, used, dim, start, step, int(extent.value))
            if window is not None:
                index = _index(storage, depth, axis, dim, window)
                return replace(storage, index=index, inner=(level,)), Ring(buffer.name, level, axis, step)
    return None


def _loads(program: Program, statement: Statement, storage: Storage) -> bool:
    read = (access.source for body in (statement.body, *statement.guards) for access in accesses(body))
    return storage.source in read and program.storage_for(statement, storage.source).name == storage.name


def _level(
    program: Program, buffer: Buffer, storage: Storage, using: Collection[Statement]
) -> LoopId | None:
    """The serial loop just inside a buffer's scope that all its uses share."""
    depth = len(buffer.scope)
    loops = {statement.loops[: depth + 1] for statement in using}
    if storage.inner or len(loops) != 1:
        return None
    (loops_around,) = loops
    if len(loops_around) <= depth or any(program.kernel_of(statement) is not None for statement in using):
        return None
    loop = program.loops[loops_around[-1]]
    return None if loop.is_concurrent or loop.is_rank or isinstance(loop.tag, Unroll) else loop.id


def _used(using: Iterable[Statement], depth: int, values) -> isl.Map | None:
    """``[iterations of the loops to the level] -> values`` that statements use."""
    found: isl.Map | None = None
    for statement in using:
        outer = sets.graph(statement.prefix(depth), statement.instances)
        part = outer.reverse().apply_range(values(statement))
        found = part if found is None else found.union(part)
    return found
