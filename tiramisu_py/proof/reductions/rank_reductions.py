"""Combinations over ranks: the ranks can combine the reduction, and all ranks of a line reach the combination.

The conditions of all reductions (`proof.reductions.reductions`) prove that every partial result is started, has its
terms, is combined once and merged after that. What remains is not visible in accesses: a call of all ranks on a line of
the grid needs all of them, and an operator that it knows.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.combined_reductions import (
    combined_loops,
    groups,
    inner_ranks,
    meetings,
    not_combined,
    outside_of,
)
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.violations.findings import Finding, Key, fault, rank_words
from tiramisu_py.sets import smallest


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every reduction over ranks that they cannot combine, and every combination that a rank does not reach."""
    program = flow.accesses.program
    for updates in groups(program):
        yield from _of_group(program, updates)
    for statement in program.statements.values():
        if statement.calls_ranks:
            yield from _of_combination(program, statement)


def _of_combination(program: Program, met: Statement) -> Iterator[Finding]:
    assert met.link.combination is not None
    update, source = program.statements[met.link.combination.of], program.algorithm.source(met.source)
    loops = combined_loops(program, update)
    why = not_combined(source, met.link.combination.tree) if isinstance(source, Computation) else ""
    if why and loops:
        loop = program.loops[next(iter(loops.values()))].name
        yield fault("reduction", "operator", update, f"{update.handle}: {why}", f"keep loop {loop} on one rank")
    missing = _missing(program, met)
    if not missing.is_empty():
        params = smallest.smallest_params(missing.range())
        rank = smallest.first(sets.fixed(missing.range(), params))
        witness = Witness(params)
        message = f"{rank_words(rank)} does not reach {met.handle}, where other ranks wait for it, {witness}"
        yield Finding.of(Key("missing", (met.name,)), Violation("deadlock", message, witness))


def _missing(program: Program, met: Statement) -> isl.Map:
    """``instance -> rank`` of the ranks on its line that do not execute the same instance of a combination."""
    assert met.link.combination is not None and program.ranks.everyone is not None
    ranks = sets.variables(program.ranks.everyone.get_space())
    line = [rank for axis, rank in enumerate(ranks) if axis not in met.link.combination.axes]
    on = sets.graph(sets.function(program.ranks.everyone.get_space(), None, line), program.ranks.everyone)
    instances = met.instances.intersect_params(program.context.params())
    here = sets.graph(program.rank_of(met), instances)
    return here.apply_range(on).apply_range(on.reverse()).subtract(meetings(program, met).apply_range(here))


def _of_group(program: Program, updates: tuple[Statement, ...]) -> Iterator[Finding]:
    first = updates[0]
    loop = program.loops[next(iter(combined_loops(program, first).values()))].name
    for update in updates:
        if program.kernel_of(update) is not None:
            message = f"{update.handle} runs on a GPU, and ranks combine its partial results at the end of loop {loop}"
            repair = (
                f"keep {update.handle} on the host; or, before its loops are tagged, {update.handle}.rfactor({loop}) "
                "makes a value of what each rank adds up: tag_distribute and tag_gpu are for the partial results, and "
                f"{update.handle} combines them on the host"
            )
            yield fault("reach", "combined on a GPU", update, f"{message}: they do so on the host", repair)
    inner = [inner_ranks(program, update) for update in updates]
    along = [[program.loops[loop].tag for loop in loops] for loops in inner]
    other = next((update for update, tags in zip(updates, along, strict=True) if tags != along[0]), None)
    if other is not None:
        message = (
            f"{first.handle} and {other.handle} are combined at the end of loop {loop}, but run on different ranks"
        )
        yield fault("reach", "different ranks", other, message, "tag their loops alike with tag_distribute")
    elif inner[0] and outside_of(program, first):
        names = ", ".join(program.loops[loop].name for loop in inner[0])
        message = (
            f"the loop over ranks {names} of {first.handle} is inside of loop {loop}, which combines partial results "
            "of ranks in each iteration of loops outside"
        )
        order = ", ".join((names, *(program.loops[n].name for n in first.loops if n not in inner[0]
                                    and (program.loops[n].tagged_by or not program.loops[n].is_rank))))  # fmt: skip
        yield fault("reach", "inner ranks", first, message, f"{first.handle}.reorder({order})")
