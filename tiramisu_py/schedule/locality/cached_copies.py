"""Copies of the values that a consumer reads, near it and with their own layout."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, Input, value_names
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.extents import room_for
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, as_expr
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.algorithm.traversal import mentions
from tiramisu_py.dependence.footprints import local_index
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import MemoryUse, Role, Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, scope_of, statements
from tiramisu_py.schedule.locality.compute_at import needed_by, reads
from tiramisu_py.schedule.loops.order import Level, Root


@dataclass(frozen=True)
class CachedCopy:
    """A copy in memory of the host, or of a GPU: its name, its loops, its memory and its layout."""

    name: str
    source: str
    iterators: tuple[str, ...]
    memory: Memory
    layout: tuple[object, ...] | None


def copy_at(program: Program, consumer: Sequence[str], level: Level, copy: CachedCopy, command: str) -> Program:
    """Copy the values of a source that the consumer reads, at a level of its loops, and let it read the copy."""
    check_copy(program, copy.source, copy.iterators, copy.name)
    scope = () if isinstance(level, Root) else scope_of(program, consumer, level)
    readers = [s for s in statements(program, consumer) if reads(s, copy.source)]
    readers = [s for s in readers if s.loops[: len(scope)] == scope]
    if not readers:
        raise CommandError(f"{', '.join(consumer)} does not read {copy.source} there (or reads another copy already)")
    for reader in readers:
        if any(ahead.source == copy.source for ahead in reader.memory.prefetches):
            raise CommandError(
                f"{reader.handle} prefetches {copy.source}, but would read it from {copy.name}: leave out "
                f"{reader.handle}.prefetch({copy.source}, ..), or prefetch {copy.name} after the command"
            )
    declared = program.algorithm.source(copy.source)
    needed = needed_by(program, copy.source, readers, len(scope))
    program, statement = _copying(program, copy, scope, needed, declared)
    program = program.with_statement_before(statement, [reader.name for reader in readers])
    program = _with_storage(program, copy, scope, needed, declared)
    for reader in readers:
        level_loop = scope[-1] if scope else None
        order = Order(statement.name, reader.name, level_loop, command)
        program = program.with_(orders=(*program.orders, order))
        changed = program.statements[reader.name].loading(copy.source, copy.name)
        program = program.with_statement(changed)
    return _after_producers(program, copy, statement, scope, command)


def check_copy(program: Program, source: str, iterators: Sequence[str], name: str) -> None:
    """Refuse a copy of something that cannot be copied, with the wrong number of loops, or under a name in use."""
    declared = program.algorithm.source(source)
    if isinstance(declared, Computation) and any(not mentions(guard, declared.over) for guard in declared.guards):
        raise CommandError(f"{source} has values only under conditions on values: it cannot be copied as a whole")
    rank = len(value_names(declared))
    if rank == 0:
        raise CommandError(f"{source} is a scalar: there is nothing to copy")
    if len(iterators) != rank or len(set(iterators)) < rank:
        raise CommandError(
            f"a copy of {source} needs {rank} different iterators, one a dimension, not ({', '.join(iterators)})"
        )
    check_new_name(program, name, "the copy (see name=)")


def _after_producers(
    program: Program, copy: CachedCopy, statement: Statement, scope: tuple[LoopId, ...], command: str
) -> Program:
    for producer in program.statements_of(copy.source):
        sharing = producer.loops[: len(scope)] == scope
        level = scope[-1] if scope and sharing else None
        program = program.with_(orders=(*program.orders, Order(producer.name, statement.name, level, command)))
    return program


def _copying(
    program: Program, copy: CachedCopy, scope: tuple[LoopId, ...], needed: isl.Map, declared: Input | Computation
) -> tuple[Program, Statement]:
    outer = [program.loops[loop].name for loop in scope]
    dims = distinct([*outer, *copy.iterators])
    instances = sets.with_dims(sets.flat_pairs(needed, copy.name), dims)
    space = instances.get_space()
    first = program.next_loop()
    loops = [Loop(first + k, name) for k, name in enumerate(copy.iterators)]
    program = program.with_loop(*loops)
    variables = sets.variables(space)
    statement = Statement(
        name=copy.name,
        source=copy.source,
        role=Role.COPY,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, copy.source, variables[len(scope) :]),
        loops=scope + tuple(loop.id for loop in loops),
        coords=sets.renamed(sets.identity(space), None),
        body=Access(copy.source, tuple(map(Iter, value_names(declared))), declared.dtype),
        memory=MemoryUse(target=copy.name),
    )
    return program, statement


def _with_storage(
    program: Program, copy: CachedCopy, scope: tuple[LoopId, ...], needed: isl.Map, declared: Input | Computation
) -> Program:
    extents, index = local_index(program, needed, len(scope), copy.source)
    if copy.layout is not None:
        extents, layout = laid_out(program, copy.name, copy.iterators, copy.layout, extents)
        index = sets.compose(index, layout)
    buffer = Buffer(copy.name, extents, declared.dtype, copy.memory, scope)
    return program.with_buffer(buffer).with_storage(Storage(copy.name, copy.source, copy.name, index))


def laid_out(
    program: Program, name: str, iterators: Sequence[str], wanted: Sequence[object], box: Sequence[Expr]
) -> tuple[tuple[Expr, ...], isl.MultiAff]:
    """The layout of a copy as a function of the indices within its box, and the extents of its image."""
    space = program.algorithm.frame(None, tuple(iterators))
    reader = Affine(space)
    try:
        forms = [reader.single(as_expr(given)) for given in wanted]
    except NotAffine as error:
        raise CommandError(
            f"the layout of {name} is not affine in {', '.join(iterators)}: {error.part} is not"
        ) from None
    inside = sets.universe(space)
    for variable, extent in zip(sets.variables(space), box, strict=True):
        low = sets.constant(space, 0).to_pw_aff()
        inside = inside.intersect(sets.as_set(variable.to_pw_aff().ge_set(low)))
        inside = inside.intersect(sets.as_set(variable.to_pw_aff().lt_set(reader.value(extent))))
    layout = sets.function(space, None, forms)
    image = inside.apply(sets.graph(layout)).intersect_params(program.context)
    return room_for(image, program.context), sets.without_dim_names(layout)
