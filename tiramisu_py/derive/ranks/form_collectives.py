"""Exchanges that loop over the peer ranks (a broadcast, a transposition, ...) as collective calls.

An exchange is a collective call if every rank takes part in every call, and if a call may take and store its elements
in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.collective_exchanges import Collective, collectives
from tiramisu_py.program.ranks.spread import foreseen
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.messages.collectives import is_one_call


def as_collective(half: Statement) -> Statement:
    """A half of an exchange, made collective."""
    assert half.link.message is not None
    return replace(
        half, link=replace(half.link, message=replace(half.link.message, collective=True, asynchronous=False))
    )


def are_calls(program: Program, names: Sequence[str]) -> bool:
    """Whether the exchanges to which some halves belong are calls of all ranks, as a program has them."""
    found = [one for one in collectives(foreseen(program)) if any(s.name in names for s in (*one.sends, *one.receives))]
    return all(is_one_call(one) and _takes_every_rank(one) for one in found)


def _takes_every_rank(one: Collective) -> bool:
    """Whether each rank sends or receives something in each call."""
    assert one.program.ranks.everyone is not None
    wanted = sets.flat_product(one.calls, one.program.ranks.everyone, None)
    parts = [_taking(one, half) for half in (one.send, one.receive)]
    return bool(wanted.is_subset(parts[0].union(parts[1])))


def _taking(one: Collective, half: Statement) -> isl.Set:
    executed = half.instances.intersect_params(one.program.context.params())
    at = sets.joined(one.call_of(half), one.program.rank_of(half))
    return sets.plain(executed.apply(sets.graph(at)))


def takes_all(program: Program, routes: Sequence[isl.Map]) -> bool:
    """Whether values go from each rank to each other one, from one to all others, or from all others to one.

    A route is ``[rank, value] -> [rank that has it, value]``. Two ranks are neighbours and need no collective call.
    """
    assert program.ranks.everyone is not None
    pairs = [_ends(program, route) for route in routes if not route.is_empty()]
    if not pairs:
        return False
    found = sets.union_of(pairs)
    apart = isl.Map.from_domain_and_range(program.ranks.everyone, program.ranks.everyone)
    apart = apart.subtract(sets.graph(sets.identity(program.ranks.everyone.get_space())))
    one_sender = found.is_single_valued() and found.range().is_singleton()
    one_reader = found.reverse().is_single_valued() and found.domain().is_singleton()
    wanted = apart
    if one_sender:
        wanted = apart.intersect_range(found.range())
    elif one_reader:
        wanted = apart.intersect_domain(found.domain())
    several = not apart.is_single_valued()
    return bool(several and wanted.is_subset(found))


def _ends(program: Program, route: isl.Map) -> isl.Map:
    """``rank -> rank`` of a route."""
    space, count = route.get_space(), program.ranks.axes
    first, second = (sets.function(one, None, sets.variables(one)[:count]) for one in (space.domain(), space.range()))
    return route.apply_domain(sets.graph(first)).apply_range(sets.graph(second)).coalesce()
