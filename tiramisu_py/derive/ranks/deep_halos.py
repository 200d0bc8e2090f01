"""Deep halos: fewer but larger messages, at the price of redundant computation.

    for t: exchange h rows        -->   for t: every k-th time: exchange k * h rows
           S[t, own rows]                      S[t, own rows, and what is left of the halo]

The iterations of a loop are grouped by ``t // k``. A rank computes itself, in its own memory, all values that it reads
and that are computed in the same group; values computed before come in messages, as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.derive.ranks.repeated_iterations import Ranks, Repeated, on_ranks, rank_depths, ranks_of, repeated
from tiramisu_py.derive.ranks.slabs import slabs
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.command_arguments import loop_name, size


def deepened(program: Program, depth: Mapping[object, object]) -> Program:
    """The program in which ranks compute for themselves the values that they read, in groups of `depth` iterations."""
    if not isinstance(depth, Mapping):
        raise CommandError(f"depth={depth!r}: give a dict of a loop to the number of its iterations, as in {{t: 4}}")
    for given, number in depth.items():
        name, count = loop_name(given), size(number, "depth", 1)
        loops = [loop.id for loop in program.loops.values() if loop.name == name]
        shared = [loop for loop in loops if on_ranks(program, loop)]
        if not shared:
            raise CommandError(f"no loop {name} has statements inside that run on ranks")
        for loop in shared:
            program = _deepened(program, loop, count)
    return program


def _deepened(program: Program, loop: LoopId, count: int) -> Program:
    of = repeated(program, loop, count)
    if of.is_enough(of.own):
        return program
    ranks = slabs(of) or _exact(of)
    for name, statement in of.inside.items():
        if not ranks[name].is_equal(of.own[name]):
            program = program.with_statement(_on_more(program, statement, ranks[name]))
    return program


def _exact(of: Repeated) -> Ranks:
    """The ranks of each instance such that ranks compute exactly the values that they read in the same iterations."""
    ranks, changed = dict(of.own), set(of.inside)
    for _ in range(of.count * len(of.inside)):
        if not changed:
            break
        grown: set[str] = set()
        for reader, writer in of.pairs():
            needed = of.needed(reader, writer, ranks[reader.name]) if reader.name in changed else None
            if needed is not None and not needed.is_subset(of.having(writer, ranks[writer.name])):
                ranks[writer.name] = ranks[writer.name].union(of.computing(writer, needed)).coalesce()
                grown.add(writer.name)
        changed = grown
    return ranks


def _on_more(program: Program, statement: Statement, ranks: isl.Map) -> Statement:
    """A statement with the executing rank in its instances: ``S[dims, ranks]``."""
    own = _coordinates(program, statement)
    names = [program.loops[statement.loops[d]].name for d in rank_depths(program, statement)]
    dims = distinct([*statement.dims, *names])
    instances = sets.with_dims(sets.plain(sets.flat_pairs(ranks, statement.name)), dims)
    frame = instances.get_space()
    before = sets.function(frame, statement.name, sets.variables(frame)[: len(statement.dims)])
    found = replace(
        statement,
        dims=tuple(dims),
        instances=instances,
        point=sets.compose(before, statement.point),
        coords=sets.renamed(sets.from_frame(own, frame), None),
    )
    if not found.coords_map.is_injective():
        loops = ", ".join(program.loop_names(statement))
        raise CommandError(
            f"the loops {loops} of {statement.name} do not distinguish the instances that a rank computes beyond its "
            "block: blocks of one iteration have no room for them; make the blocks larger"
        )
    return found


def _coordinates(program: Program, statement: Statement) -> isl.MultiAff:
    """``[dims, rank] -> iterations`` of a statement's loops, extended beyond the rank's own block."""
    ranks = ranks_of(program, statement)
    own = sets.flat_pairs(ranks, statement.name)
    space, count = own.get_space(), sets.in_size(ranks)
    before = sets.function(space, statement.name, sets.variables(space)[:count])
    relation = sets.affine_hull(sets.graph(sets.compose(before, statement.coords), own))
    found = sets.as_single_function(relation) if relation.is_single_valued() else None
    if found is None:
        loops = ", ".join(program.loop_names(statement))
        raise CommandError(f"the loops {loops} of {statement.name} cannot be extended beyond the block of a rank")
    return _with_room(program, statement, found, relation.domain())


def _with_room(program: Program, statement: Statement, coords: isl.MultiAff, block: isl.Set) -> isl.MultiAff:
    """The coordinates for blocks of one iteration: the distance from the block, 0 inside it."""
    apart = [form for form, is_equal in sets.constraints(block) if is_equal]
    forms, ranks = sets.outputs(coords), rank_depths(program, statement)
    single = [d for d, form in enumerate(forms) if d not in ranks and sets.is_constant(form)]
    for d, away in zip(single, apart, strict=False):
        forms[d] = forms[d].add(away)
    return sets.function(coords.get_space().domain(), None, forms)
