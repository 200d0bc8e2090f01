"""How many values a folded buffer has to keep: the smallest modulo that makes every read see its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Storage

#: How many larger modulos are tried.
_MORE = 16
#: What isl may do to find one that serves all reads.
OPERATIONS = 1_500_000


def larger_modulo(flow: Flow, storage: Storage) -> str:
    """The command that folds by a larger modulo, ``p.fold(r, 3)`` or ``p.store_in([i % 3])``; "" if none is near."""
    try:
        with sets.apart(flow.accesses.program.algorithm.isl_context, OPERATIONS):
            return _larger_modulo(flow, storage)
    except isl.Error:
        return ""


def _larger_modulo(flow: Flow, storage: Storage) -> str:
    program = flow.accesses.program
    declared = program.algorithm.source(storage.source)
    buffer = program.buffers[storage.buffer]
    alone = len(list(program.storages_in(buffer.name))) == 1
    if storage.inner or not isinstance(declared, Computation) or not alone:
        return ""
    scope = len(buffer.scope)
    for axis, dimension, modulo in _folds(program, storage):
        if dimension < scope:
            continue
        for larger in range(modulo + 1, modulo + 1 + _MORE):
            if _serves(flow, _folded(program, storage, axis, dimension, larger), buffer.name):
                if scope:
                    return f"{declared.name}.fold({declared.iterators[dimension - scope]}, {larger})"
                return f"{declared.name}.store_in([{_indices(storage, declared, axis, dimension, larger)}])"
    return ""


def _folds(program: Program, storage: Storage) -> Iterator[tuple[int, int, int]]:
    """The components of an index that are a value index modulo the extent: (component, value index, modulo)."""
    components = sets.outputs(storage.index)
    variables = sets.variables(storage.index.get_space().domain())
    for axis, extent in enumerate(program.buffers[storage.buffer].extents):
        if not isinstance(extent, Const):
            continue
        for dimension, variable in enumerate(variables):
            if components[axis].plain_is_equal(sets.modulo(variable, int(extent.value))):
                yield axis, dimension, int(extent.value)


def _folded(program: Program, storage: Storage, axis: int, dimension: int, modulo: int) -> Program:
    """The program with one component of a storage's index folded by another modulo."""
    components = sets.outputs(storage.index)
    space = storage.index.get_space().domain()
    components[axis] = sets.modulo(sets.variables(space)[dimension], modulo)
    buffer = program.buffers[storage.buffer]
    extents = (*buffer.extents[:axis], Const(modulo, int64), *buffer.extents[axis + 1 :])
    index = sets.function(space, None, components)
    program = program.with_buffer(replace(buffer, extents=extents, passed=None))
    return program.with_storage(replace(storage, index=index))


def _serves(flow: Flow, program: Program, buffer: str) -> bool:
    other = Flow(MemoryAccesses(program, flow.accesses.values))
    homes = other.accesses.homes_of(buffer)
    return all(other.unserved(read).is_empty() for home in homes for read in other.accesses.readers(home))


def _indices(storage: Storage, declared: Computation, axis: int, dimension: int, modulo: int) -> str:
    """The index as the user would write it."""
    written = [_component(component, declared) for component in sets.outputs(storage.index)]
    written[axis] = f"{declared.iterators[dimension]} % {modulo}"
    return ", ".join(written)


def _component(aff: isl.Aff, declared: Computation) -> str:
    for name, variable in zip(declared.iterators, sets.variables(aff.get_domain_space()), strict=True):
        if aff.plain_is_equal(variable):
            return name
    return str(sets.constant_of(aff)) if sets.is_constant(aff) else str(aff)
