"""Registers of threads: a buffer in registers that statements use in thread loops of their own belongs to each thread.

::

    for x, y on threads: acc[x, y] = 0                for x, y on threads: acc[0] = 0
    for k:                                      -->   for k:
        for x, y on threads: acc[x, y] += ..              for x, y on threads: acc[0] += ..
    for x, y on threads: C[x, y] = acc[x, y]          for x, y on threads: C[x, y] = acc[0]

The buffer exists once in each thread, and an element is the place of a thread: who reads it must be the thread that has
stored it, whatever loops name that thread. It keeps the elements of one thread alone, by the numbers of the loops that
a thread runs: the layout is one-to-one on them, or stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.kernels import KernelNest, is_tree, kernels
from tiramisu_py.program.loops import GpuThread
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.records import dataclass

#: An index of a buffer, as a function of the coordinates of its frame and the value indices, and its extent.
Axis = tuple[isl.Aff, int]


def with_thread_registers(program: Program) -> Program:
    """The program with the registers of threads, each as large as what one thread keeps."""
    for nest in kernels(program):
        for name in dict.fromkeys(program.storages[s.memory.target].buffer for s in nest.statements if s.stores):
            buffer = program.buffers[name]
            using = _users(program, buffer)
            if _is_of_threads(nest, buffer, using):
                try:
                    program = _Registers(nest, buffer, tuple(using)).kept_in(program)
                except UnsupportedError:  # threads that cannot be numbered: the proof says why
                    continue
    return program


def _users(program: Program, buffer: Buffer) -> list[Statement]:
    """The statements that store to a buffer, or load from it."""
    own = {storage.name for storage in program.storages_in(buffer.name)}
    sources = {storage.source for storage in program.storages_in(buffer.name)}
    return [
        s
        for s in program.acting
        if (s.stores and s.memory.target in own)
        or any(program.storage_for(s, source).name in own for source in s.loads & sources)
    ]


def _is_of_threads(nest: KernelNest, buffer: Buffer, using: Sequence[Statement]) -> bool:
    """Whether threads of one kernel use a buffer of a block in registers, in thread loops outside of its scope.

    The result of a tree is in the registers of all threads, which the tree itself takes care of.
    """
    if buffer.memory is not Memory.REGISTER or buffer.per_thread or not set(nest.blocks) <= set(buffer.scope):
        return False
    program, here = nest.program, {s.name for s in nest.statements}
    own = {storage.name for storage in program.storages_in(buffer.name)}
    if any(is_tree(program, s) for s in using if s.memory.target in own) or not {s.name for s in using} <= here:
        return False
    return _has_threads_inside(program, buffer, using)


def _has_threads_inside(program: Program, buffer: Buffer, using: Sequence[Statement]) -> bool:
    """Whether threads inside of a buffer's scope use it: it may be inside of the threads along another axis."""
    inside = (loop for s in using for loop in s.loops if loop not in buffer.scope)
    return any(isinstance(program.loops[loop].tag, GpuThread) for loop in inside)


