"""Partial results on ranks: inside the loop that collects them, nobody else touches the reduction.

A loop over ranks with ``combine=PRIVATE`` combines partial results at its end, on all ranks along its axis. Until then
the accumulators lack them, on every rank: an access to one of them in the same iteration of the loops outside, that is
no update of the same reduction, would see it without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.dependence.access import Touch
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.reductions import combined_loops, groups, inner_ranks, not_combined, outside_of
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.memory.races import all_pairs, pair_key, pair_spots, statements
from tiramisu_py.proof.violations.findings import Finding, Key, fault, on_rank, words

#: The sort of what is found between two accesses.
_UNCOMBINED = "uncombined"


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every access to a reduction inside a loop over ranks that combines its partial results."""
    program = flow.touches.program
    if any(statement.onto is not None for statement in program.statements.values()):
        for updates in groups(program):
            yield from _of_group(program, updates)
        for a, b in all_pairs(flow, _UNCOMBINED, sought):
            yield from _uncombined(flow, a, b)


# -- where partial results are combined


def _of_group(program: Program, updates: tuple[Statement, ...]) -> Iterator[Finding]:
    """What keeps ranks from combining the partial results of some updates."""
    first = updates[0]
    loop = program.loops[next(iter(combined_loops(program, first).values()))].name
    source = program.algorithm.source(first.source)
    why = not_combined(source) if isinstance(source, Computation) else ""
    if why:
        yield fault("reduction", "operator", first, f"{first.handle}: {why}", f"keep loop {loop} on one rank")
    for update in updates:
        if program.kernel_of(update) is not None:
            message = f"{update.handle} runs on a GPU, and ranks combine its partial results at the end of loop {loop}"
            repair = (
                f"keep {update.handle} on the host, or make what each rank adds up a computation of its own, whose "
                "values ranks then combine on the host"
            )
            yield fault("reach", "combined on a GPU", update, f"{message}: they do so on the host", repair)
    inner = [inner_ranks(program, update) for update in updates]
    along = [[program.loops[loop].tag for loop in loops] for loops in inner]
    other = next((update for update, tags in zip(updates, along, strict=True) if tags != along[0]), None)
    if other is not None:
        message = (
            f"at the end of loop {loop} {first.handle} and {other.handle} are combined, and run on different ranks"
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


# -- who touches them until then


def _uncombined(flow: Flow, a: Touch, b: Touch) -> Iterator[Finding]:
    for update, other in ((a, b), (b, a))[: 1 if a is b else 2]:
        first, second = statements(update, other)
        if not update.is_write or first.onto is None or _joins(flow, first, second, other):
            continue
        for loop in combined_loops(flow.touches.program, first).values():
            if loop in second.loops:
                bad = _in_one_loop(flow, update, other, first.depth(loop))
                if not bad.is_empty():
                    yield Finding(pair_key(_UNCOMBINED, a, b), partial(_not_combined, flow, update, other, bad, loop))
                    return


def _joins(flow: Flow, update: Statement, other: Statement, touch: Touch) -> bool:
    """Whether another access adds to the same partial results."""
    alike = touch.is_write and other.role is Role.UPDATE and other.source == update.source
    program = flow.touches.program
    return alike and combined_loops(program, update) == combined_loops(program, other)


def _in_one_loop(flow: Flow, a: Touch, b: Touch, depth: int) -> isl.Map:
    """``a -> b`` at one place while the loop at a depth runs: in any two of its iterations."""
    program = flow.touches.program
    first, _ = statements(a, b)
    kept = [d for d in range(depth) if not program.loops[first.loops[d]].is_rank]
    return flow.same_place(a, b).intersect(_clock(a, kept).apply_range(_clock(b, kept).reverse()))


def _clock(touch: Touch, kept: list[int]) -> isl.Map:
    assert touch.coords is not None
    forms = sets.outputs(touch.coords)
    return sets.graph(sets.function(touch.domain.get_space(), None, [forms[d] for d in kept]), touch.domain)


def _not_combined(flow: Flow, update: Touch, other: Touch, bad: isl.Map, loop: LoopId) -> Violation:
    witness, partial_result, spot = pair_spots(flow, update, other, bad)
    program = flow.touches.program
    name = program.loops[loop].name
    does = "stores" if other.is_write else "reads"
    who = words(spot.computed(program))
    message = (
        f"{who} {does} {words(partial_result.named)}{on_rank(spot)} inside loop {name}, which combines the partial "
        f"results of its ranks only at its end, {witness}"
    )
    return Violation("reduction", message, witness, repair=f"move it out of loop {name}")
