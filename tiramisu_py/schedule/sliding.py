"""slide: a producer that keeps what later iterations of its consumer's loop read.

After ``v.compute_at(by, c0)`` each iteration of c0 computes all the values of v that it reads. With ``v.slide(c0)`` a
value is computed once, in the first iteration that may need it: strips of `by` neighbours run one an iteration, `lead`
iterations ahead, and the buffer keeps the last few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.schedule.folds import check_plain
from tiramisu_py.schedule.needed import existing
from tiramisu_py.schedule.placement import local_index
from tiramisu_py.schedule.recompute import distinct, filled, loads, read_by
from tiramisu_py.schedule.selection import loop_name, nest, size, statements, whole


@dataclass(frozen=True)
class Window:
    """The strips that slide: of `by` values along `axis`, strip 0 from `start` (a form of the outer coordinates) on.

    Iteration t computes strip ``t + lead``, and reads strips from ``t + first`` to ``t + lead``.
    """

    axis: int
    by: int
    start: isl.Aff
    first: int
    lead: int

    @property
    def count(self) -> int:
        """How many strips an iteration reads or computes."""
        return self.lead - self.first + 1

    def from_start(self, space: isl.Space, outer: Sequence[isl.Aff], value: isl.Aff) -> isl.Aff:
        """How far a value is from the start, on a frame where the coordinates and the value are forms."""
        where = sets.compose(sets.function(space, None, outer), sets.function(*_on_frame(self.start)))
        return value.sub(sets.outputs(where)[0])


def _on_frame(form: isl.Aff) -> tuple[isl.Space, None, list[isl.Aff]]:
    return form.get_domain_space(), None, [form]


@dataclass(frozen=True, eq=False)
class Sliding:
    """What slides: the statements, the loop and its depth, their storage, and the statements that read it."""

    source: str
    own: tuple[Statement, ...]
    loop: LoopId
    depth: int
    storage: Storage
    readers: tuple[Statement, ...]


def slide(
    program: Program, source: str, names: Sequence[str], level: object, along: object, by: object, origin: object
) -> Program:
    """Compute each strip of values once, in the iteration of `level` that first needs it, and keep what is read later.

    Source: Halide's storage folding and sliding windows.
    """
    sliding = _sliding(program, source, names, level)
    wanted = None if by is None else size(by, "by")
    window = _window(program, sliding, along, wanted, whole(origin, "origin"))
    for statement in sliding.own:
        program = program.with_statement(_slid(program, sliding, statement, window))
    return _folded(program, sliding, window)


# -- what slides


def _sliding(program: Program, source: str, names: Sequence[str], level: object) -> Sliding:
    own = statements(program, names)
    found = {program.storages[statement.target].name for statement in own}
    if len(found) > 1:
        raise CommandError(f"the parts of {source} are kept in several places: {', '.join(sorted(found))}")
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
                    f"{own[0].handle} is computed at {program.loops[inner].name}, inside {loop_name(level)}: "
                    "slide along that loop, or compute it further out"
                )
    _check_kind(program, own, loop)
    inside = tuple(reader for reader in readers if loop in reader.loops)
    return Sliding(source, tuple(own), loop, depth, storage, inside)


def _loads_from(program: Program, statement: Statement, storage: Storage) -> bool:
    source = storage.source
    return loads(statement, source) and program.storage_for(statement, source).name == storage.name


def _level(program: Program, own: Sequence[Statement], readers: Sequence[Statement], level: object) -> LoopId:
    """The loop of this name that the statements share with what reads them."""
    wanted = loop_name(level)
    shared = {loop for reader in readers for loop in reader.loops}
    for loop in reversed(own[0].loops):
        if program.loops[loop].name == wanted and loop in shared:
            return loop
    name = own[0].handle
    raise CommandError(
        f"{name} is not computed in a loop {wanted} of what reads it: first {name}.compute_at(consumer, {wanted}) "
        f"({nest(program, own[0])})"
    )


def _check_kind(program: Program, own: Sequence[Statement], level: LoopId) -> None:
    loop = program.loops[level]
    if loop.is_concurrent or loop.is_rank:
        kind = loop.tag.name if loop.tag is not None else ""
        raise CommandError(
            f"loop {loop.name} is a {kind} loop ({loop.tagged_by}): its iterations do not follow one another, and what "
            "slides goes from each to the next"
        )
    if any(program.kernel_of(statement) is not None for statement in own):
        raise CommandError(f"{own[0].handle} is in a kernel: windows slide along loops of the host")
    if any(statement.transfer or statement.message for statement in own):
        raise CommandError(f"{own[0].handle} moves values between devices or ranks: it cannot slide")


# -- the window


def _window(program: Program, sliding: Sliding, along: object, by: int | None, origin: int) -> Window:
    needed = read_by(program, sliding.source, sliding.readers, sliding.depth + 1).intersect_params(program.context)
    names = _value_names(program, sliding)
    moving = {axis: steps for axis in range(len(names)) if (steps := _steps(needed, axis, sliding.depth))}
    level = program.loops[sliding.loop].name
    axis = _axis(sliding, names, moving, along, level)
    steps = moving[axis]
    if by is not None and by not in steps:
        distance = " or ".join(map(str, steps))
        raise CommandError(
            f"an iteration of {level} moves by {distance} along {names[axis][0]}, and not by {by}: give by={distance}"
        )
    windows = [
        window
        for step, starts in steps.items()
        if by in (None, step)
        for start in starts
        if (window := _measured(needed, axis, step, sets.plus(start, origin), sliding.depth)) is not None
    ]
    if not windows:
        raise CommandError(
            f"what an iteration of {level} reads of {sliding.source} is not of constant extent along {names[axis][0]}: "
            "a window that slides has a constant size"
        )
    return min(windows, key=lambda window: window.count * window.by)


def _value_names(program: Program, sliding: Sliding) -> list[list[str]]:
    """For each value index the names that it goes by: the declared one, and those of loops that run along it."""
    names = [[name] for name in value_names(program.algorithm.source(sliding.source))]
    for statement in sliding.own:
        values = sets.outputs(program.value_of(statement))
        inner = list(zip(statement.loops, sets.outputs(statement.coords), strict=True))[sliding.depth + 1 :]
        for loop, form in inner:
            for own, value in zip(names, values, strict=True):
                if form.plain_is_equal(value) and program.loops[loop].name not in own:
                    own.insert(0, program.loops[loop].name)
    return names


def _steps(needed: isl.Map, axis: int, depth: int) -> dict[int, list[isl.Aff]]:
    """By how much what is needed moves along an axis in each iteration, and from where (forms of outer coordinates)."""
    try:
        bounds = sets.lower_bounds(sets.component(needed, axis))
    except isl.Error:
        return {}
    found: dict[int, list[isl.Aff]] = {}
    for bound in bounds:
        step = sets.stride(bound, depth)
        if step is not None and step > 0:
            space = sets.sized_frame(bound.get_domain_space(), None, depth)
            zero = [*sets.variables(space), sets.constant(space, 0)]
            (form,) = sets.outputs(sets.compose(sets.function(space, None, zero), sets.function(*_on_frame(bound))))
            constant = sets.terms(form).constant if sets.terms(form).denominator == 1 else 0
            found.setdefault(step, []).append(sets.plus(form, -constant))
    return found


def _axis(
    sliding: Sliding, names: list[list[str]], moving: dict[int, dict[int, list[isl.Aff]]], along: object, level: str
) -> int:
    source = sliding.source
    if along is None:
        if len(moving) == 1:
            return next(iter(moving))
        if not moving:
            raise CommandError(f"what an iteration of {level} reads of {source} does not move on from the one before")
        listed = ", ".join(names[axis][0] for axis in moving)
        raise CommandError(f"several indices of {source} move with {level}: name one of {listed} as along")
    wanted = loop_name(along)
    for axis, own in enumerate(names):
        if wanted in own:
            if axis in moving:
                return axis
            raise CommandError(f"what an iteration of {level} reads of {source} does not move on along {wanted}")
    known = ", ".join(own[0] for own in names)
    raise CommandError(f"{wanted} is no index of {source}: choose one of {known}")


def _measured(needed: isl.Map, axis: int, step: int, start: isl.Aff, depth: int) -> Window | None:
    """The strips that iterations read, counted from their own: None where there is no constant bound."""
    pairs = sets.flat_pairs(needed, "pairs")
    space = pairs.get_space()
    variables = sets.variables(space)
    window = Window(axis, step, start, 0, 0)
    distance = window.from_start(space, variables[:depth], variables[depth + 1 + axis])
    strip = sets.floor_div(distance, step).sub(variables[depth])
    strips = pairs.apply(sets.graph(sets.function(space, None, [strip])))
    found = sets.interval(strips, 0)
    return None if found is None else replace(window, first=found[0], lead=found[1])


# -- the statements


def _slid(program: Program, sliding: Sliding, statement: Statement, window: Window) -> Statement:
    """The statement with each value computed once for each iteration of the loops outside, `lead` iterations ahead."""
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
    time = sets.plus(sets.floor_div(distance, window.by), -window.lead)
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
    """The instances without holes, where what fills them exists."""
    if len(values.get_basic_sets()) == 1 or statement.part_of or statement.role in (Role.INIT, Role.UPDATE):
        return values
    relation = filled(_by_prefix(values, depth))
    return sets.named(sets.flat_pairs(relation.intersect_range(existing(program, statement.source)), "x"), None)


def _by_prefix(values: isl.Set, depth: int) -> isl.Map:
    space = values.get_space()
    variables = sets.variables(space)
    outer, value = (sets.function(space, None, part) for part in (variables[:depth], variables[depth:]))
    return sets.graph(outer, values).reverse().apply_range(sets.graph(value, values))


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
    """The buffer with one copy for each iteration outside of the level, which keeps the strips that are still read."""
    storage, depth = sliding.storage, sliding.depth
    buffer = program.buffers[storage.buffer]
    scope = sliding.own[0].loops[:depth]
    if buffer.argument or len(buffer.scope) <= depth:
        return program
    if len(list(program.storages_in(buffer.name))) > 1:
        raise CommandError(f"buffer {buffer.name} is shared by several computations: what slides needs one of its own")
    if buffer.scope != sliding.own[0].loops[: depth + 1] or storage.inner:
        raise CommandError(f"buffer {buffer.name} belongs to other loops than those in which it slides")
    footprint: isl.Map | None = None
    for name in (statement.name for statement in sliding.own):
        statement = program.statements[name]
        instances = statement.instances.intersect_params(program.context)
        outer = sets.graph(statement.prefix(depth), instances)
        values = outer.reverse().apply_range(sets.graph(program.value_of(statement), instances))
        footprint = values if footprint is None else footprint.union(values)
    assert footprint is not None
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
    program = program.with_buffer(replace(buffer, scope=scope, extents=sizes))
    return program.with_storage(replace(storage, index=sets.function(space, None, forms)))


def _with_zero(space: isl.Space, axis: int) -> isl.MultiAff:
    """The function that puts 0 in the place of one coordinate."""
    forms = [sets.constant(space, 0) if k == axis else form for k, form in enumerate(sets.variables(space))]
    return sets.function(space, None, forms)
