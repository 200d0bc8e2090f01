"""Scatters as gathers: what each term adds to its place, each place takes from its terms.

::

    for p: out[dst[p]] += e(p)     -->     for n: for q in start[n]..start[n + 1]: out[n] += e(order[q])

The runs of an inverse have each position p once, in the run of ``dst[p]``, and in their order: so each value has the
same terms, in the same order, and no two iterations of n add to one element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input, InverseOf
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.gathers import gathered, has_all_terms, is_placement, is_read
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.scatters import placed
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import check_unscheduled, rebuilt
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name
from tiramisu_py.schedule.command_fields import Named, OnStatements


def gather(program: Program, name: str, inverse: str, loop: str | None) -> Program:
    """The program with a scatter as sums over the positions that an inverse has for each place."""
    algorithm = program.algorithm
    about = algorithm.inputs[inverse].inverts if inverse in algorithm.inputs else None
    if about is None:
        raise CommandError(f'{inverse} is no inverse: declare one, into = f.inverse("into", dst)')
    whole = algorithm.computations[name]
    row, term = _placed_by(whole, about, algorithm)
    check_unscheduled(program, whole, "gather")
    position = fresh_name(loop or f"{term}_in", whole.point_iterators, underscored)
    changed = _gathered(algorithm, whole, (row, term, position), algorithm.inputs[inverse])
    at = whole.iterators.index(row) + 1
    order = (*whole.iterators[:at], *changed.over, *whole.iterators[at:])
    return rebuilt(program, algorithm.with_gathered(changed), changed, order)


def _placed_by(whole: Computation, about: InverseOf, algorithm: Algorithm) -> tuple[str, str]:
    """The iterator of values that the index chooses, and the term at which it is read; raises `CommandError`."""
    found = {row: narrowest(value) for row, value in placed(whole).items()}
    if any(access.source == whole.name for access in accesses(whole.expr)):
        raise CommandError(f"the terms of {whole.name} read {whole.name} itself, in the order in which they are added")
    for row, value in found.items():
        for term in whole.over:
            if is_read(value, term, about) and any(
                is_placement(each, row, term, about) for guard in whole.guards for each in conjuncts(guard)
            ):
                return row, term
    at = ", ".join(str(value) for value in found.values())
    does = f"adds its terms at {at}" if found else "is no scatter: its terms choose no place"
    needed = at or "its index"
    raise CommandError(f"{whole.name} {does}, and {about.name} is the inverse of {about.of}: declare that of {needed}")


def _gathered(algorithm: Algorithm, whole: Computation, names: tuple[str, str, str], order: Input) -> Computation:
    """The reduction over the positions of the inverse."""
    _, term, position = names
    (extent,) = order.shape
    if not has_all_terms(whole.points, whole.point_iterators.index(term), term, extent):
        raise CommandError(
            f"{whole.name} adds some of the positions of {term} only, and an inverse has all of them, from 0 to "
            f"{extent}: leave others out by a neutral element, tm.select({term} .., .., 0)"
        )
    over = tuple(position if each == term else each for each in whole.over)
    expr, guards = gathered(algorithm, order, names, whole.expr, whole.guards)
    points = sets.with_dims(whole.points, (*whole.iterators, *over))
    return replace(whole, expr=expr, guards=guards, over=over, points=points)


# -- the command as a value


@dataclass(frozen=True, eq=False)
class Gather(OnStatements):
    """Let each value of a scatter take its terms, where each term was added at its place: by an inverse of the index.

    ::

        for p: out[dst[p]] += e(p)     -->     for n: for q in start[n]..start[n + 1]:
                                                   out[n] += e(order[q])            (into = f.inverse("into", dst))

    Each value has the same terms in the same order: its bits stay. Values are independent, so that
    ``out.parallelize(n)`` needs no ``combine=``. `loop` names the loop over the positions of a run.
    `Function.evaluate` computes the scatter as it was declared. Give the command before others on `out`. Raises
    `CommandError` for a scatter by another index, or of some positions only.
    """

    inverse: Named
    loop: Iter | None = None

    @classmethod
    def called(cls, of: Named, inverse: Named, loop: Iter | None = None) -> Self:
        return cls(of, inverse, loop)

    def applied(self, program: Program) -> Program:
        if not isinstance(self.inverse, Named):
            raise CommandError(f'{self.inverse!r} is no inverse: declare one, into = f.inverse("into", dst)')
        name = None if self.loop is None else loop_name(self.loop)
        return gather(program, self.computation, self.inverse.source, name)
