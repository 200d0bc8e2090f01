"""Private copies of partial results: inside the loop that keeps them, nothing else touches the reduction.

A loop with ``combine=PRIVATE`` combines the copies of a reduction's buffer at its end. Any access to the buffer inside
the loop other than an update would miss the copies, even if no two iterations conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation
from tiramisu_py.program.loops import Combine, Loop, LoopId, Parallel, Vector
from tiramisu_py.program.private_buffers import meet, private_copies
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.memory.races import all_pairs, pair_key, pair_spots, race_at, statements, unordered
from tiramisu_py.proof.memory.values import first_spot
from tiramisu_py.proof.violations.findings import Finding, Key, fault, words

#: The sort of findings about two accesses.
_UNCOMBINED = "uncombined"


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every access to a reduction inside a loop that keeps private copies of it, and what has no such copies."""
    yield from _of_several_values(flow)
    pairs = all_pairs(flow, _UNCOMBINED, sought)
    found = [finding for a, b in pairs for finding in _uncombined(flow, a, b)]
    yield from found
    if not found:
        yield from _mixtures(flow)


def _uncombined(flow: Flow, a: MemoryAccess, b: MemoryAccess) -> Iterator[Finding]:
    """Accesses to partial results inside the loop that keeps private copies of them."""
    for update, other in ((a, b), (b, a)):
        if update.role is Role.UPDATE and update.is_write and not (other.role is Role.UPDATE and other.is_write):
            for depth in _private_depths(flow, update, other):
                bad = _in_one_iteration(flow, update, other, depth)
                if not bad.is_empty() and _meets(flow, update, depth):
                    yield Finding(pair_key(_UNCOMBINED, a, b), partial(_not_combined, flow, update, other, bad, depth))


def _private_depths(flow: Flow, a: MemoryAccess, b: MemoryAccess) -> Iterator[int]:
    """The depths of shared loops that keep private copies."""
    first, _ = statements(a, b)
    for depth in unordered(flow, a, b):
        tag = flow.accesses.program.loops[first.loops[depth]].tag
        if isinstance(tag, Parallel | Vector) and tag.combine is Combine.PRIVATE:
            yield depth


def _in_one_iteration(flow: Flow, a: MemoryAccess, b: MemoryAccess, depth: int) -> isl.Map:
    same = a.prefix(depth + 1).apply_range(b.prefix(depth + 1).reverse())
    return flow.same_place(a, b).intersect(same)


def _meets(flow: Flow, update: MemoryAccess, depth: int) -> bool:
    """Whether different iterations of a loop update one place."""
    return not race_at(update, update, flow.same_place(update, update), depth, None).is_empty()


# -- several values at once


def _of_several_values(flow: Flow) -> Iterator[Finding]:
    """Reductions to several values that a loop would update atomically: each of these is in an array of its own."""
    program = flow.accesses.program
    for loop in program.loops.values():
        if getattr(loop.tag, "combine", None) is not Combine.ATOMIC:
            continue
        for source, updates in _updates_of_several(program, loop.id).items():
            if not meet(program, updates, loop.id):
                continue
            statement, dtype = updates[0], program.algorithm.source(source).dtype
            message = (
                f"loop {loop.name} combines partial results of {source} by tm.ATOMIC, which is for one value, and "
                f"{source} has several, {dtype}: each is in an array of its own, and no atomic update changes them "
                "together"
            )
            repair = _repaired(program, statement, loop)
            if not _over_terms(program, statement, loop.id):
                repair = f"leave combine= out: each iteration of {loop.name} adds to values of its own"
            yield fault("reduction", f"several values {loop.id} {source}", statement, message, repair)


def _updates_of_several(program: Program, loop: LoopId) -> dict[str, list[Statement]]:
    """The updates inside a loop of reductions to several values, by reduction."""
    found: dict[str, list[Statement]] = {}
    for statement in (s for s in program.with_this_loop(loop) if s.role is Role.UPDATE):
        if isinstance(program.algorithm.source(statement.source).dtype, TupleType):
            found.setdefault(statement.source, []).append(statement)
    return found


