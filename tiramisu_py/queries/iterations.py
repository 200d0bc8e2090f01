"""Iterations of a computation: how many there are along each iterator, and what bounds depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.domains.runs import runs, start_bounds
from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


def extents(computation: Computation, *, terms: bool = False) -> list[int | None]:
    """How many values each iterator of a computation has at most; None where parameters set no bound.

    With `terms` those of all iterators of its points: of a reduction's terms too.
    """
    of = computation.points if terms else computation.domain
    return [_constant_extent(of, axis) for axis in range(sets.size(of))]


class PositionRun(NamedTuple):
    """The iterators over runs, and over the positions of a run; `start` is the input that says where each begins."""

    start: str
    row: str
    position: str


def run_of_positions(algorithm: Algorithm, computation: Computation) -> PositionRun | None:
    """The runs that have each position once, and that the points of a computation are in.

    None for those that are in no such runs (`Function.segments`), or at other forms of iterators.
    """
    space = computation.points.get_space()
    variables = dict(zip(computation.point_iterators, sets.variables(space), strict=True))
    reader = Affine(space, variables)
    for run in runs(list(start_bounds(algorithm.inputs, reader, computation.guards))):
        row, position = (
            next((name for name, each in variables.items() if each.plain_is_equal(form)), None)
            for form in (run.row, run.position)
        )
        if algorithm.inputs[run.start].covers is not None and row is not None and position is not None:
            return PositionRun(run.start, row, position)
    return None


def _constant_extent(of: isl.Set, axis: int) -> int | None:
    low, high = of.dim_min_val(axis), of.dim_max_val(axis)
    return high.to_python() - low.to_python() + 1 if low.is_int() and high.is_int() else None


def end_of(program: Program, computation: Computation, iterator: str) -> int | None:
    """One more than the last value of an iterator, of values or of terms, if it is a positive constant for the sizes
    that a program allows.
    """
    found = extents_of(sets.named(computation.points, None), program.context)
    end = found[computation.point_iterators.index(iterator)]
    return int(end.value) if isinstance(end, Const) and end.value > 0 else None


def is_box(computation: Computation) -> bool:
    """Whether no bound of an iterator of its points depends on another one."""
    return all(sum(map(bool, sets.terms(form).dims)) < 2 for form, _ in sets.constraints(computation.points))


@dataclass(frozen=True)
class Congruence:
    """A condition ``form % modulus == 0`` on the points of a computation, whose form has these iterators.

    It `is_plain` if nothing else is in the form, such as a parameter or another quotient.
    """

    iterators: tuple[str, ...]
    modulus: int
    is_plain: bool


def congruences(computation: Computation) -> list[Congruence]:
    """The conditions on remainders, such as ``(x + 1 - v) % 2 == 0`` of a transposed convolution."""
    found = []
    for form, is_equality in sets.constraints(computation.points):
        for _, under in sets.terms(form).divs if is_equality else ():
            inside = sets.terms(under)
            names = tuple(name for name, c in zip(computation.point_iterators, inside.dims, strict=True) if c)
            found.append(Congruence(names, inside.denominator, not inside.params and not inside.divs))
    return found


def same_points(one: Computation, of_one: Sequence[str], other: Computation, of_other: Sequence[str]) -> bool:
    """Whether two computations have the same points, where iterators in the same place of both lists are one."""
    first, second = (
        sets.rearranged(sets.named(each.points, None), [each.point_iterators.index(name) for name in names])
        for each, names in ((one, of_one), (other, of_other))
    )
    return bool(first.is_equal(second))


def same_values(one: Computation, other: Computation) -> bool:
    """Whether two computations have values at the same indices."""
    return bool(one.domain.reset_tuple_id().is_equal(other.domain.reset_tuple_id()))


def has_values_at_all_of(one: Computation, other: Computation) -> bool:
    """Whether a computation has a value wherever another one has."""
    return bool(other.domain.reset_tuple_id().is_subset(one.domain.reset_tuple_id()))


def same_range(one: Computation, other: Computation, iterator: str) -> bool:
    """Whether an iterator has the same values in both, at all sizes at which it has some in the other."""
    wanted = sets.component_of(one.domain, one.iterators.index(iterator))
    found = sets.component_of(other.domain, other.iterators.index(iterator))
    return bool(wanted.intersect_params(found.params()).is_equal(found))


def have_one_end(statement: Statement, axis: int, other: int) -> bool:
    """Whether two dimensions of a statement's executions end at the same size, as rows and columns of a square."""
    ends = (sets.largest(statement.instances, each) for each in (axis, other))
    return bool(next(ends).plain_is_equal(next(ends)))


@dataclass(frozen=True, eq=False)
class Iterations:
    """The values of one iterator of a computation's points, at the sizes that a program allows."""

    program: Program
    computation: Computation
    iterator: str

    @cached_property
    def _values(self) -> isl.Set:
        points = self.computation.points.intersect_params(self.program.context.params())
        return sets.component_of(points, self.computation.point_iterators.index(self.iterator))

    @cached_property
    def begin_at_0(self) -> bool:
        """Whether the first one is 0."""
        position = self.computation.point_iterators.index(self.iterator)
        return sets.smallest_value(sets.component_of(self.computation.points, position), 0) == 0

    @cached_property
    def are_constant(self) -> bool:
        """Whether they are the same at all sizes."""
        values = self._values
        return bool(sets.at_any_params(values).intersect_params(values.params()).is_subset(values))

    @cached_property
    def most(self) -> int | None:
        """The most that there are at any size; None without such a number."""
        if self._values.is_empty():
            return 0
        low, high = sets.smallest_value(self._values, 0), sets.largest_value(self._values, 0)
        return None if low is None or high is None else high - low + 1

    @cached_property
    def end(self) -> int:
        """One more than the largest value; 1 without such a number."""
        return (sets.largest_value(self._values, 0) or 0) + 1

    def reach(self, value: int) -> bool:
        """Whether this is one of them at every size."""
        there = self._values.intersect(sets.within(sets.variables(self._values.get_space())[0], value, value + 1))
        return bool(self.program.context.params().is_subset(there.params()))


def is_multiple(program: Program, size: Expr, number: int) -> bool:
    """Whether a size is a multiple of a number at all sizes that a program allows."""
    space = program.algorithm.frame(None, ())
    try:
        form = Affine(space, {}).single(size)
    except NotAffine:
        return False
    rest = form.sub(sets.scaled(sets.floor_div(form, number), number))
    other = sets.universe(space).subtract(sets.within(rest, 0, 1))
    return bool(other.intersect_params(program.context.params()).is_empty())


def extent_at(computation: Computation, iterator: str, sizes: Mapping[str, int]) -> int:
    """How many values an iterator of a computation, or of the terms of a reduction, has at given sizes."""
    whole = iterator in computation.iterators
    points, names = (
        (computation.domain, computation.iterators) if whole else (computation.points, computation.point_iterators)
    )
    at = sets.interval(sets.fixed(points, sizes), names.index(iterator))
    return 0 if at is None else at[1] - at[0] + 1
