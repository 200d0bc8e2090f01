"""Values that exist, but only in the memory of other ranks: who has them, and the message that would bring them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.dimension_names import dimension_names
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Param, as_expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.proof.violations.findings import Spot, on_rank, rank_words, words
from tiramisu_py.sets import smallest

#: How many ranks are named in a message.
_FEW = 3


def missing_message(
    flow: Flow, read: MemoryAccess, bad: isl.Set, spot: Spot, writes: Sequence[MemoryAccess], asks: str
) -> Violation:
    """A value that only other ranks have: `bad` are all the reads without their value, `spot` is the first of them.

    `writes` are all the writes of the value, and `asks` says who wants it.
    """
    ranks = _holding(flow, replace(read, domain=smallest.alone(spot.access.domain, spot.at, spot.params)), writes, spot)
    caller = all(write.actor.statement is None for write in writes)
    where = " and ".join(rank_words(rank) for rank in ranks[:_FEW]) + (" and others" if len(ranks) > _FEW else "")
    it = "it" if spot.element == spot.named else words(spot.named)
    held = f"{it} is only in the array of {where}" if caller else f"{it} is only on {where}"
    writer = None if caller else spot.named
    witness = Witness(spot.params, writer, spot.computed(flow.accesses.program), spot.element)
    message = f"{asks}{on_rank(spot)}, but {held}: no message brings it, {witness}"
    return Violation("communication", message, witness, repair=_repair(flow, read, bad, spot, writes, ranks[0]))


def _holding(flow: Flow, only: MemoryAccess, writes: Sequence[MemoryAccess], spot: Spot) -> list[tuple[int, ...]]:
    """The first ranks on which the value of one read is written: where it is computed, if it is computed."""
    computing = [w for w in writes if w.actor.statement is None or not w.actor.statement.receives] or list(writes)
    found = sets.union_of(flow.same_value(only, write).range().apply(write.on_ranks) for write in computing)
    left, listed = sets.fixed(found, spot.params).coalesce(), list[tuple[int, ...]]()
    while len(listed) <= _FEW and not left.is_empty():
        listed.append(smallest.first(left))
        left = left.subtract(smallest.singleton(left.get_space(), listed[-1]))
    return listed


# -- the message that is missing


def _repair(
    flow: Flow, read: MemoryAccess, bad: isl.Set, spot: Spot, writes: Sequence[MemoryAccess], holder: tuple[int, ...]
) -> str:
    """Both ways to bring the value: derived, and by hand where the ranks have one axis and the message one form."""
    name = flow.accesses.program.algorithm.name
    derived = f"{name}.derive_transfers()"
    if read.actor.statement is None and read.source not in flow.accesses.program.ranks.distributions:
        dims = ", ".join(dimension_names(flow.accesses.program.algorithm, read.source))
        return (
            f"{read.source}.distribute_array([{dims}], rank=...) if each rank is to return a part of it, or {derived}"
        )
    command = "" if len(holder) != 1 else _exchange(flow, read, bad, writes, holder[0] - spot.rank[0])
    if any(entry.command.derives for entry in flow.accesses.program.log):
        return command or f"{name}.create_exchange(...): it is not derived here"
    return f"{derived}, or {command}" if command else derived


def _exchange(flow: Flow, read: MemoryAccess, bad: isl.Set, writes: Sequence[MemoryAccess], hop: int) -> str:
    """The exchange that brings what is missing from `hop` ranks further; "" where it has no simple form."""
    program = flow.accesses.program
    axis = next((loop.name for loop in program.loops.values() if loop.is_rank and not loop.added), "q")
    needed = _needed(read, bad, writes, hop)
    dims = [f"{dim}_" if dim == axis else dim for dim in dimension_names(program.algorithm, read.source)]
    if axis in program.algorithm.params or needed.is_empty():
        return ""
    try:
        receive, send = (_ranges(flow, needed, axis, dims, by) for by in (0, hop))
    except (isl.Error, ValueError):
        return ""
    access = f"{read.source}[{', '.join(dims)}]"
    ends = f"send={{{send}}}, to={_moved(axis, -hop)}, recv={{{receive}}}, source={_moved(axis, hop)}"
    return f"{program.algorithm.name}.create_exchange({access}, {ends})"


def _moved(axis: str, by: int) -> str:
    return axis if by == 0 else f"{axis} {'+' if by > 0 else '-'} {abs(by)}"


def _needed(read: MemoryAccess, bad: isl.Set, writes: Sequence[MemoryAccess], hop: int) -> isl.Set:
    """``[rank, value]``: the values that ranks lack for the reads `bad`, and that the ranks `hop` further have."""
    lacking = read.on_ranks.intersect_domain(bad).reverse().apply_range(read.values)
    found = sets.empty(sets.flat_pairs(lacking, read.source).get_space())
    for write in writes:
        having = write.on_ranks.reverse().apply_range(write.values)
        space = having.get_space().domain()
        nearer = sets.function(space, None, [sets.plus(sets.variables(space)[0], -hop)])
        found = found.union(sets.flat_pairs(lacking.intersect(having.apply_domain(sets.graph(nearer))), read.source))
    return found.coalesce()


def _ranges(flow: Flow, needed: isl.Set, axis: str, dims: Sequence[str], by: int) -> str:
    """The domain of one half as the user writes it, for ranks `by` further than those that lack the values."""
    context = flow.accesses.program.context
    space = needed.get_space()
    variables = sets.variables(space)
    there = sets.function(space, sets.tuple_name(space), [sets.plus(variables[0], -by), *variables[1:]])
    moved = sets.preimage(needed, there)
    ranks = f"{axis}: {_range(moved, 0, context, {})}"
    known = sets.where_equal(sets.with_more_params(moved, [axis]), sets.variables(_with(moved, axis))[0], axis)
    around = sets.with_more_params(context, [axis])
    names = {axis: Param(axis, int64)}
    return ", ".join([ranks, *(f"{dim}: {_range(known, k + 1, around, names)}" for k, dim in enumerate(dims))])


def _with(of: isl.Set, name: str) -> isl.Space:
    return sets.with_more_params(of, [name]).get_space()


def _range(of: isl.Set, at: int, context: isl.Set, names: dict[str, Param]) -> str:
    """The values of one dimension: ``R``, or ``(1, R - 1)``."""
    low, high = sets.smallest_coordinate(of, at).coalesce(), sets.largest(of, at).coalesce()
    if low.n_piece() != 1 or high.n_piece() != 1:
        raise ValueError("bounds of several pieces")
    first, last = (of_params(form, context.params(), names) for form in (low, sets.raised(high, 1)))
    return str(last) if str(first) == str(as_expr(0)) else f"({first}, {last})"
