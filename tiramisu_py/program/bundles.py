"""Bundles: adjacent loops over a box that commands take as one loop, with several symbolic extents.

::

    for h in 0..N: for x in 0..M: for y in 0..K      -->      for j = (h, x, y): ...
        S[h, x, y]                                                S[h, x, y]

The number of an iteration, ``(h*M + x)*K + y``, is no affine form, so the loops stay as they are in the program, and
nothing there depends on the number. Where the iterations of a bundle run side by side, any two of them do, as those of
``parallelize(h, x, y)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.loops import Bundle, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def members(program: Program, statement: Statement, name: str) -> tuple[LoopId, ...]:
    """The loops of the statement's bundle of this name, outermost first; none if it has no such bundle."""
    return tuple(loop for loop in statement.loops if name in _names(program.loops[loop].bundle))


def _names(bundle: Bundle | None) -> tuple[str, ...]:
    return () if bundle is None else bundle.names


def bundles(program: Program) -> Iterator[tuple[Statement, tuple[LoopId, ...]]]:
    """Each bundle of the program once, with one of its statements."""
    seen: set[LoopId] = set()
    for statement in program.statements.values():
        for loop in statement.loops:
            bundle = program.loops[loop].bundle
            if bundle is not None and loop not in seen:
                run = members(program, statement, bundle.name)
                seen.update(run)
                yield statement, run


@dataclass(frozen=True, eq=False)
class Sides:
    """The box of some loops: for each of them its first and its last iteration, forms of the parameters alone."""

    lows: tuple[isl.Aff, ...]
    highs: tuple[isl.Aff, ...]

    @property
    def extents(self) -> list[isl.Aff]:
        """The number of iterations of each loop, where it has any."""
        return [sets.plus(high.sub(low), 1) for low, high in zip(self.lows, self.highs, strict=True)]

    def box(self, space: isl.Space) -> isl.Set:
        """All iterations in the box, as a set whose last dimensions are those of the loops."""
        found = sets.universe(space)
        inner = sets.variables(space)[-len(self.lows) :]
        for variable, low, high in zip(inner, self.lows, self.highs, strict=True):
            form = variable.to_pw_aff()
            found = found.intersect(sets.as_set(form.ge_set(sets.on_frame(low, space).to_pw_aff())))
            found = found.intersect(sets.as_set(form.le_set(sets.on_frame(high, space).to_pw_aff())))
        return found


def sides_of(executed: isl.Set, count: int) -> Sides | None:
    """The sides of the smallest box around the last `count` dimensions; None where one is no single affine form."""
    outer = sets.size(executed) - count
    lows, highs = list[isl.Aff](), list[isl.Aff]()
    for axis in range(outer, outer + count):
        along = isl.Map.from_range(sets.component_of(executed, axis))
        low, high = _lowest(along), _lowest(along.neg())
        if low is None or high is None:
            return None
        lows.append(low)
        highs.append(high.neg())
    return Sides(tuple(lows), tuple(highs))


def _lowest(along: isl.Map) -> isl.Aff | None:
    found = [low for low in sets.lower_bounds(along) if sets.never_below(along, low)]
    return found[0] if found else None


def iterations(program: Program, run: Sequence[LoopId]) -> isl.Set:
    """The iterations of adjacent loops, and of those around them, in which any statement runs."""
    found = list[isl.Set]()
    for statement in program.with_this_loop(run[0]):
        count = statement.depth(run[-1]) + 1
        own = sets.graph(statement.prefix(count), statement.instances).range()
        found.append(own.intersect_params(program.context.params()))
    united = sets.united(found)
    assert united is not None
    return united.coalesce()
