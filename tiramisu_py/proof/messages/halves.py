"""Halves of exchanges, as the proof names them, and when each rank sends and receives.

A *message* is an iteration of the loops of a half outside of its bulk loops. It is known by its event
``[coordinates of the rank, coordinates of the other loops outside of bulk loops]``. On each rank events are ordered by
these coordinates and by static positions; between ranks there is no order but that of messages.
"""

from __future__ import annotations

from collections.abc import Hashable

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.violations.findings import Named
from tiramisu_py.sets import smallest


def task(statement: Statement) -> tuple[Hashable, ...]:
    """A key for what a statement does on its ranks: the same in all states of a program.

    It is known by its exchange, by what it computes, or by its name if it does neither.
    """
    if statement.link.message is not None:
        return (statement.role, statement.link.message.exchange)
    return (statement.role, statement.source, "" if statement.acts else statement.name)


# -- instances and events


def executed(program: Program, statement: Statement) -> isl.Set:
    """The instances of a statement for which the function is defined."""
    return statement.instances.intersect_params(program.context.params())


def _outside(program: Program, statement: Statement) -> list[int]:
    """The depths of the loops outside of bulk loops, rank loops left out."""
    return [d for d in range(program.host_depth(statement)) if not program.loops[statement.loops[d]].is_rank]


def event_of(program: Program, statement: Statement) -> isl.MultiAff:
    """``instance -> event`` of a half or a wait: the coordinates of its rank, then those of loops around messages."""
    forms = sets.outputs(statement.coords)
    kept = [forms[depth] for depth in _outside(program, statement)]
    rank = sets.outputs(program.rank_of(statement))
    return sets.function(statement.frame, statement.name, [*rank, *kept])


def events(program: Program, statement: Statement) -> isl.Set:
    """The events of a statement."""
    return executed(program, statement).apply(sets.graph(event_of(program, statement)))


def local_time(program: Program, statement: Statement) -> isl.MultiAff:
    """``instance -> time`` on its own rank: the time vector with zeros in place of rank coordinates."""
    time = sets.outputs(program.times[statement.name])
    for depth, loop in enumerate(statement.loops):
        if program.loops[loop].is_rank:
            time[2 * depth + 1] = sets.constant(statement.frame, 0)
    return sets.function(statement.frame, None, time)


def static_times(program: Program, statement: Statement) -> list[int | None]:
    """The time of a statement's events as a list: static positions, and None for each coordinate of an event."""
    positions, found = program.positions[statement.name], list[int | None]()
    for depth in range(program.host_depth(statement)):
        is_rank = program.loops[statement.loops[depth]].is_rank
        found += [positions[depth], 0 if is_rank else None]
    return [*found, positions[program.host_depth(statement)]]


def earlier(program: Program, a: Statement, b: Statement, *, one_rank: bool) -> isl.Map:
    """``event of a -> event of b`` with the first before the second in local time, on one rank or on any two."""
    axes = program.ranks.axes
    space = event_of(program, a).get_space().range()
    other = event_of(program, b).get_space().range()
    alike = isl.Map.universe(space.map_from_domain_and_range(other))
    if one_rank:
        alike = sets.equal_prefix(alike, axes)
    found = sets.no_pair(alike)
    depth = min(shared(a, b), program.host_depth(a), program.host_depth(b))
    ticking = sum(d < depth for d in _outside(program, a))
    for position in range(axes, axes + ticking):
        found = found.union(sets.less_at(alike, position))
        alike = sets.equal_at(alike, position)
    apart = a is not b and program.positions[a.name][depth] < program.positions[b.name][depth]
    return found.union(alike) if apart else found


def soonest(program: Program, statement: Statement, bad: isl.Set) -> tuple[dict[str, int], tuple[int, ...]]:
    """The smallest instance: least sum of the parameters, then earliest on its rank, then the least rank."""
    params = smallest.smallest_params(bad)
    clock = sets.joined(local_time(program, statement), program.rank_of(statement))
    return params, smallest.earliest(bad, clock, params)


def has_full_peers(program: Program, half: Statement) -> bool:
    """Whether a half names its peer by as many coordinates as the process grid has axes."""
    assert half.link.message is not None
    return sets.out_size(half.link.message.peer) == program.ranks.axes


def element_of(
    program: Program, half: Statement, instance: tuple[int, ...], params: dict[str, int]
) -> tuple[Named, tuple[int, ...], tuple[int, ...]]:
    """The value that an instance of a half sends or receives, its rank, and the rank at the other end."""
    assert half.link.message is not None
    value = smallest.evaluated(program.value_of(half), instance, params)
    rank = smallest.evaluated(program.rank_of(half), instance, params)
    return (half.source, value), rank, smallest.evaluated(half.link.message.peer, instance, params)