def _repaired(program: Program, statement: Statement, loop: Loop) -> str:
    """How partial results of several values are combined that no atomic update can add to."""
    apart = _taken_apart(program, statement, loop)
    if loop.is_gpu:
        trees = f"give the command that runs {statement.handle} combine=tm.TREE, with across=tm.TWO_PASS where blocks "
        return f"{trees}add to one value; or {apart}"
    return f"use combine=tm.PRIVATE for loop {loop.name}, or {apart}"


def _over_terms(program: Program, statement: Statement, loop: LoopId) -> bool:
    """Whether a loop of an update runs over terms, not over the values that they belong to."""
    source = program.algorithm.computations[statement.source]
    if statement.dims != source.point_iterators:
        return True
    form = sets.outputs(statement.coords)[statement.depth(loop)]
    return sets.involves_axes(form, len(source.iterators), len(source.over))


def _taken_apart(program: Program, statement: Statement, loop: Loop) -> str:
    """How to take a reduction to several values apart, so that its partial results run in a loop."""
    whole = program.algorithm.wholes.get(statement.source)
    if whole is not None or loop.is_gpu:
        name, where = statement.source if whole is None else whole.name, "on the GPU" if loop.is_gpu else "in parallel"
        return (
            f"leave out combine= and run loops over values of {name} {where}, or take {name} apart before the "
            f"loops are tagged, {name}.update.rfactor(...) of blocks of terms, and run its partial results there"
        )
    others = [x for x in statement.loops if x != loop.id and _over_terms(program, statement, x)]
    if others:
        return f"{statement.handle}.rfactor({loop.name}), and run the loop over its partial results"
    block = f"{loop.name}0"
    return (
        f"without combine=, {statement.handle}.split({loop.name}, 64, {block}, {loop.name}1) and then "
        f"{statement.handle}.rfactor({block}), and run loop {block} over its partial results"
    )


# -- other uses of the buffer


def _mixtures(flow: Flow) -> Iterator[Finding]:
    """Loops that keep private copies of a buffer, but use the buffer for more than these partial results."""
    program = flow.accesses.program
    for loop, buffer, updates in private_copies(program):
        operators = {program.algorithm.computations[s.source].op: s for s in updates}
        name = program.loops[loop].name
        if len(operators) > 1:
            first, second, *_ = operators.values()
            message = (
                f"loop {name} keeps private copies of {buffer} for {first.handle} and {second.handle}, which combine "
                "partial results in different ways"
            )
            repair = f"keep {second.source} in a buffer of its own"
            yield fault("reduction", f"operators {loop} {buffer}", second, message, repair)
        else:
            yield from _mixed(flow, loop, buffer, updates)


def _mixed(flow: Flow, loop: LoopId, buffer: str, updates: tuple[Statement, ...]) -> Iterator[Finding]:
    program = flow.accesses.program
    for access in flow.accesses.of_buffer(buffer):
        statement = access.actor.statement
        own = access.is_write and statement in updates
        if own or statement is None or loop not in statement.loops or access.domain.is_empty():
            continue
        spot = first_spot(access, access.domain)
        does = "stores" if access.is_write else "reads"
        message = (
            f"{words(spot.computed(program))} {does} {words(spot.named)} in {buffer} inside loop "
            f"{program.loops[loop].name}, which keeps private copies of {buffer} until its end"
        )
        repair = f"keep {access.source} in a buffer of its own"
        if access.source in (update.source for update in updates):
            repair = f"move {statement.handle} out of loop {program.loops[loop].name}"
        if isinstance(program.loops[loop].tag, Parallel):
            repair += ", or use combine=tm.ATOMIC"
        yield fault("reduction", f"mixed {loop} {buffer}", statement, message, repair)
        return


def _not_combined(flow: Flow, update: MemoryAccess, other: MemoryAccess, bad: isl.Map, depth: int) -> Violation:
    witness, partial_result, spot = pair_spots(flow, update, other, bad)
    statement, _ = statements(update, other)
    loop = flow.accesses.program.loops[statement.loops[depth]].name
    does = "stores" if other.is_write else "reads"
    who = words(spot.computed(flow.accesses.program))
    where = f"inside loop {loop}, which combines its partial results only at its end"
    message = f"{who} {does} {words(partial_result.named)} {where}, {witness}"
    return Violation("reduction", message, witness, repair=f"move it out of loop {loop}, or use combine=tm.ATOMIC")
