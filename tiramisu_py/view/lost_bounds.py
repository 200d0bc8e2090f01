"""Loops that run through all positions, though values say where they begin or end; and the commands that made it so.

The bounds of ``start[n] <= p < start[n + 1]`` are loaded before the loop over p. So its loops have to be inside those
over n, and those that share it must have the same bounds; the number of blocks, threads and ranks, and that of a
bundle's iterations, is fixed before any value is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import COMPARISONS, Access, Binary, Expr, Iter
from tiramisu_py.algorithm.traversal import iterators, substitute, walk
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.statement_runs import run_bounds


class LostBound(NamedTuple):
    """A loop of a statement that runs through all positions: why (`reason`), and what to do (`advice`)."""

    source: str
    role: Role
    loop: str
    reason: str
    advice: str


def lost_bounds(program: Program) -> tuple[str, ...]:
    """A sentence for each loop without its bounds: the statement, the loop, the command, and what to do."""
    found: dict[str, None] = {}
    last = list(_lost(program))
    states = program.history if last else ()
    for statement, lost, guards in last:
        since = _since(states, lost)
        cause = f"since {since}, " if since else ""
        found[
            f"{statement.handle}: {cause}the loop {lost.loop} runs through all positions for those with {guards}: "
            f"{lost.reason}; {lost.advice}"
        ] = None
    return tuple(found)


def _since(states: tuple[Program, ...], lost: LostBound) -> str:
    """The command since which all states have the loop without its bounds; empty if it was declared so."""
    for before, after in zip(reversed(states[:-1]), reversed(states[1:]), strict=True):
        if not any((each.source, each.role) == (lost.source, lost.role) for _, each, _ in _lost(before)):
            return "" if after.origin.command is None else after.origin.command.text
    return ""


def _lost(program: Program) -> Iterator[tuple[Statement, LostBound, str]]:
    for statement in program.acting:
        bounds = [bound for guard in statement.guards for bound in conjuncts(guard) if _is_bound(bound)]
        if bounds and any(map(run_bounds(program, statement).is_implied, statement.guards)):
            continue  # by what loops outside say, they have others
        if bounds and _is_searched(program, statement):
            continue
        for loop in statement.loops:
            here = [bound for bound in bounds if loop in _loops(program, statement, _positions(bound))]
            found = _reason(program, statement, loop, here) if here else None
            if found is not None:
                name = program.loops[loop].name
                lost = LostBound(statement.source, statement.role, name, *found)
                yield statement, lost, " and ".join(map(str, here))
                break


def _is_searched(program: Program, statement: Statement) -> bool:
    """Whether a search finds the run of each position, of runs that have each position once."""
    inputs = program.algorithm.inputs
    return any(inputs[run.start].search for run in run_bounds(program, statement).runs)


def _is_bound(condition: Expr) -> bool:
    """Whether a condition compares iterators with a value at a place that others say."""
    if not isinstance(condition, Binary) or condition.op not in COMPARISONS or condition.op in ("==", "!="):
        return False
    positions, values = _positions(condition), _values(condition)
    sides = [any(isinstance(e, Access) for e in walk(side)) for side in (condition.left, condition.right)]
    return bool(positions) and bool(values) and not positions & values and sides.count(True) == 1


def _values(condition: Expr) -> set[str]:
    """The iterators in the places of values."""
    return {name for e in walk(condition) if isinstance(e, Access) for name in iterators(e)}


def _positions(condition: Expr) -> set[str]:
    """The iterators that a condition bounds: those on the side without a value."""
    assert isinstance(condition, Binary)
    sides = (condition.left, condition.right)
    return {name for side in sides if not any(isinstance(e, Access) for e in walk(side)) for name in iterators(side)}


def _loops(program: Program, statement: Statement, names: set[str]) -> list[LoopId]:
    """The loops of a statement that its iterators of these names depend on."""
    point = zip(program.point_names(statement), sets.outputs(statement.point), strict=False)
    axes = {axis for name, form in point if name in names for axis in sets.axes_of(form)}
    coords = zip(statement.loops, sets.outputs(statement.coords), strict=True)
    return [loop for loop, form in coords if axes & sets.axes_of(form)]


def _reason(program: Program, statement: Statement, loop: LoopId, bounds: list[Expr]) -> tuple[str, str] | None:
    """Why a loop has no bounds by values, and what to do; None if it has them."""
    own, name = program.loops[loop], program.loops[loop].name
    names = [each for bound in bounds for each in _loops(program, statement, _values(bound))]
    values = [each for each in statement.loops if each in names]
    inside = [] if _is_known_before(program, statement, loop, bounds) else _not_outside(statement, values, loop)
    called = ", ".join(program.loops[each].name for each in values)
    if own.bundle is not None:
        return (
            f"the iterations of a bundle are numbered before a value is loaded, and {name} is in {own.called}",
            f"leave {name} out of {own.called}",
        )
    if inside:
        order = [*values, *(each for each in statement.loops if each not in values)]
        listed = ", ".join(program.loops[each].name for each in order)
        return (
            f"the values differ between the iterations of {', '.join(program.loops[each].name for each in inside)}, "
            "inside of it",
            f"put {called} outside: {statement.handle}.reorder({listed})",
        )
    positions = [each for bound in bounds for each in _loops(program, statement, _positions(bound))]
    if all(program.loops[each].is_gpu or program.loops[each].is_rank for each in positions):
        what = "ranks" if own.is_rank else "threads and blocks of a GPU"
        return (
            f"the number of {what} is fixed before a value is loaded",
            f"distribute {called} in place of {name}" if called else f"leave {name} to one of them",
        )
    free = _without_bounds(program, statement, loop)
    if free is not None:
        return (
            f"{free.handle} shares it, and runs in all of them",
            f"compute {free.source} at a loop outside of {name}",
        )
    other = _other_bounds(program, statement, loop, bounds)
    if other is not None:
        return (
            f"{other.handle} shares it, with other bounds",
            f"give {statement.handle} and {other.handle} loops of their own over {name}",
        )
    return None


def _is_known_before(program: Program, statement: Statement, loop: LoopId, bounds: list[Expr]) -> bool:
    """Whether the loops around a loop say in which places the values of its bounds are."""
    names = {name for bound in bounds for name in _values(bound)}
    point = zip(program.point_names(statement), sets.outputs(statement.point), strict=False)
    places = sets.function(statement.frame, None, [form for name, form in point if name in names])
    around = sets.graph(statement.prefix(statement.depth(loop)), statement.instances)
    return bool(around.reverse().apply_range(sets.graph(places, statement.instances)).is_single_valued())


def _not_outside(statement: Statement, loops: list[LoopId], loop: LoopId) -> list[LoopId]:
    """The loops among some that are not around a loop."""
    return [each for each in loops if statement.depth(each) >= statement.depth(loop)]


def _without_bounds(program: Program, statement: Statement, loop: LoopId) -> Statement | None:
    """A statement that shares a loop which no value bounds for it."""
    for other in program.with_this_loop(loop):
        if other.acts and not any(_is_bound(each) for guard in other.guards for each in conjuncts(guard)):
            return other
    return None


def _other_bounds(program: Program, statement: Statement, loop: LoopId, bounds: list[Expr]) -> Statement | None:
    """A statement that shares a loop, and bounds it by other values."""
    mine = _by_loops(program, statement, bounds)
    for other in program.with_this_loop(loop):
        conditions = [bound for guard in other.guards for bound in conjuncts(guard) if _is_bound(bound)]
        here = [each for each in conditions if loop in _loops(program, other, _positions(each))]
        its = _by_loops(program, other, here) if here else None
        if other is not statement and mine is not None and its is not None and mine.isdisjoint(its):
            return other
    return None


def _by_loops(program: Program, statement: Statement, bounds: list[Expr]) -> set[str] | None:
    """Conditions as texts on loops; None where an iterator is no loop."""
    names = _loop_of_iterator(program, statement)
    if any(name not in names for bound in bounds for name in iterators(bound)):
        return None
    return {str(substitute(bound, names)) for bound in bounds}


def _loop_of_iterator(program: Program, statement: Statement) -> Mapping[str, Expr]:
    """The loop, as a variable of its own, that each iterator of a statement's point is."""
    found: dict[str, Expr] = {}
    for name, form in zip(program.point_names(statement), sets.outputs(statement.point), strict=False):
        for loop, coordinate in zip(statement.loops, sets.outputs(statement.coords), strict=True):
            if coordinate.plain_is_equal(form):
                found[name] = Iter(f"loop{loop}")
    return found
