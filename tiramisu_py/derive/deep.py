"""Deep halos: fewer messages of more values, for values that neighbours compute twice.

    for t: exchange h rows        -->   for t: every k-th time: exchange k * h rows
           S[t, own rows]                      S[t, own rows, and what is left of the halo]

The iterations of a loop are taken k at a time, those with one ``t // k``. What a rank reads that is computed in the
same k iterations it computes itself, on memory of its own; what was computed before comes in messages, as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.touches import Touches
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks import axes, depth_of
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.schedule.recompute import distinct
from tiramisu_py.schedule.selection import loop_name, size


def deepened(program: Program, depth: Mapping[object, object]) -> Program:
    """The program with what ranks read of each other computed by themselves, within `depth` iterations of loops."""
    if not isinstance(depth, Mapping):
        raise CommandError(f"depth={depth!r}: give a dict of a loop to the number of its iterations, as in {{t: 4}}")
    for given, number in depth.items():
        name, count = loop_name(given), size(number, "depth", 1)
        loops = [loop.id for loop in program.loops.values() if loop.name == name]
        shared = [loop for loop in loops if _on_ranks(program, loop)]
        if not shared:
            raise CommandError(f"no loop {name} has statements inside that run on ranks")
        for loop in shared:
            program = _deepened(program, loop, count)
    return program


def _on_ranks(program: Program, loop: LoopId) -> list[Statement]:
    """The statements inside a loop that compute values, each on ranks along all axes of the grid."""
    found = []
    for statement in program.with_this_loop(loop):
        on_all = all(depth_of(program, statement, axis) is not None for axis in range(axes(program)))
        if statement.role is Role.VALUE and on_all and axes(program):
            found.append(statement)
    return found


def _deepened(program: Program, loop: LoopId, count: int) -> Program:
    touches = Touches(program)
    inside = {statement.name: statement for statement in _on_ranks(program, loop)}
    ranks = {name: _ranks(program, statement) for name, statement in inside.items()}
    changed = set(inside)
    for _ in range(count * len(inside)):
        if not changed:
            break
        grown: set[str] = set()
        for reader in [inside[name] for name in inside if name in changed]:
            for writer in inside.values():
                needed = _needed(program, touches, reader, writer, ranks[reader.name], loop, count)
                if needed is not None and not needed.is_subset(_having(program, writer, ranks[writer.name])):
                    more = ranks[writer.name].union(_computing(program, writer, needed))
                    ranks[writer.name] = more.coalesce()
                    grown.add(writer.name)
        changed = grown
    for name, statement in inside.items():
        if not ranks[name].is_equal(_ranks(program, statement)):
            program = program.with_statement(_on_more(program, statement, ranks[name]))
    return program


def _ranks(program: Program, statement: Statement) -> isl.Map:
    """``instance -> coordinates of the rank`` that executes it."""
    forms = sets.outputs(statement.coords)
    depths = [depth_of(program, statement, axis) for axis in range(axes(program))]
    mine = [forms[depth] for depth in depths if depth is not None]
    instances = statement.instances.intersect_params(program.context.params())
    return sets.graph(sets.function(statement.frame, None, mine), instances)


def _values(program: Program, statement: Statement) -> isl.Map:
    return sets.graph(sets.renamed(program.value_of(statement), statement.source), statement.instances)


def _having(program: Program, writer: Statement, ranks: isl.Map) -> isl.Map:
    """``value -> rank`` that computes it."""
    return _values(program, writer).reverse().apply_range(ranks)


def _needed(
    program: Program,
    touches: Touches,
    reader: Statement,
    writer: Statement,
    ranks: isl.Map,
    loop: LoopId,
    count: int,
) -> isl.Map | None:
    """``value -> rank``: what a writer computes and ranks read in the same iterations of a loop, `count` at a time."""
    read = touches.read_relation(reader, writer.source) if writer.source in touches.sources(reader) else None
    if read is None or program.storage_for(reader, writer.source).name != writer.target:
        return None
    values = _values(program, writer)
    pairs = sets.range_named(read, writer.source).apply_range(values.reverse())
    numbers = [_number(statement, loop, count) for statement in (reader, writer)]
    together = pairs.intersect(numbers[0].apply_range(numbers[1].reverse()))
    return together.reverse().apply_range(ranks).apply_domain(values).coalesce()


def _number(statement: Statement, loop: LoopId, count: int) -> isl.Map:
    """``instance -> number`` of the `count` iterations of a loop that it is in."""
    form = sets.floor_div(sets.outputs(statement.coords)[statement.depth(loop)], count)
    return sets.graph(sets.function(statement.frame, None, [form]), statement.instances)


def _computing(program: Program, writer: Statement, needed: isl.Map) -> isl.Map:
    """``instance -> rank`` that is to execute it too."""
    values = _values(program, writer)
    if not values.is_injective():
        raise CommandError(
            f"{writer.name} is computed on several ranks already, for other iterations: undo that before asking for "
            "another depth"
        )
    return values.apply_range(needed)


def _on_more(program: Program, statement: Statement, ranks: isl.Map) -> Statement:
    """A statement whose instances say on which rank they are: ``S[dims, ranks]``."""
    own = _coordinates(program, statement)
    names = [program.loops[statement.loops[d]].name for d in _rank_depths(program, statement)]
    dims = distinct([*statement.dims, *names])
    instances = sets.with_dims(sets.plain(sets.flat_pairs(ranks, statement.name)), dims)
    frame = instances.get_space()
    before = sets.function(frame, statement.name, sets.variables(frame)[: len(statement.dims)])
    return replace(
        statement,
        dims=tuple(dims),
        instances=instances,
        point=sets.compose(before, statement.point),
        coords=sets.renamed(sets.from_frame(own, frame), None),
    )


def _rank_depths(program: Program, statement: Statement) -> list[int]:
    found = [depth_of(program, statement, axis) for axis in range(axes(program))]
    return [depth for depth in found if depth is not None]


def _coordinates(program: Program, statement: Statement) -> isl.MultiAff:
    """``[dims, rank] -> iterations`` of a statement's loops, as they go on beyond what the rank has of its own."""
    ranks = _ranks(program, statement)
    own = sets.flat_pairs(ranks, statement.name)
    space, count = own.get_space(), sets.in_size(ranks)
    before = sets.function(space, statement.name, sets.variables(space)[:count])
    relation = sets.affine_hull(sets.graph(sets.compose(before, statement.coords), own))
    found = sets.as_single_function(relation) if relation.is_single_valued() else None
    if found is None:
        loops = ", ".join(program.loop_names(statement))
        raise CommandError(f"the loops {loops} of {statement.name} do not go on beyond the block of a rank")
    return found
