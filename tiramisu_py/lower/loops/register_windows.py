"""Rings of registers: a buffer folded along a serial loop becomes a window that moves along with the loop.

Registers have names, not numbers, so that a varying index ``x % 32`` cannot select one. But if iteration t of a loop
only uses values x from ``16 * t`` to ``16 * t + 31``, ``x - 16 * t`` is a constant after unrolling: the buffer holds
the window of iteration t, and a rotation at the end of each iteration moves its contents by 16.

Before: ``v[x % 32]``. After: ``v[x - 16*t]``, and last in each iteration t ``for k in 0 .. 16: v[k] = v[k + 16]``.

Why the results are the same: the values of one iteration lie in one window, in which two values have different places
exactly if they have different remainders. A value stored in iteration s at place p is in iteration t at place
p - 16 * (t - s), since each iteration between moved it. A store that overwrites it there would have overwritten it in
the folded buffer, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const, Expr, Iter
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.values_read import named_values, needed_values
from tiramisu_py.dependence.vector_padding import padded_loop
from tiramisu_py.ir import Allocate, Block, Comment, For, Load, Node, Store
from tiramisu_py.ir.arithmetic.build import added, number, plus, times
from tiramisu_py.ir.rewriting import with_children
from tiramisu_py.lower.loops.anchors import time_beside
from tiramisu_py.program.loops import LoopId, Unroll, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Ring:
    """A buffer in registers whose window moves by `step` elements along `axis` in each iteration of loop `level`."""

    buffer: str
    level: LoopId
    axis: int
    step: int


def in_windows(program: Program) -> tuple[Program, tuple[Ring, ...]]:
    """The program with windows in place of the folded buffers in registers, and the rings to rotate."""
    rings: list[Ring] = []
    for buffer in list(program.buffers.values()):
        storages = list(program.storages_in(buffer.name))
        constant = all(isinstance(extent, Const) for extent in buffer.extents)
        if buffer.memory is not Memory.REGISTER or len(storages) != 1 or not constant:
            continue
        found = _windowed(program, buffer, storages[0])
        if found is not None:
            program = program.with_storage(found[0])
            rings.append(found[1])
    return program, tuple(rings)


def _windowed(program: Program, buffer: Buffer, storage: Storage) -> tuple[Storage, Ring] | None:
    storing = [s for s in program.storing if s.memory.target == storage.name]
    loading = [s for s in program.acting if _loads(program, s, storage)]
    level = _level(program, buffer, storage, [*storing, *loading])
    if level is None:
        return None
    depth = len(buffer.scope) + 1
    stored = _used(storing, depth, lambda s: sets.graph(program.value_of(s), s.instances))
    loaded = _used(loading, depth, lambda s: _read(program, s, storage.source))
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


def _read(program: Program, statement: Statement, source: str) -> isl.Map:
    """The values that a statement reads; in a padded vector loop, including indices outside the domain."""
    values = needed_values if padded_loop(program, statement) is None else named_values
    return values(program, statement, source)


def _level(program: Program, buffer: Buffer, storage: Storage, using: Collection[Statement]) -> LoopId | None:
    """The serial loop directly inside a buffer's scope that all its uses share; None if there is none."""
    depth = len(buffer.scope)
    loops = {statement.loops[: depth + 1] for statement in using}
    if storage.inner or len(loops) != 1:
        return None
    (loops_around,) = loops
    if len(loops_around) <= depth or any(program.kernel_of(statement) is not None for statement in using):
        return None
    loop = program.loops[loops_around[-1]]
    return None if loop.is_concurrent or loop.is_rank else loop.id


def _used(using: Iterable[Statement], depth: int, values: Callable[[Statement], isl.Map]) -> isl.Map | None:
    """``[iterations of the loops up to the level] -> values`` that statements use."""
    parts = list[isl.Map]()
    for statement in using:
        outer = sets.graph(statement.prefix(depth), statement.instances)
        parts.append(outer.reverse().apply_range(values(statement)))
    return sets.united(parts)


def _folded(form: isl.Aff, extent: Expr, scope: int) -> int | None:
    """The dimension x of a value whose buffer index is ``x % extent``; None for an index of another form."""
    taken = sets.terms(form)
    if not isinstance(extent, Const) or taken.denominator != 1 or len(taken.divs) != 1:
        return None
    involved = [(dim, factor) for dim, factor in enumerate(taken.dims[scope:]) if factor]
    return involved[0][0] if taken.divs[0][0] == -int(extent.value) and [f for _, f in involved] == [1] else None


def _starts(used: isl.Map, dim: int, level: int) -> Iterator[tuple[isl.Aff, int]]:
    """Lower bounds of an index as forms of the iteration, and their steps from iteration to iteration."""
    for bound in sets.lower_bounds(sets.component(used, dim)):
        step = sets.stride(bound, level)
        if step is not None and step > 0:
            yield bound, step


def _window(stored: isl.Map, used: isl.Map, dim: int, start: isl.Aff, step: int, extent: int) -> isl.Aff | None:
    """The begin of an iteration's window that contains all values it uses; None if there is none.

    If possible, the stored values begin at a multiple of the step in the window, so that vectors are aligned.
    """
    own, every = (sets.span_above(sets.component(of, dim), start) for of in (stored, used))
    if own is None or every is None or extent % step != 0:
        return None
    low = own[0] + (every[0] - own[0]) // step * step
    low = low if every[1] - low < extent else every[0]
    return sets.plus(start, low) if every[1] - low < extent else None


