"""The program before any command: each computation has its own nest and its own buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.declare.shared_loops import SharedLoop, is_in_order, shared_loops
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.domains.extents import default_extents, default_place
from tiramisu_py.algorithm.domains.runs import stored_axes
from tiramisu_py.algorithm.domains.scatters import update_order
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import accesses, mentions
from tiramisu_py.errors import DeclarationError
from tiramisu_py.program.editing import Rewrite, delayed, reversed_loop
from tiramisu_py.program.loops import Loop
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import MemoryUse, Role, Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage


def initial_program(algorithm: Algorithm) -> Program:
    """The program of an algorithm as declared: inputs, computations in order, outputs."""
    program = Program(replace(algorithm, inputs={}, computations={}, outputs=()))
    for declared in algorithm.inputs.values():
        program = with_input(program, declared)
    for group in _by_group(algorithm.computations.values()):
        program = with_group(program, group)
    return with_outputs(program, algorithm.outputs)


def caught_up(program: Program, later: Program) -> Program:
    """A state of a program's history with the additional declarations of `later`, as if they had been made before."""
    algorithm, known = later.algorithm, program.algorithm
    if known is algorithm:
        return program
    if algorithm.by_index != known.by_index:
        algorithm = replace(algorithm, by_index=known.by_index)
    unread = [name for name in _unread_numbers(algorithm) if name not in known.computations]
    if unread:  # a command has asked for them, which the state does not have
        kept = {name: each for name, each in algorithm.computations.items() if name not in unread}
        algorithm = algorithm.with_computations(kept)
    for declared in algorithm.inputs.values():
        if declared.name not in known.inputs:
            program = with_input(program, declared)
    new = [
        computation
        for computation in algorithm.computations.values()
        if computation.name not in known.computations
        and computation.name not in algorithm.wholes
        and algorithm.rewritten.get(computation.name, computation) is not None
    ]
    for group in _by_group(new):
        program = with_group(program, group)
    if program.algorithm.outputs != algorithm.outputs:
        program = with_outputs(program, algorithm.outputs)
    same = known.wholes == algorithm.wholes and known.dealt == algorithm.dealt
    same = same and known.gathered == algorithm.gathered and known.rewritten == algorithm.rewritten
    return program.with_(algorithm=algorithm) if same else program


def _unread_numbers(algorithm: Algorithm) -> list[str]:
    """The numbers of runs that no declaration reads."""
    computations = algorithm.computations.values()
    read = {access.source for each in computations for part in (each.expr, *each.guards) for access in accesses(part)}
    return [each.name for each in computations if each.run_of and each.name not in read]


def with_input(program: Program, declared: Input) -> Program:
    """The program with an additional input, in a buffer that the caller passes: of the host, of a GPU, or of both."""
    _check_unused(program, declared.name)
    program = program.with_(algorithm=program.algorithm.with_input(declared))
    if declared.scalar:
        return program
    on_host = Memory.HOST_MAPPED if declared.mapped else Memory.HOST
    memory = on_host if declared.device is None else Memory.GPU
    buffer = Buffer(
        declared.name, declared.shape, declared.dtype, memory, argument=True, device=declared.device,
        strides=declared.strides, passed=declared.passed,
    )  # fmt: skip
    space = sets.sized_frame(program.algorithm.param_space, None, len(declared.shape))
    return _stored(program, buffer, declared.name, sets.identity(space))


