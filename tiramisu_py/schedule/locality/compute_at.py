"""compute_at: a producer inside its consumer's loops, recomputed where that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.dependence.values_read import needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loops_named, only_scope, statements
from tiramisu_py.schedule.locality.holes import without_holes
from tiramisu_py.schedule.locality.needed_inside import is_closed, recurring, through_others
from tiramisu_py.schedule.locality.reduction_ends import Makers, is_start_of, without_others
from tiramisu_py.schedule.loops.single_iterations import without_single_iterations
from tiramisu_py.schedule.nesting import check_nesting
from tiramisu_py.schedule.storage.one_buffer import check_all_parts
from tiramisu_py.schedule.storage.shared_scope import settled
from tiramisu_py.schedule.storage.store import scoped


def compute_at(
    program: Program, source: str, names: Sequence[str], consumer: Sequence[str], level: str, command: str
) -> Program:
    """Compute `source` inside the consumer's loops up to `level`: for each iteration the values that it reads."""
    own, others = statements(program, names), statements(program, consumer)
    found = loops_named(program, consumer, level)
    check_movable(program, source, own)
    if is_start_of(own, others):
        return _start_at(program, own, only_scope(found, level), command)
    needs = InnerNeeds.read_in(program, own, found, level)
    storage = program.storages[source]
    buffer = program.buffers[storage.buffer]
    shared = any(other.name != storage.name for other in program.storages_in(buffer.name))
    placed = buffer.argument or storage.chosen or shared
    if not placed:
        check_all_parts(program, own, "compute_at")
    needed = needs.values(needs.readers)
    moved = [needs.moved(statement, needed) for statement in own]
    if source in program.algorithm.wholes:
        moved = [_without_repeated_loops(program, statement, len(needs.scope)) for statement in moved]
    orders = [Order(s.name, reader.name, needs.scope[-1], command) for s in own for reader in needs.readers]
    program = program.with_statement(*moved).with_(orders=(*program.orders, *orders))
    for loop in dict.fromkeys(loop for statement in own for loop in statement.loops):
        check_nesting(program, loop)
    if placed:
        return without_single_iterations(program)
    return without_single_iterations(settled(scoped(program, storage, needs.scope, source)))


def _start_at(program: Program, starts: list[Statement], scope: tuple[LoopId, ...], command: str) -> Program:
    """Start each value of a reduction in the first iteration of its update's loops `scope` that adds a term to it."""
    for start in starts:
        makers = Makers.in_loops(program, start.source, scope)
        program = placed_once(program, start, scope, makers.first(start))
        orders = [Order(start.name, update.name, scope[-1], command) for update in makers.statements]
        program = program.with_(orders=(*program.orders, *orders))
    return without_single_iterations(program)


def placed_once(program: Program, statement: Statement, scope: tuple[LoopId, ...], at: isl.Map) -> Program:
    """Move each execution to the iteration of the loops `scope` that `at` gives; the others become a part."""
    program = without_others(program, statement, at)
    moved = moved_into(program, statement, scope, at.reverse().coalesce())
    moved = _without_repeated_loops(program, moved, len(scope))
    program = program.with_statement(moved)
    for loop in moved.loops:
        check_nesting(program, loop)
    return program


@dataclass(frozen=True, eq=False)
class InnerNeeds:
    """The values of a computation that iterations of the loops `scope` need: facts that a command takes once.

    `own` are the statements that compute it and are to be there, `inside` those that are in the loops.
    """

    program: Program
    own: Sequence[Statement]
    scope: tuple[LoopId, ...]
    inside: tuple[Statement, ...]

    @classmethod
    def inside_of(cls, program: Program, own: Sequence[Statement], scope: tuple[LoopId, ...]) -> InnerNeeds:
        """The needs of the iterations of these loops."""
        return cls(program, own, scope, program.with_this_loop(scope[-1]))

    @classmethod
    def read_in(
        cls, program: Program, own: Sequence[Statement], found: Sequence[tuple[Statement, LoopId]], level: str
    ) -> InnerNeeds:
        """The needs in the loop `level`; of several (a reduction's start has its own) in the one that reads."""
        inside = {loop: program.with_this_loop(loop) for _, loop in found}
        reading = [each for each in found if any(reads(r, own[0].source) for r in inside[each[1]])]
        scope = only_scope(reading if len(reading) == 1 else found, level)
        return cls(program, own, scope, inside[scope[-1]])

    @property
    def source(self) -> str:
        """The computation."""
        return self.own[0].source

    @cached_property
    def readers(self) -> list[Statement]:
        """The statements in the loops that read it."""
        return [s for s in self.inside if not _computes(s, self.source) and reads(s, self.source)]

    def values(self, readers: Sequence[Statement]) -> isl.Map:
        """``iteration -> value``: what the readers read, and what leads to that in the same computation or others."""
        program, source, own = self.program, self.source, self.own
        level = program.loops[self.scope[-1]].name
        whole = len(own) == len(program.statements_of(source))
        through = through_others(program, source, self.scope, self.inside) if whole else None
        if not readers and through is None:
            raise CommandError(f"no statement in loop {level} reads {source}{self._read_elsewhere()}")
        read = _read_relations(program, source, readers, len(self.scope))
        needed = sets.union_of([*read, *([through] if through else [])])
        if any(source in statement.loads for statement in own):
            needed = recurring(program, own, needed, level)
            closed = without_holes(program, source, needed)
            return closed if is_closed(program, own, closed) else needed
        return without_holes(program, source, needed)

    def _read_elsewhere(self) -> str:
        """Advice on a computation that is read outside of the loops: by which statement."""
        source = self.source
        sources = [s.memory.sources.get(source, source) for s in self.inside if loads(s, source)]
        copies = [storage for storage in sources if storage != source]
        if copies:
            return f": what is there reads the copy {copies[0]}; compute {source} at a loop of {copies[0]}"
        readers = [s for s in self.program.acting if not _computes(s, source) and reads(s, source)]
        if not readers:
            return ""
        first, into = readers[0], self.inside[0].handle
        where = f": {first.handle} does, outside of this loop ({nest(self.program, first)})"
        return f"{where}, and {into} reads none of it; choose a loop of {first.handle}"

    def moved(self, statement: Statement, needed: isl.Map) -> Statement:
        """A statement with the loops before its own, and one execution for each value that an iteration needs.

        Given S, its value map V and needed = {o -> v}, the instances become {S[o, x] : V(x) in needed(o)}.
        """
        values = sets.graph(self.program.value_of(statement), statement.instances)
        return moved_into(self.program, statement, self.scope, needed.apply_range(values.reverse()).coalesce())


