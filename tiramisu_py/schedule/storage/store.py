"""Commands on storage: store_in, store_at, and the scopes of local buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Input, value_names
from tiramisu_py.algorithm.declare.declare import dimensions
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.domains.linearised import indices_in
from tiramisu_py.algorithm.expressions import Expr, as_expr
from tiramisu_py.dependence.footprints import local_index, side
from tiramisu_py.errors import CommandError
from tiramisu_py.program.initial import passed
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage, Swizzle
from tiramisu_py.schedule.command_arguments import check_new_name, statements
from tiramisu_py.schedule.storage.memory_hints import check_past_caches
from tiramisu_py.schedule.storage.one_buffer import check_all_parts
from tiramisu_py.schedule.storage.place import moved, placed

#: Why an array of the caller cannot be in these memories.
CALLERS = {
    Memory.PINNED: "which the caller allocates: it is page-locked where tm.pinned_empty has made it",
    Memory.SHARED: "which cannot be in shared memory",
    Memory.REGISTER: "which cannot be a register",
    Memory.FILE: "which cannot be a file",
}


def scoped(program: Program, storage: Storage, scope: tuple[LoopId, ...], what: str) -> Program:
    """Give a storage's buffer one copy for each iteration of `scope`, just large enough for the footprint."""
    parts = list[isl.Map]()
    for statement in program.storing:
        if program.storages[statement.memory.target].name != storage.name:
            continue
        if statement.loops[: len(scope)] != scope:
            names = ", ".join(program.loops[loop].name for loop in scope)
            raise CommandError(f"{what} is computed outside of the loops ({names}): {nest(program, statement)}")
        values = sets.relating(statement.prefix(len(scope)), program.value_of(statement), statement.instances)
        parts.append(values.intersect_params(program.context))
    footprint = sets.united(parts)
    if footprint is None:
        raise CommandError(f"no statement computes {what}")
    extents, index = kept_in(program, storage, footprint.coalesce(), scope)
    buffer = program.buffers[storage.buffer]
    program = program.with_buffer(replace(buffer, scope=scope, extents=extents, passed=None))
    return program.with_storage(replace(storage, index=index))


def _copies_in(program: Program, copies: Sequence[Statement], into: object, swizzle: Swizzle | None) -> Program:
    if not isinstance(into, Memory):
        raise CommandError(f"{copies[0].name} is a copy: its layout is given by layout= when it is made")
    check_past_caches(program, [copy.name for copy in copies], into)
    for copy in copies:
        buffer = program.buffers[program.storages[copy.memory.target].buffer]
        program = program.with_buffer(_with_memory(copy.name, buffer, into, swizzle))
    return program


def store_in(
    program: Program,
    source: str,
    names: Sequence[str],
    into: Buffer | Input | str | Memory | None,
    indices: Sequence[object] | None,
    device: int = 0,
    swizzle: Swizzle | None = None,
) -> Program:
    """Keep a computation's values in a buffer of the user's, an input's array, or its own with another layout.

    `device` is the GPU whose memory a caller's array is in, where `into` is `Memory.GPU`; `swizzle` turns rows.
    """
    check_all_parts(program, statements(program, names), "store_in")
    copies = _copies(program, names)
    if copies:
        return _copies_in(program, copies, into, swizzle)
    storage = program.storages[source]
    own = program.buffers[storage.buffer]
    if isinstance(into, Memory):
        check_past_caches(program, names, into)
        return program.with_buffer(_in_memory(source, own, into, device, swizzle))
    if into is None:
        return _laid_out_anew(program, source, _index(program, source, indices))
    buffer = _target(program, source, into)
    if buffer.scope:
        return _in_turn(program, storage, buffer, indices)
    index = _index(program, source, _in_dimensions(indices, buffer))
    if len(buffer.extents) != sets.out_size(index):
        raise CommandError(
            f"{buffer.name} has {len(buffer.extents)} dimensions, but {source} is given {sets.out_size(index)} indices"
        )
    program = program.with_buffer(moved(source, own, buffer))
    program = program.with_storage(replace(storage, buffer=buffer.name, index=index, chosen=True))
    return _unused_dropped(program, own)


