"""Values by the runs that their positions are in: the run of a position, which was read, is an iterator.

::

    msg[p] = e(etype[p], p)         -->     msg[r, p] = e(r, p)      for p in types[r] .. types[r + 1]
    .. msg[q] ..                            .. msg[etype[q], q] ..

``etype[p]`` is the run of p, which is verified at a call, and each position is in one run: the values are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.declare.run_numbers import known_numbers, less_one
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Access, Cast, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, rewrite
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.records import dataclass


def valued_in_runs(
    algorithm: Algorithm, whole: Computation, start: Input, row: str
) -> tuple[Algorithm, Callable[[Expr], Expr | None]]:
    """The algorithm with values in runs, whose iterator is `row`, and how they are read; raises `CommandError`."""
    numbers = known_numbers(algorithm, start.name)
    if start.covers is None or not isinstance(numbers, Input):
        raise CommandError(
            f"{start.name} has no input with the run of each position: declare "
            f'{start.name} = f.segments("{start.name}", .., of=.., at=..)'
        )
    points = whole.points.intersect_params(algorithm.context.params())
    form = _RunForm(whole, points, start, numbers, _position(whole, points, numbers), row)
    changed = form.changed(algorithm)
    made = algorithm.with_rewritten(lambda c: changed if c.name == whole.name else form.rewritten_in(c), ())
    return made, form.at_runs


def _position(whole: Computation, points: isl.Set, numbers: Input) -> str:
    """The iterator at which values read the run that they are in; raises `CommandError`."""
    if whole.stage is not None or whole.group or whole.shape is not None or whole.run_of or whole.name in whole.sources:
        what = "a call over whole arrays, declared in a group or with shape=, or reads values of its own"
        raise CommandError(f"{whole.name} is {what}: it stays as it is")
    read = [each for e in (whole.expr, *whole.guards) for each in accesses(e) if each.source == numbers.name]
    found = {_iterator(each.indices[0], whole, points) for each in read}
    own = [name for name in whole.iterators if name in found]
    if len(own) != 1:
        at = f"{numbers.name}[{whole.iterators[0] if whole.iterators else '..'}]"
        raise CommandError(f"{whole.name} does not read {at}, the run of one of its iterators: it is in no runs")
    return own[0]


def _iterator(index: Expr, whole: Computation, points: isl.Set) -> str | None:
    """The iterator that an index is, under conversions that keep its values at the points; None for other indices."""
    index = narrowest(index)
    while isinstance(index, Cast) and _keeps(index, whole, points):
        index = narrowest(index.operand)
    return index.name if isinstance(index, Iter) else None


def _keeps(conversion: Cast, whole: Computation, points: isl.Set) -> bool:
    """Whether an integer type has all values of what is converted to it."""
    dims = dict(zip(whole.point_iterators, sets.variables(points.get_space()), strict=True))
    try:
        number = Affine(points.get_space(), dims).value(conversion.operand)
    except NotAffine:
        return False
    low, high = sets.most(number.neg(), points), sets.most(number, points)
    if low is None or high is None or not conversion.dtype.is_integer:
        return False
    least, largest = conversion.dtype.limits
    return least <= -low and high <= largest


@dataclass(frozen=True, eq=False)
class _RunForm:
    """Values at a `position` in runs, which `start` begins and `numbers` has for each position.

    `among` are the points of the values at all sizes that are assumed.
    """

    whole: Computation
    among: isl.Set
    start: Input
    numbers: Input
    position: str
    row: str

    def changed(self, algorithm: Algorithm) -> Computation:
        """The values with an iterator over runs before their position."""
        row, at, declared = Iter(self.row), Iter(self.position), self.start
        first, last = (Access(declared.name, (i,), declared.dtype, algorithm.owner) for i in (row, row + 1))
        bounds = typed(first <= at), typed(at < last)
        axis = self.whole.iterators.index(self.position)
        names = self.whole.iterators
        return replace(
            self.whole,
            iterators=(*names[:axis], self.row, *names[axis:]),
            domain=self._with_row(self.whole.domain, self.whole.iterators, axis),
            points=self._with_row(self.whole.points, self.whole.point_iterators, axis),
            expr=rewrite(self.whole.expr, self._in_index if self.whole.dtype.is_integer else self._by_row),
            guards=(*bounds, *(rewrite(guard, self._by_row) for guard in self.whole.guards)),
        )

    def _with_row(self, points: isl.Set, names: tuple[str, ...], axis: int) -> isl.Set:
        """The points with each run; raises `CommandError` for positions that are in none."""
        name = points.get_tuple_name()
        wider = sets.with_dims(sets.with_inserted_dim(points, axis), (*names[:axis], self.row, *names[axis:]))
        space = wider.get_space()
        variables = dict(zip((self.row, self.position), sets.variables(space)[axis : axis + 2], strict=True))
        reader, covers = Affine(space, variables), self.start.covers
        assert covers is not None
        row, at = Iter(self.row), Iter(self.position)
        inside = reader.condition((at >= 0) & (at < covers))
        if not wider.is_subset(inside):
            raise CommandError(
                f"{self.whole.name} has values at {self.position} that are no positions of {self.start.name}, from 0 "
                f"to {covers}"
            )
        within = reader.condition((row >= 0) & (row < less_one(self.start.shape[0])))
        return sets.named(wider.intersect(within), name)

    def _is_number(self, e: Expr) -> bool:
        bare = narrowest(e)
        if not isinstance(bare, Access) or bare.source != self.numbers.name:
            return False
        return _iterator(bare.indices[0], self.whole, self.among) == self.position

    def _by_row(self, e: Expr) -> Expr | None:
        """The iterator over runs in place of the number that was read; None for what has none of its own."""
        if isinstance(e, Access) and self._is_number(e):
            return Cast(Iter(self.row), e.dtype)
        if isinstance(e, Access):
            row = Iter(self.row)
            found = (row if self._is_number(each) else rewrite(each, self._in_index) for each in e.indices)
            return replace(e, indices=tuple(found))
        return None

    def _in_index(self, e: Expr) -> Expr | None:
        """The iterator, of 64 bits, in place of the number; where it is computed with in fewer bits it is still read.

        Of the number it is known that it fits its type, of an iterator over any number of runs it is not. So it is in
        values of integers, which others may have as an index.
        """
        if self._is_number(e) and e.dtype == int64:
            return Cast(Iter(self.row), int64)
        if not isinstance(e, Access):
            return None
        return e if self._is_number(e) else self._by_row(e)

    def rewritten_in(self, c: Computation) -> Computation:
        """A computation that reads the values in their runs; itself, if it reads none."""
        if self.whole.name not in c.sources:
            return c
        guards = tuple(rewrite(guard, self.at_runs) for guard in c.guards)
        return replace(c, expr=rewrite(c.expr, self.at_runs), guards=guards)

    def at_runs(self, e: Expr) -> Expr | None:
        """A read at the run of its position, too; None for anything else."""
        if not isinstance(e, Access) or e.source != self.whole.name:
            return None
        indices = [rewrite(index, self.at_runs) for index in e.indices]
        axis = self.whole.iterators.index(self.position)
        number = Access(self.numbers.name, (indices[axis],), self.numbers.dtype, e.owner)
        return replace(e, indices=(*indices[:axis], number, *indices[axis:]))