def _index(storage: Storage, depth: int, axis: int, dim: int, window: isl.Aff) -> isl.MultiAff:
    """The index of a storage with one component relative to the begin of the iteration's window."""
    rank = sets.in_size(storage.index) - (depth - 1)
    space = sets.sized_frame(storage.index.get_space(), None, depth + rank)
    variables = sets.variables(space)
    frame = sets.function(space, None, [*variables[: depth - 1], *variables[depth:]])
    forms = sets.outputs(sets.compose(frame, storage.index))
    here = sets.function(space, None, variables[:depth])
    (begin,) = sets.outputs(sets.compose(here, sets.function(window.get_domain_space(), None, [window])))
    forms[axis] = variables[depth + dim].sub(begin)
    return sets.function(space, None, forms)


# -- rotations


@dataclass(frozen=True, eq=False)
class Rotation:
    """The rotation of a ring: one instance at the end of each iteration of its loop, without gaps."""

    name: str
    ring: Ring
    instances: isl.Set
    time: isl.MultiAff
    statement: Statement
    node: Node

    @property
    def level(self) -> int:
        """The level of siblings at which it comes last."""
        return sets.size(self.instances)


def rotation_of(program: Program, ring: Ring, reserved: Collection[str]) -> Rotation:
    """The rotation that moves the window of a ring."""
    inside = [s for s in program.statements.values() if ring.level in s.loops]
    count = inside[0].depth(ring.level) + 1
    name = f"@rotate_{ring.buffer}"
    instances = sets.named(_iterations(program, inside, count), name)
    last = max(program.positions[statement.name][count] for statement in inside) + 1
    time = time_beside(program, inside[0], instances, last)
    storage = next(program.storages_in(ring.buffer))
    own = [s for s in inside if s.stores and s.memory.target == storage.name]
    return Rotation(name, ring, instances, time, inside[0], _moves(program, ring, own, reserved))


def _iterations(program: Program, inside: Iterable[Statement], count: int) -> isl.Set:
    """All iterations from the first to the last, for each iteration of the loops outside."""
    parts = list[isl.Set]()
    for statement in inside:
        parts.append(statement.instances.intersect_params(program.context).apply(sets.graph(statement.prefix(count))))
    found = sets.union_of(parts)
    return sets.without_gaps(found.coalesce()).coalesce()


def _moves(program: Program, ring: Ring, own: list[Statement], reserved: Collection[str]) -> Node:
    """``for k in 0 .. strips: for x in 0 .. step: v[step * k + x] = v[step * (k + 1) + x]``, for all other indices.

    One strip after another; strips are moved in vectors if values are stored in vectors.
    """
    buffer = program.buffers[ring.buffer]
    extents = [int(extent.value) for extent in buffer.extents if isinstance(extent, Const)]
    strips = extents[ring.axis] // ring.step - 1
    names = [fresh_name(f"{ring.buffer}_{axis}", reserved, underscored) for axis in range(len(extents))]
    strip = fresh_name(f"{ring.buffer}_strip", reserved, underscored)
    here: list[Expr] = [Iter(name, int64) for name in names]
    here[ring.axis] = added(times(Iter(strip, int64), ring.step), here[ring.axis])
    there = [plus(e, ring.step) if axis == ring.axis else e for axis, e in enumerate(here)]
    node: Node = Store(buffer.name, tuple(here), Load(buffer.name, tuple(there), buffer.dtype), own[0].name)
    width = _width(program, own)
    for axis in reversed(range(len(extents))):
        upper = ring.step if axis == ring.axis else extents[axis]
        in_vectors = width is not None and upper % width == 0 and axis == len(extents) - 1
        tag = Vector(width) if width is not None and in_vectors else Unroll()
        node = For(names[axis], number(0), number(upper), node, tag=tag)
    level = program.loops[ring.level].name
    node = For(strip, number(0), number(strips), node, tag=Unroll())
    return Block((Comment(f"the window of {buffer.name} moves on with {level}, by {ring.step}"), node))


def _width(program: Program, own: Iterable[Statement]) -> int | None:
    """The lanes of the vectors in which values are stored; None unless there is exactly one width."""
    tags = (program.loops[loop].tag for statement in own for loop in statement.loops)
    widths = {tag.width for tag in tags if isinstance(tag, Vector)}
    return widths.pop() if len(widths) == 1 else None


def as_padded(node: Node, buffers: Collection[str]) -> Node:
    """The statement with these buffers marked `padded`: lanes past the end of a loop load from them."""
    node = with_children(node, lambda child: as_padded(child, buffers))
    return replace(node, padded=True) if isinstance(node, Allocate) and node.buffer in buffers else node


def as_rings(node: Node, rings: Collection[Ring]) -> Node:
    """The statement with the buffers of rings marked: they rotate before all of their elements have values."""
    node = with_children(node, lambda child: as_rings(child, rings))
    if isinstance(node, Allocate) and any(ring.buffer == node.buffer for ring in rings):
        return replace(node, ring=True)
    return node