def _computes(statement: Statement, source: str) -> bool:
    return statement.source == source and statement.role is not Role.COPY


def reads(statement: Statement, source: str) -> bool:
    """Whether a statement reads values of `source` from its own storage."""
    return statement.memory.sources.get(source, source) == source and loads(statement, source)


def loads(statement: Statement, source: str) -> bool:
    """Whether a statement reads values of `source`, from any storage."""
    bodies = (statement.body, *statement.guards)
    return any(access.source == source for body in bodies for access in accesses(body))


def check_movable(program: Program, source: str, own: list[Statement]) -> None:
    if any(statement.role is Role.COPY for statement in own):
        raise CommandError(f"{own[0].name} is a copy of {source}: make it at the level where it belongs")
    moved = [s.handle for s in program.acting if s.link.message is not None and s.source == source]
    if moved:
        raise CommandError(
            f"{' and '.join(moved)} move{'s' if len(moved) == 1 else ''} values of {source} between ranks, and "
            "compute_at keeps them for one iteration only: remove the exchange first, or share loops by after or fuse"
        )
    mine = {s.name for s in own}
    for statement in own:
        for loop in statement.loops:
            others = [s.name for s in program.with_this_loop(loop) if s.name not in mine]
            if others:
                raise CommandError(
                    f"{statement.name} shares loop {program.loops[loop].name} with {', '.join(others)}: "
                    f"compute_at moves {source} alone; give it before the command that lets them share loops"
                )


def needed_by(program: Program, source: str, readers: list[Statement], depth: int) -> isl.Map:
    """The values of `source` that each iteration of the outermost `depth` loops reads, holes between them filled."""
    return without_holes(program, source, read_by(program, source, readers, depth))


def read_by(program: Program, source: str, readers: Sequence[Statement], depth: int) -> isl.Map:
    """The values of `source` that each iteration of the outermost `depth` loops reads."""
    return sets.union_of(_read_relations(program, source, readers, depth))


def _read_relations(program: Program, source: str, readers: Sequence[Statement], depth: int) -> list[isl.Map]:
    outer = [sets.graph(reader.prefix(depth), reader.instances).reverse() for reader in readers]
    return [o.apply_range(needed_values(program, r, source)) for o, r in zip(outer, readers, strict=True)]


def moved_into(program: Program, statement: Statement, scope: tuple[LoopId, ...], pairs: isl.Map) -> Statement:
    """The statement with the loops `scope` before its own, and an execution ``S[o, x]`` for each pair ``o -> S[x]``."""
    outer = [program.loops[loop].name for loop in scope]
    dims = distinct([*outer, *statement.dims])
    instances = sets.with_dims(sets.flat_pairs(pairs, statement.name), dims)
    space = instances.get_space()
    variables = sets.variables(space)
    inner = sets.function(space, statement.name, variables[len(scope) :])
    coords = [*variables[: len(scope)], *sets.outputs(sets.compose(inner, statement.coords))]
    return replace(
        statement,
        dims=tuple(dims),
        instances=instances,
        point=sets.compose(inner, statement.point),
        coords=sets.function(space, None, coords),
        loops=scope + statement.loops,
    )


def _without_repeated_loops(program: Program, statement: Statement, scope: int) -> Statement:
    """A statement without the loops of its own that repeat one of `scope`, of the same name.

    `rfactor` numbers partial results by a loop that their consumer has, too; the start of a reduction may have been
    tiled together with its update.
    """
    coords = sets.outputs(statement.coords)
    names = program.loop_names(statement)
    kept = [
        k
        for k in range(len(names))
        if k < scope
        or names[k] not in names[:scope]
        or not statement.instances.is_subset(sets.as_set(coords[k].eq_set(coords[names.index(names[k])])))
    ]
    function = sets.function(statement.frame, None, [coords[k] for k in kept])
    return replace(statement, loops=tuple(statement.loops[k] for k in kept), coords=function)
