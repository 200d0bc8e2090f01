"""Bundles: adjacent loops over a box that commands take as one loop, with several symbolic extents.

::

    for h in 0..N: for x in 0..M: for y in 0..K      -->      for j = (h, x, y): ...
        S[h, x, y]                                                S[h, x, y]

The number of an iteration, ``(h*M + x)*K + y``, is no affine form, so the loops stay as they are in the program, and
nothing there depends on the number. Where the iterations of a bundle run side by side, any two of them do, as those of
``parallelize(h, x, y)``. `BundledLoops` says what their box is, to commands, to the proof of a kernel and to lowering.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.program.loops import Bundle, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


def members(program: Program, statement: Statement, name: str) -> tuple[LoopId, ...]:
    """The loops of the statement's bundle of this name, outermost first; none if it has no such bundle."""
    return tuple(loop for loop in statement.loops if name in _names(program.loops[loop].bundle))


def _names(bundle: Bundle | None) -> tuple[str, ...]:
    return () if bundle is None else bundle.names


def bundles(program: Program) -> Iterator[BundledLoops]:
    """Each bundle of the program once."""
    seen: set[LoopId] = set()
    for statement in program.statements.values():
        for loop in statement.loops:
            bundle = program.loops[loop].bundle
            if bundle is not None and loop not in seen:
                run = members(program, statement, bundle.name)
                seen.update(run)
                yield BundledLoops(program, run)


@dataclass(frozen=True, eq=False)
class BundledLoops:
    """Adjacent loops of a program, outermost first, that are a bundle, or are to be one."""

    program: Program
    run: tuple[LoopId, ...]

    @property
    def names(self) -> str:
        """The names of the loops."""
        return ", ".join(self.program.loops[loop].name for loop in self.run)

    @cached_property
    def iterations(self) -> isl.Set:
        """The iterations of the loops, and of those around them, in which any statement runs."""
        found = list[isl.Set]()
        for statement in self.program.with_this_loop(self.run[0]):
            count = statement.depth(self.run[-1]) + 1
            own = sets.graph(statement.prefix(count), statement.instances).range()
            found.append(own.intersect_params(self.program.context.params()))
        united = sets.united(found)
        assert united is not None
        return united.coalesce()

    @cached_property
    def sides(self) -> Sides | None:
        """The box of the iterations; None where there are none, or a side is no single form of the parameters."""
        return sides_of(self.iterations, len(self.run))

    @cached_property
    def missing(self) -> isl.Set:
        """The iterations of the box, and of the loops around it, in which nothing runs. There are sides."""
        assert self.sides is not None
        space, outer = self.iterations.get_space(), sets.size(self.iterations) - len(self.run)
        around = sets.extended(sets.project_prefix(self.iterations, outer), space)
        inside = around.intersect(self.sides.box(space)).intersect_params(self.program.context.params())
        return inside.subtract(self.iterations)

    @property
    def is_box(self) -> bool:
        """Whether each iteration has a number: they fill a box whose sides are forms of the parameters."""
        return self.iterations.is_empty() or (self.sides is not None and self.missing.is_empty())

    def first_and_count(self) -> tuple[list[Expr], list[Expr]] | None:
        """The first iteration of each loop, and the number of iterations; None without sides."""
        if self.sides is None:
            return None
        lows, counts = ([self._written(form) for form in of] for of in (self.sides.lows, self.sides.extents))
        return lows, counts

    def _written(self, form: isl.Aff) -> Expr:
        return of_params(form.to_pw_aff().project_domain_on_params(), self.program.context)


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
