"""Places exist: a statement is inside the scope of the buffers it touches, elements are inside their extents, and
their type is that of the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.domains.affine import NotAffine
from tiramisu_py.algorithm.domains.conditions import missing_condition
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Storage
from tiramisu_py.proof.memory.values import first_spot
from tiramisu_py.proof.violations.findings import Finding, Key, access_key, wanted, words, work
from tiramisu_py.sets import smallest

#: The sorts of findings: accesses out of scope, arrays that the caller cannot reach, values that do not exist, buffers
#: of another type, extents that are not affine, and elements outside the extents.
_OUT_OF_SCOPE, _HIDDEN, _NO_VALUE, _TYPE, _EXTENTS, _OUTSIDE = "scope", "hidden", "value", "type", "extents", "outside"


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every access to a place that does not exist, or does not fit its values."""
    program = flow.accesses.program
    yield from _unreachable(flow) if sought is None or sought.sort == _OUT_OF_SCOPE else ()
    yield from _hidden(program)
    yield from _nonexistent(flow, sought)
    for storage in program.storages.values():
        yield from _mistyped(program, storage)
    for buffer in program.buffers.values() if sought is None or sought.sort in (_EXTENTS, _OUTSIDE) else ():
        yield from _outside(flow, buffer, sought)


# -- scope


def _unreachable(flow: Flow) -> Iterator[Finding]:
    program = flow.accesses.program
    for statement, storage, source in _used(flow):
        if not program.in_scope(statement, storage):
            accessing = _accessing(flow, statement, source)
            if accessing.is_empty():
                continue  # a part without an instance
            key = Key(_OUT_OF_SCOPE, (work(statement), storage.source))
            yield Finding(key, partial(_out_of_scope, flow, statement, storage, source, accessing))


def _used(flow: Flow) -> Iterator[tuple[Statement, Storage, str]]:
    """The storages that each statement stores to (the source is then empty) and loads from."""
    program = flow.accesses.program
    for statement in program.acting:
        if statement.stores:
            yield statement, program.storages[statement.memory.target], ""
        for source in flow.accesses.sources(statement):
            yield statement, program.storage_for(statement, source), source


def _accessing(flow: Flow, statement: Statement, source: str) -> isl.Set:
    """The instances that read a source; all for a store, or if only a branch that is never taken reads it."""
    relation = flow.accesses.read_relation(statement, source) if source else None
    if relation is None or relation.is_empty():
        return statement.instances.intersect_params(flow.accesses.program.context.params())
    return relation.domain()


def _out_of_scope(flow: Flow, statement: Statement, storage: Storage, source: str, instances: isl.Set) -> Violation:
    program = flow.accesses.program
    buffer = program.buffers[storage.buffer]
    witness = Witness({}, reader=(statement.source, ()), element=(buffer.name, ()))
    if not instances.is_empty():
        params = smallest.smallest_params(instances)
        instance = smallest.earliest(instances, statement.coords, params)
        who = (statement.source, smallest.evaluated(program.value_of(statement), instance, params))
        witness = replace(witness, params=params, reader=who)
    loops = ", ".join(program.loops[loop].name for loop in buffer.scope)
    does = "stores to" if storage.name == statement.memory.target else "reads"
    where = f"outside of the loops ({loops}), each iteration of which has its own copy of {buffer.name}"
    repair = f"keep {storage.source} in a buffer of the whole call, or compute {statement.handle} inside these loops"
    inside = _moved_inside(program, statement, buffer.scope[-1]) or _fused(flow, statement, storage, source)
    repair += f": {inside}" if inside else ""
    return Violation("reach", f"{statement.handle} {does} {storage.source} {where}, {witness}", witness, repair=repair)


def _moved_inside(program: Program, statement: Statement, loop: LoopId) -> str:
    """The command that computes what a statement computes in a loop where it is needed; "" if it is not."""
    if statement.role is not Role.VALUE or statement.source in program.algorithm.outputs:
        return ""
    needing = {statement.source}
    for name in program.algorithm.computations:
        if any(each.loads & needing for each in program.statements_of(name)):
            needing.add(name)
    inside = [s.handle for s in program.with_this_loop(loop) if s.loads & needing and s.source != statement.source]
    return f"{statement.source}.compute_at({inside[-1]}, {program.loops[loop].name})" if inside else ""


def _fused(flow: Flow, statement: Statement, storage: Storage, source: str) -> str:
    """The command that gives a reader the loops of another one, where each iteration has what it reads; "" if none."""
    program, scope = flow.accesses.program, flow.accesses.program.buffers[storage.buffer].scope
    depth, names = len(scope), program.loop_names(statement)
    beside = [s for s in program.with_this_loop(scope[-1]) if storage.name in s.loads and s.source != statement.source]
    if not source or not beside or statement.loops[:1] == scope[:1] or len(names) < depth:
        return ""
    if list(names[:depth]) != list(program.loop_names(beside[-1])[:depth]):
        return ""
    read = flow.accesses.read_relation(statement, source)
    if read is None:
        return ""
    needed = sets.graph(statement.prefix(depth), statement.instances).reverse().apply_range(read)
    needed = sets.range_named(needed.intersect_params(program.context.params()), None)
    kept = [
        sets.range_named(sets.relating(writer.prefix(depth), program.value_of(writer), writer.instances), None)
        for writer in program.with_this_loop(scope[-1])
        if writer.memory.target == storage.name
    ]
    if not kept or not needed.is_subset(sets.union_of(kept)):
        return ""  # in an iteration of its own
    return f"{statement.handle}.fuse({beside[-1].handle}, {names[depth - 1]})"