def by_index_if_moved(program: Program) -> Program:
    """The program with values in runs kept by all indices where they cannot be moved by their positions.

    Arrays that are dealt out to ranks name values by all indices, and so do messages where ranks do not know where runs
    begin; a transfer asks the host. Values whose place the user has chosen stay there.
    """
    moved = [each for each in program.algorithm.computations.values() if _is_moved_by_index(program, each)]
    new = [each for each in moved if each.name not in program.algorithm.by_index]
    if not new:
        return program
    algorithm = replace(program.algorithm, by_index=program.algorithm.by_index.union(each.name for each in new))
    for declared in new:
        axes = stored_axes(program.algorithm, declared)
        storage = program.storages.get(declared.name)
        if len(axes) == len(declared.iterators) or storage is None or storage.chosen:
            continue
        buffer = program.buffers[storage.buffer]
        if buffer.scope or not storage.index.plain_is_equal(default_place(declared.domain, axes)):
            continue
        extents = default_extents(declared.domain, program.context)
        program = program.with_buffer(replace(buffer, extents=extents))
        program = program.with_storage(replace(storage, index=default_place(declared.domain)))
    return program.with_(algorithm=algorithm)


def _is_moved_by_index(program: Program, declared: Computation) -> bool:
    """Whether values in runs are in an array that is dealt out, in whole messages, or in runs that only GPUs know."""
    if not declared.guards or declared.shape is not None or declared.stage is not None:
        return False
    inputs = program.algorithm.inputs
    named = {access.source for guard in declared.guards for access in accesses(guard)}
    if not any(name in inputs and inputs[name].monotone for name in named):
        return False
    if declared.name in program.ranks.distributions or program.ranks.blocks is not None:
        return True
    own = (each for each in program.statements.values() if each.source == declared.name)
    if any(each.link.message is not None and not each.guards for each in own):
        return True
    return any(name in inputs and inputs[name].device is not None for name in named) and any(
        each.is_gpu for each in program.loops.values()
    )


def with_computation(program: Program, declared: Computation, *, order: tuple[str, ...] | None = None) -> Program:
    """The program with an additional computation, after all others.

    Its array begins at index 0, or at the smallest index in each dimension in which that may be negative; one whose
    shape is declared begins at index 0. Values in runs (see `algorithm.domains.runs`) are kept by position. `order` is
    that of the loops of a reduction's terms, where it is not the usual one.
    """
    _check_unused(program, declared.name)
    program = program.with_(algorithm=program.algorithm.with_computation(declared))
    if declared.shape is None:
        axes = stored_axes(program.algorithm, declared)
        place, extents = default_place(declared.domain, axes), default_extents(declared.domain, program.context, axes)
    else:
        place = sets.identity(sets.sized_frame(program.algorithm.param_space, None, len(declared.iterators)))
        extents = declared.shape
    program = _stored(program, Buffer(declared.name, extents, declared.dtype), declared.name, place)
    if not declared.is_reduction:
        return _with_nest(
            program, declared, declared.name, Role.VALUE, declared.domain, declared.expr, declared.guards,
            order=declared.loop_iterators,
        )  # fmt: skip
    inner = [guard for guard in declared.guards if mentions(guard, declared.over)]
    outer = tuple(guard for guard in declared.guards if not mentions(guard, declared.over))
    assert declared.op is not None
    identity = declared.op.identity(declared.dtype)
    program = _with_nest(
        program, declared, f"{declared.name}_init", Role.INIT, declared.domain, identity, outer, declared.iterators
    )
    return _with_nest(
        program, declared, f"{declared.name}_update", Role.UPDATE, declared.points, declared.expr, (*outer, *inner),
        order=update_order(declared) if order is None else order,
    )  # fmt: skip


def _by_group(computations: Iterable[Computation]) -> Iterator[list[Computation]]:
    """The computations of each group together, and the others alone."""
    for label, members in groupby(computations, lambda each: each.group):
        together = [*members]
        yield from [together] if label else ([each] for each in together)


def with_group(program: Program, members: Sequence[Computation]) -> Program:
    """The program with the computations of a group (or one alone) after all others, in loops that their values need."""
    for each in members:
        program = with_computation(program, each)
    return in_order_of_reads(program, members)