def _in_turn(program: Program, storage: Storage, buffer: Buffer, indices: Sequence[object] | None) -> Program:
    """Values in the buffer of others that exists once for each iteration of the same loops, and is as large."""
    own, source = program.buffers[storage.buffer], storage.source
    loops = ", ".join(program.loops[loop].name for loop in buffer.scope)
    where = f"{buffer.name} exists once for each iteration of ({loops})"
    if indices is not None:
        raise CommandError(f"{where}: give no indices, with which {source} is kept as it is now")
    if own.scope != buffer.scope:
        raise CommandError(f"{where}, and {source} is not computed in these loops: give it compute_at there first")
    if own.name == buffer.name:
        return program
    extents = [", ".join(map(str, each.extents)) for each in (buffer, own)]
    if len(own.extents) != len(buffer.extents) or not all(map(Expr.same_as, own.extents, buffer.extents)):
        raise CommandError(f"{buffer.name} has the extents {extents[0]}, and {source} needs {extents[1]}: they differ")
    changed = program.with_storage(replace(storage, buffer=buffer.name))
    return _unused_dropped(changed, own)


def _in_memory(source: str, own: Buffer, into: Memory, device: int, swizzle: Swizzle | None) -> Buffer:
    """The buffer in another memory; an array of the caller is in the memory of the host, a GPU, or both."""
    if not own.argument:
        return _with_memory(source, own, into, swizzle)
    if into not in (Memory.HOST, Memory.GPU, Memory.HOST_MAPPED):
        raise CommandError(f"{source} is in the caller's array {own.name}, {CALLERS[into]}")
    return replace(own, memory=into, device=device if into is Memory.GPU else None)


def _with_memory(source: str, own: Buffer, into: Memory, swizzle: Swizzle | None) -> Buffer:
    changed = replace(own, memory=into, pages=None, swizzle=swizzle)
    return changed if own.pages is None else placed(source, changed, own.pages)


def _copies(program: Program, names: Sequence[str]) -> list[Statement]:
    """The statements among `names` that copy an input or the values of another statement."""
    return [statement for statement in statements(program, names) if statement.role is Role.COPY]


def _laid_out_anew(program: Program, source: str, index: isl.MultiAff) -> Program:
    """A computation in the array of its own name, with another layout."""
    sharing = [storage.name for storage in program.storages_in(source) if storage.name != source]
    if sharing:
        raise CommandError(
            f"the array of {source} holds {', '.join(sharing)} too: name a buffer, as in tm.Buffer(name, extents, type)"
        )
    storage = program.storages[source]
    old = program.buffers[storage.buffer]
    fresh = Buffer(
        source,
        extents_of(_image(program, source, index), program.context),
        program.algorithm.computations[source].dtype,
        old.memory if old.name == source else Memory.HOST,
        argument=source in program.algorithm.outputs,
        device=old.device if old.name == source else None,
        pages=old.pages,
    )
    program = program.with_buffer(fresh).with_storage(replace(storage, buffer=source, index=index, chosen=True))
    return program if old.name == source else _unused_dropped(program, old)


def _unused_dropped(program: Program, old: Buffer) -> Program:
    """The program without a buffer that is no longer used; a buffer without an output is no longer the caller's."""
    if old.name in program.algorithm.inputs:
        return program
    users = [storage.source for storage in program.storages_in(old.name)]
    if users:
        argument = any(source in program.algorithm.outputs for source in users)
        return program.with_buffer(replace(program.buffers[old.name], argument=argument))
    return program.with_(buffers={n: b for n, b in program.buffers.items() if n != old.name})


