"""coalesce: nested loops over a box as one loop, in the same order.

::

    for h in 0..H: for x in 0..10: for y in 0..5      -->      for j in 0..50*H:
        S[h, x, y]                                                 S[j // 50, j // 5 % 10, j % 5]

The number of an iteration, ``j = 50*h + 5*x + y``, is affine, and tells iterations apart wherever each inner loop has a
constant number of iterations; its parts, floors by constants, are quasi-affine. If of the loops that are joined only
the outermost has as many iterations as a size says, they become one loop. Otherwise they stay as a bundle
(`schedule.loops.bundles`), since ``j // (5*X)`` is no affine form. What is joined has no gaps, so that no iteration of
the new loop is empty. Source: Zhao et al., Panamera (PACT 2022), section 2, where the outermost part has a remainder
that it does not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import BundledLoops, members
from tiramisu_py.program.editing import Coordinates, Rewrite
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, statements, unused
from tiramisu_py.schedule.loops.bundles import bundled
from tiramisu_py.schedule.loops.run_bounds import is_run, joined_run
from tiramisu_py.sets import smallest

#: Numbers of iterations are below this.
LARGEST = 2**63
#: So are sizes, in the products that 64 bits hold whatever the size is.
LARGEST_SIZE = 2**31


def coalesce(program: Program, names: Sequence[str], loops: Sequence[str], into: str) -> Program:
    """Join nested loops into one, or to a bundle, in every statement that shares them."""
    if len(loops) < 2 or len(set(loops)) < len(loops):
        raise CommandError(f"coalesce joins two loops or more, each named once: {', '.join(loops) or 'none'}")
    done = False
    for statement in statements(program, names):
        current = program.statements[statement.name]
        if members(program, current, into):
            done = True  # it shares the loops of another one
            continue
        found = [find(program, current, name) for name in loops]
        run = tuple(loop for loop in found if loop is not None)
        if len(run) == len(loops):
            program = _joined(program, current, run, into)
            done = True
        elif into in program.loop_names(current):
            done = True  # it shares the loops of another one
    if not done:
        missing = "; ".join(nest(program, s) for s in statements(program, names))
        raise CommandError(f"no statement has all the loops {', '.join(loops)}: {missing}")
    return program


def _joined(program: Program, statement: Statement, run: tuple[LoopId, ...], into: str) -> Program:
    _check_run(program, statement, run)
    unused(program, program.with_this_loop(run[0]), [into], apart=run)
    if is_run(program, statement, run):
        return joined_run(program, statement, (run[0], run[1]), into)
    _check_shared(program, statement, run)
    executed = BundledLoops(program, run).iterations
    box = _box(program, executed, run)
    if box is None:
        return bundled(program, run, into)
    rewrite = Rewrite(run, (Loop(program.next_loop(), into),), box.number, box.parts)
    _check_gaps(program, executed, run, box)
    return rewrite.applied(program)


def _check_run(program: Program, statement: Statement, run: tuple[LoopId, ...]) -> None:
    """Refuse loops that are tagged, or not directly inside each other in this order."""
    names = [program.loops[loop].name for loop in run]
    for loop in (program.loops[number] for number in run):
        if loop.tag is not None:
            raise CommandError(f"loop {loop.name} is tagged by {loop.tagged_by}: coalesce it before tagging it")
    at = statement.depth(run[0])
    if statement.loops[at : at + len(run)] == run:
        return
    inside = [program.loops[loop].name for loop in statement.loops if loop in run]
    advice = f"name them from the outermost: {', '.join(inside)}, or give reorder({', '.join(names)}) before"
    if inside == names:
        between = [program.loops[loop].name for loop in _span(statement, run)]
        advice = f"join {', '.join(between)}, or move the loops between them elsewhere, with reorder"
    raise CommandError(f"{', '.join(names)} are not directly inside each other in this order: {advice}")


def _span(statement: Statement, run: tuple[LoopId, ...]) -> tuple[LoopId, ...]:
    """Some loops, and those between them."""
    return statement.loops[statement.depth(run[0]) : statement.depth(run[-1]) + 1]


def _check_shared(program: Program, statement: Statement, run: tuple[LoopId, ...]) -> None:
    """Refuse statements that have some of the loops, and not all of them with the same ones around."""
    count = statement.depth(run[-1]) + 1
    for each in program.with_this_loop(run[0]):
        if each.loops[:count] != statement.loops[:count]:
            inner = ", ".join(program.loops[loop].name for loop in run)
            raise CommandError(
                f"{nest(program, each)}: it shares only the outer ones of the loops {inner}; the command needs them "
                "perfectly nested"
            )


@dataclass(frozen=True, eq=False)
class _Box:
    """The first iteration of each loop, as a form of the parameters, and the extents of the inner ones."""

    lows: tuple[isl.Aff, ...]
    extents: tuple[int, ...]

    @property
    def strides(self) -> list[int]:
        """The distance of neighbours along each loop."""
        return [*reversed([*accumulate(reversed(self.extents), mul, initial=1)])]

    def number(self, c: Coordinates) -> Coordinates:
        """The number of an iteration."""
        total = sets.constant(c[0].get_domain_space(), 0)
        for one, low, stride in zip(c, self._lows(c[0]), self.strides, strict=True):
            total = total.add(sets.scaled(one.sub(low), stride))
        return [total]

    def parts(self, c: Coordinates) -> Coordinates:
        """The iteration of a number."""
        parts = [sets.floor_div(c[0], stride) if stride > 1 else c[0] for stride in self.strides]
        rest = [sets.modulo(part, extent) for part, extent in zip(parts[1:], self.extents, strict=True)]
        return [part.add(low) for part, low in zip([parts[0], *rest], self._lows(c[0]), strict=True)]

    def _lows(self, like: isl.Aff) -> list[isl.Aff]:
        space = like.get_domain_space()
        return [sets.on_frame(low, space) for low in self.lows]


def _box(program: Program, executed: isl.Set, run: tuple[LoopId, ...]) -> _Box | None:
    """The box of the iterations; None for one whose inner sides are no constants.

    Raises `CommandError` where another order of the loops has constant ones.
    """
    outer = sets.size(executed) - len(run)
    along = [isl.Map.from_range(sets.component_of(executed, outer + k)) for k in range(len(run))]
    inner = [sets.interval_around(each) for each in along[1:]]
    unknown = [program.loops[loop].name for loop, each in zip(run[1:], inner, strict=True) if each is None]
    if unknown and (len(unknown) > 1 or sets.interval_around(along[0]) is None):
        return None
    if unknown:
        raise CommandError(_unknown(program, run, unknown[0]))
    found = [each for each in inner if each is not None]
    lows = [low for low in sets.lower_bounds(along[0]) if sets.never_below(along[0], low)]
    first = lows[0] if lows else sets.constant(along[0].get_space().domain(), 0)
    box = _Box((first, *(each.low for each in found)), tuple(each.extent for each in found))
    whole = sets.interval_around(along[0], lows)
    if box.strides[0] * (LARGEST_SIZE if whole is None else whole.extent) >= LARGEST:
        outermost = "a size" if whole is None else whole.extent
        words = " * ".join(map(str, (outermost, *box.extents)))
        raise CommandError(
            f"it would number {words} iterations, more than 64 bits hold: join fewer "
            "loops, and leave the outermost as it is"
        )
    return box


def _unknown(program: Program, run: tuple[LoopId, ...], unknown: str) -> str:
    """Advice on the one loop whose number of iterations is no constant, and which is not the outermost."""
    names = [program.loops[loop].name for loop in run]
    order = ", ".join([unknown, *(name for name in names if name != unknown)])
    return (
        f"{unknown} has no constant number of iterations, so that j // {unknown} would be no affine form; only the "
        f"outermost may have as many as a size says: give reorder({order}) before, and coalesce({order}, into=...)"
    )


def _check_gaps(program: Program, executed: isl.Set, run: tuple[LoopId, ...], box: _Box) -> None:
    """Refuse iterations that are no box: some numbers between the first and the last would be empty."""
    variables = sets.variables(executed.get_space())
    outer = len(variables) - len(run)
    renumber = sets.function(executed.get_space(), None, [*variables[:outer], *box.number(variables[outer:])])
    numbers = executed.apply(sets.graph(renumber)).coalesce()
    gaps = sets.without_gaps(numbers).subtract(numbers)
    if gaps.is_empty():
        return
    sizes = smallest.smallest_params(gaps)
    element = smallest.first(smallest.at(gaps, sizes))
    space = gaps.get_space()
    new = sets.variables(space)
    back = sets.function(space, None, [*new[:outer], *box.parts(new[outer:])])
    where = smallest.evaluated(back, element, sizes)
    around = program.with_this_loop(run[0])[0].loops[: outer + len(run)]
    place = ", ".join(f"{program.loops[x].name} = {at}" for x, at in zip(around, where, strict=True))
    needed = sets.involved_params(gaps.gist_params(program.context.params()))
    shown = [f"{name} = {sizes[name]}" for name in needed]
    given = f", for {', '.join(shown)}" if shown else ""
    raise CommandError(
        f"the loops {_names(program, run)} are no box: nothing runs at {place}{given}, but at iterations "
        "before and after it; give the terms a box, with where= for those that count, or keep the loops"
    )


def _names(program: Program, run: tuple[LoopId, ...]) -> str:
    return ", ".join(program.loops[loop].name for loop in run)