def _hidden(program: Program) -> Iterator[Finding]:
    for name in (*program.algorithm.outputs, *program.algorithm.inputs):
        if name in program.storages and program.buffers[program.storages[name].buffer].scope:
            yield Finding(Key(_HIDDEN, (name,)), partial(_not_the_callers, program, name))


def _not_the_callers(program: Program, name: str) -> Violation:
    buffer = program.storages[name].buffer
    loops = ", ".join(program.loops[loop].name for loop in program.buffers[buffer].scope)
    message = f"the caller cannot reach {name}: {buffer} exists once for each iteration of ({loops})"
    return Violation("reach", message, Witness({}, reader=(name, ()), element=(buffer, ())))


# -- values


def _nonexistent(flow: Flow, sought: Key | None) -> Iterator[Finding]:
    """Statements that compute values that the algorithm does not have.

    Start and combination run over a whole array of partial results. Some of these may belong to no value: they have no
    term, and are merged into nothing.
    """
    for statement in flow.accesses.program.storing:
        if statement.memory.target in flow.accesses.partials and not statement.adds:
            continue
        key = Key(_NO_VALUE, (work(statement),))
        write = flow.accesses.write(statement) if wanted(key, sought) else None
        if write is not None:
            bad = write.domain.subtract(sets.preimage(flow.accesses.values.domain(write.source), write.value))
            if not bad.is_empty():
                yield Finding(key, partial(_no_such_value, write, bad))


def _no_such_value(write: MemoryAccess, bad: isl.Set) -> Violation:
    spot = first_spot(write, bad)
    witness = Witness(spot.params, spot.named, spot.named, spot.element)
    message = f"{words(spot.named)} is computed, but {write.source} has no such value, {witness}"
    return Violation("bounds", message, witness)


# -- type


def _mistyped(program: Program, storage: Storage) -> Iterator[Finding]:
    buffer, dtype = program.buffers[storage.buffer], program.algorithm.source(storage.source).dtype
    if buffer.dtype != dtype:
        message = f"{storage.source} is {dtype}, but {buffer.name}, where it is kept, holds {buffer.dtype}"
        witness = Witness({}, element=(buffer.name, ()))
        violation = Violation("bounds", message, witness, repair=f"make {buffer.name} {dtype}")
        yield Finding.of(Key(_TYPE, (storage.name,)), violation)


# -- extents


def _outside(flow: Flow, buffer: Buffer, sought: Key | None) -> Iterator[Finding]:
    try:
        inside = extent_box(flow.accesses.program, buffer)
    except NotAffine as error:
        message = f"the extents of {buffer.name} cannot be checked: {error.part} is not affine in the parameters"
        witness = Witness({}, element=(buffer.name, ()))
        repair = f"give {buffer.name} extents that are affine in the parameters"
        yield Finding.of(Key(_EXTENTS, (buffer.name,)), Violation("unknown", message, witness, repair=repair))
        return
    for access in flow.accesses.of_buffer(buffer.name):
        key = Key(_OUTSIDE, access_key(access))
        if wanted(key, sought):
            bad = outside(access, inside)
            if not bad.is_empty():
                yield Finding(key, partial(_beyond, flow, access, bad))


def extent_box(program: Program, buffer: Buffer) -> isl.Set:
    """The elements of a buffer."""
    return box(sets.sized_frame(program.algorithm.param_space, buffer.name, len(buffer.extents)), buffer.extents)


def outside(access: MemoryAccess, inside: isl.Set) -> isl.Set:
    """The part of an access's domain that is at no element of its buffer."""
    return access.domain.subtract(sets.preimage(inside, access.element))


def _beyond(flow: Flow, access: MemoryAccess, bad: isl.Set) -> Violation:
    program = flow.accesses.program
    spot = first_spot(access, bad)
    who = spot.computed(program)
    witness = Witness(spot.params, spot.named if access.is_write else None, who, spot.element)
    shape = f"[{', '.join(map(str, access.buffer.extents))}]"
    does = f"{words(spot.named)} is stored to" if access.is_write else f"{words(who)} reads {words(spot.named)} from"
    if access.actor.statement is None:
        does = f"the caller finds {words(spot.named)} in"
    needed = missing_condition(bad, program.context)
    if min(spot.element[1], default=0) < 0:
        advice = f"choose indices of {access.buffer.name} that start at 0: {access.source}.store_in([...])"
    else:
        advice = f"make {access.buffer.name} larger" + (f", or assume {needed}" if needed else "")
    message = f"{does} {words(spot.element)}, but {access.buffer.name} has the shape {shape}, {witness}"
    return Violation("bounds", message, witness, repair=advice)
