"""slide: a producer that keeps the values that later iterations of its consumer's loop read.

After ``v.compute_at(by, c0)`` each iteration of c0 computes all the values of v that it reads. With ``v.slide(c0)`` a
value is computed once, in the first iteration that may need it: each iteration computes one strip of `by` neighbours,
`lead` iterations ahead, and the buffer keeps the last few strips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const, Iter
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.footprints import local_index
from tiramisu_py.dependence.values_read import existing
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Slides, Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size, statements, whole
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.locality.compute_at import loads
from tiramisu_py.schedule.locality.holes import filled
from tiramisu_py.schedule.locality.sliding_window import Sliding, Window, window_of
from tiramisu_py.schedule.storage.fold import check_plain
from tiramisu_py.schedule.storage.one_buffer import check_all_parts, kept_apart

# -- checks


def _sliding(program: Program, source: str, names: Sequence[str], level: str) -> Sliding:
    own = statements(program, names)
    found = {program.storages[statement.memory.target].name for statement in own}
    if len(found) > 1:
        raise CommandError(f"the parts of {source} are kept in several places: {', '.join(sorted(found))}")
    if not kept_apart(program, source):
        check_all_parts(program, own, "slide")
    storage = program.storages[found.pop()]
    readers = [s for s in program.acting if s not in own and _loads_from(program, s, storage)]
    loop = _level(program, own, readers, level)
    depth = own[0].depth(loop)
    for statement in own:
        if statement.loops[: depth + 1] != own[0].loops[: depth + 1]:
            raise CommandError(f"{statement.handle} is in other loops than {own[0].handle}: {nest(program, statement)}")
        for inner in statement.loops[depth + 1 :]:
            if any(inner in reader.loops for reader in readers):
                raise CommandError(
                    f"{own[0].handle} is computed at {program.loops[inner].name}, inside {level}: "
                    "slide along that loop, or compute it further out"
                )
    _check_kind(program, own, loop)
    inside = tuple(reader for reader in readers if loop in reader.loops)
    return Sliding(source, tuple(own), loop, depth, storage, inside)


def _loads_from(program: Program, statement: Statement, storage: Storage) -> bool:
    source = storage.source
    return loads(statement, source) and program.storage_for(statement, source).name == storage.name


def _level(program: Program, own: Sequence[Statement], readers: Sequence[Statement], wanted: str) -> LoopId:
    """The loop of this name that the statements share with their readers."""
    shared = {loop for reader in readers for loop in reader.loops}
    for loop in reversed(own[0].loops):
        if program.loops[loop].name == wanted and loop in shared:
            return loop
    name = own[0].handle
    raise CommandError(
        f"{name} is not computed in a loop {wanted} of its reader: first {name}.compute_at(consumer, {wanted}) "
        f"({nest(program, own[0])})"
    )


def _check_kind(program: Program, own: Sequence[Statement], level: LoopId) -> None:
    loop = program.loops[level]
    if loop.is_concurrent or loop.is_rank:
        kind = loop.tag.name if loop.tag is not None else ""
        raise CommandError(
            f"loop {loop.name} is a {kind} loop ({loop.tagged_by}): its iterations have no order, and a window that "
            "slides keeps values from each to the next"
        )
    if any(program.kernel_of(statement) is not None for statement in own):
        raise CommandError(f"{own[0].handle} is in a kernel: windows slide along loops of the host")
    if any(statement.link.transfer or statement.link.message for statement in own):
        raise CommandError(f"{own[0].handle} moves values between devices or ranks: it cannot slide")


# -- the statements


def _slid(program: Program, sliding: Sliding, statement: Statement, window: Window) -> Statement:
    """The statement with each value computed once per iteration of the outer loops, `lead` iterations ahead."""
    depth, coords = sliding.depth, sets.outputs(statement.coords)
    point = sets.outputs(statement.point)
    outer = sets.function(statement.frame, None, [*coords[:depth], *point])
    values = sets.graph(outer, statement.instances.intersect_params(program.context)).range().coalesce()
    names = [program.loops[loop].name for loop in statement.loops[:depth]]
    dims = distinct([*names, *program.point_names(statement)[: len(point)]])
    instances = sets.with_dims(sets.named(_plain(program, statement, values, depth), statement.name), dims)
    space = instances.get_space()
    variables = sets.variables(space)
    distance = window.from_start(space, variables[:depth], variables[depth + window.axis])
    time = window.time(distance)
    inner = _by_value(statement, depth, space)
    if inner is None:
        old = _instance(statement, depth)
        before = sets.function(space, None, [*variables[:depth], time, *variables[depth:]])
        inner = sets.outputs(sets.compose(sets.compose(before, old), statement.coords))[depth + 1 :]
    return replace(
        statement,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(space, sets.tuple_name(statement.point.get_space().range()) or None, variables[depth:]),
        coords=sets.function(space, None, [*variables[:depth], time, *inner]),
    )


def _plain(program: Program, statement: Statement, values: isl.Set, depth: int) -> isl.Set:
    """The instances, with holes filled by existing values."""
    if len(values.get_basic_sets()) == 1 or statement.origin.part_of or statement.role in (Role.INIT, Role.UPDATE):
        return values
    relation = filled(_by_prefix(values, depth))
    return sets.named(sets.flat_pairs(relation.intersect_range(existing(program, statement.source)), "x"), None)


def _by_prefix(values: isl.Set, depth: int) -> isl.Map:
    space = values.get_space()
    variables = sets.variables(space)
    outer, value = (sets.function(space, None, part) for part in (variables[:depth], variables[depth:]))
    return sets.relating(outer, value, values)


def _by_value(statement: Statement, depth: int, space: isl.Space) -> list[isl.Aff] | None:
    """The iterations of the loops inside, where they follow from the value, whichever iteration computes it."""
    coords, point = sets.outputs(statement.coords), sets.outputs(statement.point)
    known = sets.graph(sets.function(statement.frame, None, [*coords[:depth], *point]), statement.instances)
    inside = sets.graph(sets.function(statement.frame, None, coords[depth + 1 :]))
    found = known.reverse().apply_range(inside)
    function = sets.as_single_function(found) if found.is_single_valued() else None
    if function is None:
        return None
    here = sets.function(space, None, sets.variables(space))
    return sets.outputs(sets.compose(here, sets.without_dim_names(function)))


def _instance(statement: Statement, depth: int) -> isl.MultiAff:
    """``[coordinates of the loops to `level`, point] -> instance``."""
    coords, point = sets.outputs(statement.coords), sets.outputs(statement.point)
    known = sets.function(statement.frame, None, [*coords[: depth + 1], *point])
    found = sets.as_single_function(sets.graph(known, statement.instances).reverse())
    if found is None:
        raise CommandError(f"{statement.handle} has several instances for one value in an iteration: it cannot slide")
    return sets.without_dim_names(found)


# -- the buffer


def _folded(program: Program, sliding: Sliding, window: Window) -> Program:
    """The program with one buffer per iteration of the loops outside the level, which keeps the strips still read."""
    storage, depth = sliding.storage, sliding.depth
    buffer = program.buffers[storage.buffer]
    scope = sliding.own[0].loops[:depth]
    if buffer.argument or len(buffer.scope) <= depth:
        return program
    if len(list(program.storages_in(buffer.name))) > 1:
        raise CommandError(f"buffer {buffer.name} is shared by several computations: slide needs one of its own")
    if buffer.scope != sliding.own[0].loops[: depth + 1] or storage.inner:
        raise CommandError(
            f"buffer {buffer.name} is kept for each iteration of other loops than those in which it slides"
        )
    parts = list[isl.Map]()
    for name in (statement.name for statement in sliding.own):
        statement = program.statements[name]
        instances = statement.instances.intersect_params(program.context)
        parts.append(sets.relating(statement.prefix(depth), program.value_of(statement), instances))
    footprint = sets.union_of(parts)
    check_plain(program, storage)
    across = sets.graph(_with_zero(footprint.get_space().range(), window.axis))
    extents, index = local_index(program, footprint.apply_range(across).coalesce(), depth, sliding.source)
    space = index.get_space().domain()
    variables = sets.variables(space)
    distance = window.from_start(space, variables[:depth], variables[depth + window.axis])
    kept = window.by * window.count
    forms = sets.outputs(index)
    forms[window.axis] = sets.modulo(sets.plus(distance, -window.by * window.first), kept)
    sizes = tuple(Const(kept, int64) if axis == window.axis else extent for axis, extent in enumerate(extents))
    program = program.with_buffer(replace(buffer, scope=scope, extents=sizes, passed=None))
    return program.with_storage(replace(storage, index=sets.function(space, None, forms)))


def _with_zero(space: isl.Space, axis: int) -> isl.MultiAff:
    """The function that replaces one coordinate by 0."""
    forms = [sets.constant(space, 0) if k == axis else form for k, form in enumerate(sets.variables(space))]
    return sets.function(space, None, forms)


def slid(program: Program, source: str, names: Sequence[str], level: str, asked: Slides) -> Program:
    """The program with the statements sliding along the loop `level`, and their buffer folded to a ring."""
    sliding = _sliding(program, source, names, level)
    window = window_of(program, sliding, asked.along, asked.by, asked.origin)
    for statement in sliding.own:
        made = _slid(program, sliding, statement, window)
        along = replace(made.along, slides=replace(asked, loop=sliding.loop))
        program = program.with_statement(replace(made, along=along))
    return _folded(program, sliding, window)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Slide(OnStatements):
    """Compute, in each iteration of a loop, only values that no earlier one has, and keep those read later.

    ::

        for r1 in 0..n:                -->   for r1 in -2..n:
            for r in r1..r1+3: bx[r - r1]        bx[(r1 + 2) % 3]                   (row r1 + 2)
            by[r1] = f(bx[0], bx[1], bx[2])      if r1 >= 0: by[r1] = f(bx[r1 % 3], bx[(r1 + 1) % 3], ...)

    First ``bx.compute_at(by, r1)``, then ``bx.slide(r1)``: `loop` is a sequential loop of the consumer, in each
    iteration of which the values are recomputed. Each iteration then computes one strip of `by` values along one
    index: that of the own loop `along`, or the only one that moves with `loop`. Strip ``floor((x - origin) / by)``
    runs `lead` iterations before the iteration of the same number. The lead is the least constant for which every
    value exists when it is first read, so that the loop begins with iterations that only compute in advance. `by`
    is the distance by which an iteration advances: 1 for a loop over rows, 16 for one over strips of 16 columns.
    Along other indices values are recomputed as before. If the window moves by one value in a few iterations, as
    that of an upsampled image does (``p[y // 2]``), the first of these computes it.

    The buffer has one copy for each iteration of the loops outside `loop`, folded along that index to a ring: it
    keeps the fewest strips (index ``x % (by * n)``) for which no value is overwritten before its last use. A buffer
    placed further out by `store_in` or `store_at` stays as it is; see `fold`. In registers
    (``v.store_in(tm.REGISTER)``), with the loops over the other indices unrolled and `along` in vectors, the ring
    is a window of named vectors: each iteration ends with moves from one to the next, and a read at an unaligned
    distance combines two neighbours in one instruction. Copies made by `copy` slide as well, so that each vector
    of an input is loaded once. If several computations slide, give the command to consumers first.
    """

    former = (("level", "loop"),)

    loop: Iter
    along: Iter | None = None
    by: int | None = None
    _: KW_ONLY
    origin: int = 0

    def applied(self, program: Program) -> Program:
        level, along = loop_name(self.loop), None if self.along is None else loop_name(self.along)
        by, origin = None if self.by is None else size(self.by, "by"), whole(self.origin, "origin")
        return slid(program, self.computation, self.names(program), level, Slides(-1, along, by, origin))