def _target(program: Program, source: str, into: Buffer | Input | str) -> Buffer:
    output = source in program.algorithm.outputs
    if isinstance(into, Buffer):
        into = _with_dimensions(program, into)
        known = program.buffers.get(into.name)
        if known is not None and not same_buffer(known, into):
            raise CommandError(f"there is another buffer called {into.name}: choose another name")
        if known is None:
            check_new_name(program, into.name, "the buffer")
        buffer = into if known is None else known
    else:
        name = into if isinstance(into, str) else into.name
        buffer = program.buffers[program.storages[name].buffer]
    if buffer.strides is not None:
        _check_strides(program, source, buffer)
    dtype = program.algorithm.computations[source].dtype
    if buffer.dtype != dtype:
        raise CommandError(f"{source} is {dtype}, but buffer {buffer.name} holds {buffer.dtype}")
    if output and buffer.memory in (Memory.REGISTER, Memory.SHARED):
        raise CommandError(
            f"{source} is an output: the caller cannot read the {buffer.memory.value} buffer {buffer.name}"
        )
    return passed(buffer) if output else buffer


def same_buffer(a: Buffer, b: Buffer) -> bool:
    """Whether two buffers of one name have the same extents, type and memory."""
    if len(a.passed_extents) != len(b.passed_extents) or a.dtype != b.dtype or a.memory != b.memory:
        return False
    pairs = [
        *zip(a.passed_extents, b.passed_extents, strict=True),
        *zip(a.extents, b.extents, strict=False),
        *zip(a.strides or (), b.strides or (), strict=False),
    ]
    return (a.strides is None) == (b.strides is None) and all(x.same_as(y) for x, y in pairs)


def _with_dimensions(program: Program, given: Buffer) -> Buffer:
    """A buffer of the user's whose extents may be products: each factor is a dimension."""
    if given.passed is not None:
        return given
    extents, passed = dimensions(program.algorithm, given.name, given.extents, program.algorithm.owner)
    if extents is None:
        return given
    if given.strides is not None:
        raise CommandError(
            f"{given.name} has strides=, and the extent of a dimension is a product: give it a dimension, and a "
            "stride, for each factor"
        )
    return replace(given, extents=extents, passed=passed)


def _in_dimensions(indices: Sequence[object] | None, buffer: Buffer) -> Sequence[object] | None:
    """The indices in each dimension of a buffer, from those in extents that are products."""
    if indices is None or buffer.passed is None or len(indices) != len(buffer.passed):
        return indices
    return indices_in([as_expr(index) for index in indices], buffer.passed, buffer.extents)


def _check_strides(program: Program, source: str, buffer: Buffer) -> None:
    """Refuse strides of an array that the caller does not pass, and strides that depend on more than parameters."""
    if not buffer.argument and source not in program.algorithm.outputs:
        raise CommandError(
            f"{buffer.name} has strides=, and {source} is no output: strides are for arrays of the caller, others are "
            "laid out by extents and indices"
        )
    reader = Affine(program.algorithm.frame(None, ()), {})
    for stride in buffer.strides or ():
        try:
            reader.value(stride)
        except NotAffine as error:
            raise CommandError(
                f"the stride {stride} of {buffer.name} is not affine in the parameters of {program.algorithm.name} "
                f"({error.part} is not)"
            ) from None


def _index(program: Program, source: str, indices: Sequence[object] | None) -> isl.MultiAff:
    declared = program.algorithm.computations[source]
    space = program.algorithm.frame(None, declared.iterators)
    if indices is None:
        return sets.identity(sets.sized_frame(space, None, len(declared.iterators)))
    reader = Affine(space)
    forms = []
    for given in indices:
        expression = as_expr(given)
        try:
            forms.append(reader.single(expression))
        except NotAffine as error:
            raise CommandError(
                f"{source}.store_in: the index {expression} is not affine in {', '.join(declared.iterators)} and the "
                f"parameters ({error.part} is not)"
            ) from None
    return sets.without_dim_names(sets.function(space, None, forms))


def _image(program: Program, source: str, index: isl.MultiAff) -> isl.Set:
    domain = sets.named(program.algorithm.computations[source].domain, None)
    return domain.apply(sets.graph(index)).intersect_params(program.context)