@dataclass(frozen=True, eq=False)
class _Registers:
    """A buffer of which each thread has its own, and the statements that use it."""

    nest: KernelNest
    buffer: Buffer
    using: tuple[Statement, ...]

    def kept_in(self, program: Program) -> Program:
        """The program in which each thread keeps its own elements, by the first layout that has room for them."""
        storages = list(program.storages_in(self.buffer.name))
        mine = replace(self.buffer, per_thread=True)
        if len(storages) == 1:
            (storage,) = storages
            stored = [s for s in self.using if s.stores and s.memory.target == storage.name]
            for statement in stored:
                axes = list(self._axes(storage, statement, stored))
                if self._is_one_to_one(storage, stored, axes):
                    index = sets.function(storage.index.get_domain_space(), None, [form for form, _ in axes])
                    extents: tuple[Expr, ...] = tuple(Const(extent, int64) for _, extent in axes)
                    program = program.with_storage(replace(storage, index=index))
                    return program.with_buffer(replace(mine, extents=extents, passed=None))
        return program.with_buffer(mine)

    def _axes(self, storage: Storage, statement: Statement, stored: Sequence[Statement]) -> Iterator[Axis]:
        """The numbers of the loops that a thread runs for its elements, and the indices that reuse elements.

        An index with a floor division or a modulo, of `fold` or `store_in`, stays: it says which values share a place.
        """
        depth, space = len(self.nest.program.frame(storage)), storage.index.get_domain_space()
        dims, reused = sets.size(space) - depth, set[int]()
        mentioned = {axis for form in sets.outputs(storage.index) for axis in sets.axes_of(form)}
        for form, extent in zip(sets.outputs(storage.index), self.buffer.extents, strict=True):
            if sets.has_floors(form) and isinstance(extent, Const):
                reused |= {axis for axis in sets.axes_of(form) if axis >= depth}
                yield form, int(extent.value)
        known, missing = self._instance(storage, statement)
        for position, loop in enumerate(statement.loops):
            form = sets.outputs(statement.coords)[position]
            if position < depth or isinstance(self.nest.program.loops[loop].tag, GpuThread):
                continue
            if sets.axes_of(form) & missing:
                continue  # a loop over terms
            own = sets.outputs(sets.compose(known, sets.function(statement.frame, None, [form])))[0]
            values = {axis for axis in sets.axes_of(own) if depth <= axis < depth + dims}
            if not values & mentioned or values & reused:
                continue  # values that differ in this alone share a place
            yield from self._counted(storage, own, stored)

    def _instance(self, storage: Storage, statement: Statement) -> tuple[isl.MultiAff, set[int]]:
        """``[frame, value] -> instance`` of a statement, and the dimensions of it that these do not tell."""
        depth, space = len(self.nest.program.frame(storage)), storage.index.get_domain_space()
        variables, found = sets.variables(space), dict[int, isl.Aff]()
        forms = [*sets.outputs(statement.coords)[:depth], *sets.outputs(self._value(statement))]
        for form, variable in zip(forms, variables, strict=True):
            axes = sets.axes_of(form)
            if len(axes) == 1 and form.plain_is_equal(sets.variables(statement.frame)[min(axes)]):
                found[min(axes)] = variable
        size = sets.size(statement.frame)
        outputs = [found.get(axis, sets.constant(space, 0)) for axis in range(size)]
        return sets.function(space, statement.name, outputs), set(range(size)) - set(found)

    def _value(self, statement: Statement) -> isl.MultiAff:
        return sets.renamed(self.nest.program.value_of(statement), None)

    def _counted(self, storage: Storage, form: isl.Aff, stored: Sequence[Statement]) -> Iterator[Axis]:
        """A number counted from its least, with how many there are (-1 if no constant); nothing where that is one."""
        depth, space = len(self.nest.program.frame(storage)), form.get_domain_space()
        frame = sets.prefix(sets.identity(space), depth)
        numbers = list[isl.Map]()
        for statement in stored:
            both = self._frame_and_value(storage, statement)
            instances = statement.instances.intersect_params(self.nest.program.context)
            held = instances.apply(sets.graph(both))
            numbers.append(sets.relating(frame, sets.function(space, None, [form]), held))
        found = sets.interval_around(sets.union_of(numbers).coalesce())
        if found is None:
            yield form, -1
        elif found.extent > 1:
            low = sets.compose(frame, sets.function(found.low.get_domain_space(), None, [found.low]))
            yield form.sub(sets.outputs(low)[0]), found.extent

    def _frame_and_value(self, storage: Storage, statement: Statement) -> isl.MultiAff:
        """``instance -> [frame, value]`` of what a statement stores."""
        frame = sets.renamed(statement.prefix(len(self.nest.program.frame(storage))), None)
        return sets.joined(frame, self._value(statement))

    def _is_one_to_one(self, storage: Storage, stored: Sequence[Statement], axes: Sequence[Axis]) -> bool:
        """Whether a thread's elements are those of the layout, one for one."""
        if any(extent < 0 for _, extent in axes):
            return False
        layout = sets.function(storage.index.get_domain_space(), None, [form for form, _ in axes])
        depth, parts = len(self.nest.program.frame(storage)), list[isl.Map]()
        for statement in stored:
            both = self._frame_and_value(storage, statement)
            thread = sets.joined(sets.prefix(both, depth), self.nest.thread_of(statement))
            before, after = (
                sets.joined(thread, sets.renamed(sets.compose(both, index), None)) for index in (storage.index, layout)
            )
            instances = statement.instances.intersect_params(self.nest.program.context)
            parts.append(sets.relating(before, after, instances))
        found = sets.union_of(parts)
        return bool(found.is_single_valued()) and bool(found.is_injective())
