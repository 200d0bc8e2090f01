"""The request of each nonblocking message: an element of an array of requests, for each half of an exchange.

A half whose messages are each awaited in the same iteration of the outer loops reuses its requests there; the
coordinates of the other host loops choose one. The user may choose otherwise (`Message.slots`).
"""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def iterations(program: Program, half: Statement) -> isl.Set:
    """The iterations of the host in which a half has a message."""
    return sets.named(outside(program, half).range().coalesce(), None)


def outside(program: Program, half: Statement) -> isl.Map:
    """``instance -> iteration of the host``: the elements of one message have one iteration."""
    return sets.graph(half.prefix(program.host_depth(half)), _executed(program, half))


def slots(program: Program, half: Statement) -> isl.Map:
    """``iteration of the host -> coordinates of the request`` that its message uses, on its rank."""
    assert half.link.message is not None
    if half.link.message.slots is not None:
        chosen = sets.graph(sets.renamed(half.link.message.slots, None))
        return outside(program, half).reverse().apply_range(chosen).coalesce()
    issued = iterations(program, half)
    kept = sets.variables(issued.get_space())[_shared(program, half, issued) :]
    return sets.graph(sets.function(issued.get_space(), None, kept), issued)


def pairs(program: Program, wait: Statement, half: Statement) -> isl.Map:
    """``instance of a wait -> iteration of the host`` whose message it waits for."""
    forms = [*program.told_apart(wait, half), *_rank(program, half)]
    groups = sets.graph(sets.function(half.frame, None, forms), _executed(program, half))
    named = sets.out_size(groups) - len(_rank(program, wait))
    mine = sets.function(wait.frame, None, [*sets.variables(wait.frame)[:named], *_rank(program, wait)])
    waiting = sets.graph(mine, _executed(program, wait))
    return waiting.apply_range(groups.reverse()).apply_range(outside(program, half)).coalesce()


def _executed(program: Program, statement: Statement) -> isl.Set:
    return statement.instances.intersect_params(program.context.params())


def _rank(program: Program, statement: Statement) -> list[isl.Aff]:
    """The coordinates of the rank, in a program that is spread: a wait is for messages of its own rank."""
    return sets.outputs(program.rank_of(statement)) if program.ranks.is_spread else []


def _shared(program: Program, half: Statement, issued: isl.Set) -> int:
    """The number of host loops that every message shares with the waits for it, so that requests can be reused."""
    count = program.host_depth(half)
    parts = list[isl.Set]()
    for wait in program.statements.values():
        if wait.link.waits is not None and half in program.awaited(wait):
            done = pairs(program, wait, half)
            parts.append(done.range())
            count = min(count, _in_step(wait, half, done, count))
    awaited = sets.united(parts)
    return count if awaited is not None and issued.is_subset(awaited) else 0


def _in_step(wait: Statement, half: Statement, done: isl.Map, most: int) -> int:
    """The number of outermost loops that a wait and the awaited messages share, at equal coordinates."""
    shared = 0
    for a, b in zip(wait.loops, half.loops[:most], strict=False):
        if a != b:
            break
        shared += 1
    while shared:
        mine = sets.graph(wait.prefix(shared), wait.instances)
        both = mine.reverse().apply_range(sets.project_range_prefix(done, shared))
        if both.is_subset(sets.equal_prefix(both, shared)):
            break
        shared -= 1
    return shared