def store_at(program: Program, source: str, names: Sequence[str], scope: tuple[LoopId, ...]) -> Program:
    """Give a computation's own buffer one copy for each iteration of the loops `scope`."""
    if _copies(program, names):
        raise CommandError(f"{', '.join(names)} is a copy: it is kept at the level at which it is made")
    check_all_parts(program, statements(program, names), "store_at")
    storage = program.storages[source]
    buffer = program.buffers[storage.buffer]
    if buffer.argument:
        raise CommandError(f"{source} is in the caller's array {buffer.name}: it exists once a call")
    if len(list(program.storages_in(buffer.name))) > 1:
        raise CommandError(f"buffer {buffer.name} is shared by several computations: store_at needs one of its own")
    return scoped(program, replace(storage, chosen=True), scope, source)


# -- the layout that a buffer keeps when it becomes local to an iteration of some loops


Layout = tuple[tuple[Expr, ...], isl.MultiAff]


def kept_in(program: Program, storage: Storage, footprint: isl.Map, scope: tuple[LoopId, ...]) -> Layout:
    """The extents and the index of a buffer that keeps ``footprint``, scope coordinates -> values, in its layout.

    An index of the buffer that is affine in the value indices is counted from the corner of the footprint. One with a
    floor division or a modulo (of `fold`, or of `store_in`) stays as it is, so that `fold` and `store_at` commute.
    """
    forms = sets.outputs(storage.index)
    before = sets.in_size(storage.index) - len(value_names(program.algorithm.source(storage.source)))
    if not any(map(sets.has_floors, forms)) and _is_plain(forms, before, sets.in_size(storage.index)):
        return local_index(program, footprint, len(scope), storage.source)
    if program.buffers[storage.buffer].scope == scope and not storage.inner:
        return program.buffers[storage.buffer].extents, storage.index
    return _laid_out(program, storage, footprint, scope, [_of_values(storage, form, before) for form in forms])


def _is_plain(forms: list[isl.Aff], before: int, size: int) -> bool:
    """Whether each index of a buffer is a value index, counted from some corner."""
    return len(forms) == size - before and all(
        sets.stride(form, before + axis) == (1 if axis == own else 0)
        for own, form in enumerate(forms)
        for axis in range(size - before)
    )


def _of_values(storage: Storage, form: isl.Aff, before: int) -> isl.Aff:
    """A form of scope coordinates and values as one of values alone, without its corner, which depends on the scope."""
    space = sets.sized_frame(form.get_domain_space(), None, sets.in_size(storage.index) - before)
    moves = [sets.stride(form, position) for position in range(before)]
    corner = sets.constant(form.get_domain_space(), 0)
    for variable, by in zip(sets.variables(form.get_domain_space()), moves, strict=False):
        corner = corner if by is None else corner.add(sets.scaled(variable, by))
    if None in moves or (sets.has_floors(form) and any(moves)):
        raise CommandError(
            f"the buffer of {storage.source} is a ring whose start differs in each iteration of its loops: "
            "store_at comes before slide or fold"
        )
    rest = sets.function(form.get_domain_space(), None, [form.sub(corner)])
    zeros = [sets.constant(space, 0)] * before
    return sets.outputs(sets.compose(sets.function(space, None, [*zeros, *sets.variables(space)]), rest))[0]


def _laid_out(
    program: Program, storage: Storage, footprint: isl.Map, scope: tuple[LoopId, ...], forms: list[isl.Aff]
) -> Layout:
    buffer, depth = program.buffers[storage.buffer], len(scope)
    values = forms[0].get_domain_space()
    space = sets.sized_frame(values, None, depth + sets.size(values))
    variables = sets.variables(space)
    outer, own = (sets.function(space, None, part) for part in (variables[:depth], variables[depth:]))
    whole = extents_of(footprint.range().apply(sets.graph(sets.function(values, None, forms))), program.context)
    extents, index = list(buffer.extents), []
    for axis, form in enumerate(forms):
        single = sets.function(values, None, [form])
        at = sets.outputs(sets.compose(own, single))[0]
        if not sets.has_floors(form):
            corner, extent = side(footprint.apply_range(sets.graph(single)), program.context, storage.source)
            moved = sets.compose(outer, sets.function(corner.get_domain_space(), None, [corner]))
            if not extent.same_as(whole[axis]) or not sets.is_constant(corner):
                at, extents[axis] = at.sub(sets.outputs(moved)[0]), extent
        index.append(at)
    return tuple(extents), sets.function(space, None, index)