def with_outputs(program: Program, names: tuple[str, ...]) -> Program:
    """The program with these outputs instead of the previous ones; the buffers that hold them are the caller's."""
    for name in names:
        if name not in program.storages:
            raise DeclarationError(f"{name} has been inlined and is kept nowhere: name outputs before inlining")
        memory = program.buffers[program.storages[name].buffer].memory
        if memory in (Memory.REGISTER, Memory.SHARED):
            kept = "registers" if memory is Memory.REGISTER else "shared memory"
            raise DeclarationError(f"{name} is kept in {kept}, where the caller cannot read it")
    program = program.with_(algorithm=program.algorithm.with_outputs(names))
    held = {program.storages[name].buffer for name in (*names, *program.algorithm.inputs) if name in program.storages}
    changed = [b for b in program.buffers.values() if b.argument != (b.name in held)]
    for buffer in changed:
        if buffer.name in held and buffer.pages is not None:
            raise DeclarationError(
                f"{buffer.name} is placed ({buffer.pages}), which is for temporaries: an output is in the caller's "
                f'array; make that with kernel.empty("{buffer.name}", ...)'
            )
        program = program.with_buffer(passed(buffer) if buffer.name in held else replace(buffer, argument=False))
    return program


def passed(buffer: Buffer) -> Buffer:
    """A buffer as an array that the caller passes: one in GPU memory is on the first GPU, unless it names another."""
    device = buffer.device or 0 if buffer.memory is Memory.GPU else None
    return replace(buffer, argument=True, device=device)


def _check_unused(program: Program, name: str) -> None:
    """Refuse a name that a command has given to a part, a copy or a buffer."""
    for statement in (name, f"{name}_init", f"{name}_update"):
        if statement in program.statements:
            raise DeclarationError(f"{name!r} cannot be declared: the schedule has a statement called {statement}")
    if name in program.buffers or name in program.storages:
        raise DeclarationError(f"{name!r} cannot be declared: the schedule has a buffer of this name")


def _stored(program: Program, buffer: Buffer, source: str, place: isl.MultiAff) -> Program:
    storage = Storage(source, source, buffer.name, place)
    return program.with_buffer(buffer).with_storage(storage)


def _with_nest(
    program: Program,
    declared: Computation,
    name: str,
    role: Role,
    points: isl.Set,
    body: Expr,
    guards: tuple[Expr, ...],
    dims: tuple[str, ...] | None = None,
    order: tuple[str, ...] | None = None,
) -> Program:
    """The program with a statement in a nest of its own: a loop for each of its dimensions, in this `order`."""
    dims = declared.point_iterators if dims is None else dims
    order = dims if order is None else order
    instances = sets.with_dims(sets.named(points, name), dims)
    identity = sets.identity(instances.get_space())
    first = program.next_loop()
    loops = [Loop(first + k, dim) for k, dim in enumerate(order)]
    variables = dict(zip(dims, sets.outputs(identity), strict=True))
    statement = Statement(
        name=name,
        source=declared.name,
        role=role,
        dims=dims,
        instances=instances,
        point=sets.renamed(identity, declared.name),
        loops=tuple(loop.id for loop in loops),
        coords=sets.function(instances.get_space(), None, [variables[dim] for dim in order]),
        body=body,
        memory=MemoryUse(target=declared.name),
        guards=guards,
    )
    return program.with_loop(*loops).with_statement(statement)


# -- the loops before any command: of values that depend on each other, in the order of their reads


def in_order_of_reads(program: Program, members: Sequence[Computation]) -> Program:
    """The program in which values that depend on each other are computed before they are read, if they can be.

    Computations of a group share loops for it. Loops keep the order and the direction of the declaration where that
    serves; `Program.origin.turned` says which do not. The program stays as it is where no order of loops is found:
    commands may give one, and the proof asks for it.
    """
    names = [each.name for each in members]
    if not any(read.source in names for c in members for e in (c.expr, *c.guards) for read in accesses(e)):
        return program
    reads = ValueSets(program.algorithm).between(members)
    if not reads or (len(members) == 1 and all(map(is_in_order, reads.values()))):
        return program
    nests = shared_loops(names, reads, {each.name: len(each.iterators) for each in members})
    if nests is None:
        return program
    declared = program
    for name in names:
        program = _in_order_of_dims(program, name, [nest.dims[name] for nest in _around(name, nests)])
    for nest in nests:
        program = _shared(program, nest)
    ordered = [name for nest in nests for name in ((nest,) if isinstance(nest, str) else nest.members)]
    said = [*_interchanged(declared, names, nests), *_reversed(program, nests)]
    program = _in_order(program, ordered)
    return program.with_(origin=replace(program.origin, turned=(*program.origin.turned, *said)))


