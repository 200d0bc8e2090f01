"""The shifts that make a fusion legal: how much later, or earlier, statements run in the loops that they join.

Given a dependence, { x -> y : x has to come before y }, as a relation between the coordinates of the shared loops, and
the shift s of the joining statements, it is kept if

    y + s > x   where y joins,      y > x + s   where x joins           (lexicographically)

or if both are equal, and x stands before y in the loops' body. Loop by loop, outermost first, s is the least shift,
counted from 0, after which no distance y - x is negative; only pairs of distance 0 matter further inside. If no
constant shift inside orders these, the shift outside is one more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_fields import Named, NamedParts, Whole
from tiramisu_py.schedule.loops.transforms import Shift
from tiramisu_py.sets import smallest

#: No shift is larger.
_FAR = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Dependence:
    """Pairs of coordinates of the `count` loops that two statements share, the first of which has to come first.

    `joins` says whether the second statement is the one that joins, and `is_strict` whether it stands first in the body
    of the loops, so that coordinates must differ.
    """

    first: Statement
    second: Statement
    pairs: isl.Map
    count: int
    joins: bool
    is_strict: bool

    def inside(self, depth: int, by: int) -> Dependence:
        """The pairs that a shift in the loop at `depth` brings into one of its iterations."""
        moved = sets.shifted_out(self.pairs, depth, by if self.joins else -by)
        return replace(self, pairs=sets.equal_at(moved, depth))


def correcting_shifts(before: Program, fused: Program, names: Sequence[str]) -> list[Shift]:
    """The shifts of the statements `names`, and of all that are in their loops, that make their fusion legal.

    Raises `CommandError` if no constant shifts do, and if a buffer that they would move along is local to the loops.
    """
    joining = _joining(before, fused, names)
    found = list(_dependences(before, fused, joining))
    most = max((dependence.count for dependence in found), default=0)
    shifts = _shifts(found, 0, most)
    if shifts is None:
        raise CommandError(_obstacle(fused, found, most))
    loops = fused.statements[names[0]].loops
    moved = [(loop, by) for loop, by in zip(loops, shifts, strict=False) if by]
    for loop, by in moved:
        _check_moves(fused, joining, loop, by)
    return [
        Shift(named, Iter(fused.loops[loop].name), by) for loop, by in moved for named in references(fused, joining)
    ]


def _joining(before: Program, fused: Program, names: Sequence[str]) -> list[str]:
    """The statements `names`, and those that are in one of the loops that they leave.

    Loops that both had before, such as that over steps around a group, are not left: others in these stay.
    """
    found = set(names)
    for name in names:
        old, new = before.statements[name], fused.statements[name]
        kept = next((k for k, pair in enumerate(zip(old.loops, new.loops, strict=False)) if pair[0] != pair[1]), None)
        if kept is not None:
            found |= {s.name for s in before.statements.values() if shared(s, old) > kept}
    return [name for name in before.statements if name in found]


def _check_moves(fused: Program, joining: Sequence[str], loop: LoopId, by: int) -> None:
    """Refuse a shift in a loop that a buffer of the shifted statements is local to."""
    name = fused.loops[loop].name
    for statement in (fused.statements[name] for name in joining):
        buffer = fused.buffers.get(fused.storages[statement.memory.target].buffer) if statement.stores else None
        if buffer is not None and loop in buffer.scope:
            raise CommandError(
                f"{statement.handle} has to be shifted by {by}, but {buffer.name} is kept for one iteration of loop "
                f"{name}: fuse before compute_at and store_at"
            )


def references(program: Program, names: Sequence[str]) -> list[Named]:
    """References to statements, as few as possible."""
    found: dict[Named, None] = {}
    for name in names:
        statement = program.statements[name]
        own = [s.name for s in program.statements_of(statement.source)]
        is_whole = name in own and set(own) <= set(names)
        source = statement.source
        named = Whole(source, source, source) if is_whole else NamedParts(source, statement.handle, name, (name,))
        found[named] = None
    return list(found)


# -- dependences


def _dependences(before: Program, fused: Program, joining: Sequence[str]) -> Iterator[Dependence]:
    """The dependences between the joining statements and the others in the loops that they join."""
    then, now = Flow(MemoryAccesses(before)), Flow(MemoryAccesses(fused))
    for home in now.accesses.homes():
        accesses = [*now.accesses.writers(home), *now.accesses.readers(home)]
        for a in accesses:
            for b in accesses:
                first, second = a.actor.statement, b.actor.statement
                if first is None or second is None or (first.name in joining) == (second.name in joining):
                    continue
                if shared(first, second) and (a.is_write or b.is_write):
                    pairs = _ordered(then, now, a, b)
                    if pairs is not None and not pairs.is_empty():
                        yield _between(now, a, b, pairs, second.name in joining)


def _ordered(then: Flow, now: Flow, a: MemoryAccess, b: MemoryAccess) -> isl.Map | None:
    """The pairs ``a -> b`` in which a has to come first; None if there are none.

    A write comes before the reads of its value. Accesses of one place by different computations, and by the start and
    the terms of a reduction, come in the order that they had before the fusion.
    """
    if a.source == b.source and a.is_write and not b.is_write:
        return now.same_value(a, b)
    if a.source == b.source and not (a.is_write and b.is_write and a.role is not b.role):
        return None
    pairs = now.same_place(a, b)
    earlier, later = _there(then.accesses, a), _there(then.accesses, b)
    if pairs.is_empty() or earlier is None or later is None:
        return None
    return then.precedence.before(earlier, later, pairs)


def _there(accesses: MemoryAccesses, access: MemoryAccess) -> MemoryAccess | None:
    statement = accesses.program.statements[access.actor.name]
    return accesses.write(statement) if access.is_write else accesses.read(statement, access.source)


def _between(flow: Flow, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map, joins: bool) -> Dependence:
    first, second = a.actor.statement, b.actor.statement
    assert first is not None and second is not None
    count, positions = shared(first, second), flow.precedence.positions
    times = pairs.apply_domain(a.prefix(count)).apply_range(b.prefix(count)).coalesce()
    is_strict = positions[first.name][count] > positions[second.name][count]
    return Dependence(first, second, times, count, joins, is_strict)


# -- shifts


def _shifts(found: Sequence[Dependence], depth: int, most: int) -> list[int] | None:
    """The shifts from the loop at `depth` inwards that keep all dependences; None if no constants do."""
    if depth == most:
        return []
    bounds = _bounds(found, depth)
    if bounds is None or bounds[0] > bounds[1]:
        return None
    low, high = bounds
    least = min(max(0, low), high)
    for by in (least, least + 1, least - 1):
        if low <= by <= high:
            inside = [d.inside(depth, by) for d in found if d.count > depth + 1]
            rest = _shifts([d for d in inside if not d.pairs.is_empty()], depth + 1, most)
            if rest is not None:
                return [by, *rest]
    return None


def _bounds(found: Sequence[Dependence], depth: int) -> tuple[int, int] | None:
    """The least and the greatest shift after which no distance in a loop is negative; None if one is unbounded."""
    low, high = -_FAR, _FAR
    for dependence in found:
        least = sets.least_distance(dependence.pairs, depth)
        if least is None:
            return None
        room = least - (1 if dependence.is_strict and depth == dependence.count - 1 else 0)
        low, high = (max(low, -room), high) if dependence.joins else (low, min(high, room))
    return low, high


def _obstacle(program: Program, found: Sequence[Dependence], most: int) -> str:
    """Why no constant shifts keep all dependences, and what to do."""
    for one in found:
        if _shifts([one], 0, most) is None:
            loops = ", ".join(program.loop_names(one.first)[: one.count])
            return (
                f"no constant shift in {loops} lets {one.first.handle} come before {one.second.handle} wherever it has "
                f"to{_example(one)}: the distance between them has no bound; let them share fewer loops, or none"
            )
    names = dict.fromkeys(other.handle for one in found for other in (one.first, one.second))
    return (
        f"no shift of what joins the loops keeps the order of {', '.join(names)}: it would be too late for one and too "
        "early for another; fuse the computations in the order in which they read one another, or fewer of them"
    )


def _example(one: Dependence) -> str:
    """Two iterations in the wrong order, at the smallest parameters; "" if there are none without a shift."""
    wrong = one.pairs.intersect(isl.Map.lex_gt(one.pairs.get_space().domain()))
    if wrong.is_empty():
        return ""
    params = smallest.smallest_params(wrong)
    pair = smallest.first(sets.flat_pairs(sets.fixed_map(wrong, params), "pair"))
    first, second = (", ".join(map(str, part)) for part in (pair[: one.count], pair[one.count :]))
    sizes = "".join(f", {name} = {value}" for name, value in params.items())
    return f" (iteration {first} of {one.first.handle} before {second} of {one.second.handle}{sizes})"