def _around(name: str, nests: Sequence[SharedLoop | str]) -> Iterator[SharedLoop]:
    """The loops around a computation, outermost first."""
    for nest in nests:
        if isinstance(nest, SharedLoop) and name in nest.members:
            yield nest
            yield from _around(name, nest.inside)


def _in_order_of_dims(program: Program, name: str, first: Sequence[int]) -> Program:
    """The program in which the loops over some dimensions of a computation's values are the outermost ones."""
    if list(first) == list(range(len(first))):
        return program
    dims = [*first, *(dim for dim in range(max(first)) if dim not in first)]
    back = [dims.index(dim) for dim in range(len(dims))]
    for old in {s.loops[: len(dims)]: None for s in program.statements_of(name)}:
        new = tuple(program.loops[old[dim]] for dim in dims)
        program = Rewrite(old, new, lambda c: [c[d] for d in dims], lambda c: [c[d] for d in back]).applied(program)
    return program


def _interchanged(declared: Program, names: Sequence[str], nests: Sequence[SharedLoop | str]) -> Iterator[str]:
    """The words for loops in another order."""
    for name in names:
        first = [nest.dims[name] for nest in _around(name, nests)]
        if first != list(range(len(first))):
            loops = declared.loop_names(declared.statements_of(name)[0])
            yield f"{name} runs {', '.join(loops[dim] for dim in first)} outermost"


def _reversed(program: Program, nests: Sequence[SharedLoop | str]) -> Iterator[str]:
    """The words for loops that run backwards."""
    for nest in nests:
        if isinstance(nest, SharedLoop):
            loop = program.loop_names(program.statements_of(nest.members[0])[0])[nest.depth]
            if nest.is_reversed:
                yield f"{_listed(nest.members)} {loop} backwards"
            yield from _reversed(program, nest.inside)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'runs' if len(names) == 1 else 'run'}"


def _shared(program: Program, nest: SharedLoop | str) -> Program:
    """The program in which the computations of a nest have its loops."""
    if isinstance(nest, str):
        return program
    for name in nest.members:
        for loop in {s.loops[nest.depth]: None for s in program.statements_of(name)}:
            program = reversed_loop(program, loop) if nest.is_reversed else program
            program = delayed(program, loop, nest.delays[name]) if nest.delays[name] else program
    if len(nest.members) > 1:
        program = _with_one_loop(program, nest)
    for each in nest.inside:
        program = _shared(program, each)
    return program


def _with_one_loop(program: Program, nest: SharedLoop) -> Program:
    """All statements of a nest in the loop of the first one."""
    statements = [s for name in nest.members for s in program.statements_of(name)]
    loop = statements[0].loops[nest.depth]
    return _without_unused_loops(program.with_statement(*[_in_loop(s, nest.depth, loop) for s in statements]))


def _in_loop(statement: Statement, depth: int, loop: int) -> Statement:
    return replace(statement, loops=(*statement.loops[:depth], loop, *statement.loops[depth + 1 :]))


def _without_unused_loops(program: Program) -> Program:
    used = {loop for statement in program.statements.values() for loop in statement.loops}
    return program.with_(loops={number: loop for number, loop in program.loops.items() if number in used})


def _in_order(program: Program, sources: Sequence[str]) -> Program:
    """The program with the statements of some computations last, in this order, which settles ties."""
    last = {s.name: s for source in sources for s in program.statements_of(source)}
    others = {name: s for name, s in program.statements.items() if name not in last}
    return program.with_(statements={**others, **last})
