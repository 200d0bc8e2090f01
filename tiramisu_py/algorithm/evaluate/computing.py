"""All values of one computation: listed, ordered by their reads of each other, computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.evaluate.lattice import Column, Lattice
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.evaluate.scattered_terms import ScatteredTerms, scattered_terms
from tiramisu_py.algorithm.evaluate.stage_values import called_stage
from tiramisu_py.algorithm.evaluate.valuation import Points, Valuation, Values, empty_values
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType, bool_
from tiramisu_py.errors import ArgumentError, DeclarationError

#: Approximately how many points are evaluated at once.
_CHUNK = 1 << 19


class Computing:
    """Computes the values of a computation, given the values of all sources that it reads.

    `columns` are the indices of its values, and `flat` their positions in ``values.array``.
    """

    def __init__(self, computation: Computation, valuation: Valuation) -> None:
        self.c = computation
        self.valuation = valuation
        self.body = typed(computation.expr, computation.dtype)
        guards = [(typed(guard, bool_), mentions(guard, computation.over)) for guard in computation.guards]
        self.value_guards = [guard for guard, inner in guards if not inner]
        self.term_guards = [guard for guard, inner in guards if inner]
        self.points = Lattice(computation.points, valuation.params) if computation.is_reduction else None
        self._begin()
        self.columns, self.count = self._listed()
        self.values = self._room()
        self.flat, _ = self.values.located(self.columns, self.count)

    def announce(self) -> None:
        """Let readers find the values, none of which is known yet."""
        assert self.values.members is not None
        self.values.members.reshape(-1)[self.flat] = True
        self.valuation.values[self.c.name] = self.values

    @property
    def reads_itself(self) -> bool:
        """Whether it is a recurrence."""
        return any(isinstance(e, Access) and e.source == self.c.name for e in walk(self.body))

    def run(self) -> None:
        """Compute all values of a computation that reads known values only."""
        if self.c.stage is not None:
            self._begin()
            self.values.array.reshape(-1)[self.flat] = called_stage(self.c, self.valuation, self.columns, self.count)
            return
        if self._scattered():
            return
        for rows in self._chunks():
            self.values.array.reshape(-1)[self.flat[rows]] = self.computed(rows)

    def _begin(self) -> None:
        self.valuation.reader, self.valuation.iterators = self.c.name, self.c.iterators

    # -- the value set

    def _listed(self) -> tuple[list[Column], int]:
        lattice = Lattice(self.c.domain, self.valuation.params)
        if not lattice.size:
            count = 0 if lattice.is_empty else 1
            return [], self._guarded(Points({}, count), self.value_guards).count
        columns = lattice.elements(lambda axis, known: self._clipped(self.c.iterators, self.value_guards, axis, known))
        points = Points(dict(zip(self.c.iterators, columns, strict=True)), len(columns[0]))
        points = self._guarded(points, self.value_guards)
        return [points.columns[name] for name in self.c.iterators], points.count

    def _room(self) -> Values:
        if not self.count:
            shape = (0,) * len(self.columns)
            return empty_values(self.c.name, shape, shape, self.c.dtype.numpy)
        low = tuple(int(column.min()) for column in self.columns)
        shape = tuple(int(column.max()) - least + 1 for column, least in zip(self.columns, low, strict=True))
        return empty_values(self.c.name, low, shape, self.c.dtype.numpy)

    def _guarded(self, points: Points, guards: Sequence[Expr]) -> Points:
        """The points at which all guards hold; each guard is evaluated where those before it hold."""
        for guard in guards:
            points = points.where(self.valuation.column(guard, points))
        return points

    def _clipped(
        self, names: Sequence[str], guards: Sequence[Expr], axis: int, known: Sequence[Column]
    ) -> tuple[Column | None, Column | None]:
        """Bounds of an iterator that guards of the form ``low <= iterator`` and ``iterator < high`` give."""
        count = len(known[0]) if known else 1
        at = Points(dict(zip(names, known, strict=False)), count)
        low: Column | None = None
        high: Column | None = None
        for guard in guards:
            bound = _bound(guard, names[axis], names[:axis])
            if bound is None:
                continue
            column = self.valuation.column(bound[0], at)
            if bound[1]:
                high = column - 1 if high is None else np.minimum(high, column - 1)
            else:
                low = column if low is None else np.maximum(low, column)
        return low, high

    # -- the values

    def point_text(self, row: Column) -> str:
        """A value in words, by its row."""
        self._begin()
        return self.valuation.point_text(self._at(row).at(0))

    def _at(self, rows: Column) -> Points:
        columns = {name: column[rows] for name, column in zip(self.c.iterators, self.columns, strict=True)}
        return Points(columns, len(rows), rows)

    def _chunks(self) -> Iterator[Column]:
        for start in range(0, self.count, _CHUNK):
            yield np.arange(start, min(start + _CHUNK, self.count))

    def computed(self, rows: Column) -> Array:
        """The values in some rows."""
        self._begin()
        if self.points is None:
            return self.valuation.column(self.body, self._at(rows))
        return self._reduced(self.points, rows)

    def _reduced(self, lattice: Lattice, rows: Column) -> Array:
        assert self.c.op is not None
        identity = typed(self.c.op.identity(self.c.dtype), self.c.dtype)
        partial = self.valuation.column(identity, Points({}, len(rows))).copy()
        for start, end in self._portions(lattice, rows):
            at, origin = self._terms(lattice, rows[start:end])
            terms = self.valuation.column(self.body, at)
            accumulate(self.valuation, self.c.op, self.c.dtype, partial[start:end], terms, origin)
        return partial

    def _terms(self, lattice: Lattice, rows: Column) -> tuple[Points, Column]:
        """The points of the terms of some values, in lexicographic order, and for each term its value's position."""
        known = [column[rows] for column in self.columns]
        columns, origin = lattice.extended(known, len(rows), lattice.size, self._clip_terms)
        named = dict(zip(self.c.point_iterators, columns, strict=True))
        at = self._guarded(Points(named, len(origin), origin), self.term_guards)
        assert at.rows is not None
        return Points(at.columns, at.count, rows[at.rows]), at.rows

    def _clip_terms(self, axis: int, known: Sequence[Column]) -> tuple[Column | None, Column | None]:
        return self._clipped(self.c.point_iterators, self.term_guards, axis, known)

    def _portions(self, lattice: Lattice, rows: Column) -> Iterator[tuple[int, int]]:
        """Intervals of rows whose terms are evaluated at once."""
        known, first = [column[rows] for column in self.columns], len(self.columns)
        others = 1
        for axis in range(first + 1, lattice.size):
            least, largest = lattice.span(axis)
            others *= max(1, largest - least + 1)
        weights = lattice.counts(first, known, len(rows), self._clip_terms) * others
        portion = (np.cumsum(weights) - weights) // _CHUNK
        starts = np.flatnonzero(np.diff(portion, prepend=-1))
        yield from zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True)

    # -- terms that say which value they go to

    def _scattered(self) -> bool:
        """Compute all values of a scatter in one step for each term; False if it is none, or if a read fails.

        A failing read is then found again value by value, where the message names the value.
        """
        lattice, found = self.points, scattered_terms(self.c.iterators, self.term_guards)
        if lattice is None or found is None or not self.count:
            return False
        assert self.c.op is not None
        self._begin()
        identity = typed(self.c.op.identity(self.c.dtype), self.c.dtype)
        partial = self.valuation.column(identity, Points({}, self.count)).copy()
        try:
            for terms in self._listed_terms(found):
                at, rows = self._of_values(lattice, found, terms)
                values = self.valuation.column(self.body, at)
                accumulate_anywhere(self.valuation, self.c.op, self.c.dtype, partial, values, rows)
        except (ArgumentError, DeclarationError):
            return False
        self.values.array.reshape(-1)[self.flat] = partial
        return True

    def _listed_terms(self, found: ScatteredTerms) -> Iterator[Points]:
        """The points of a scatter without the iterators that terms choose, in lexicographic order, in parts."""
        order = found.order(self.c.point_iterators)
        names = [self.c.point_iterators[axis] for axis in order][: len(order) - len(found.places)]
        listed = sets.project_prefix(sets.rearranged(self.c.points, order), len(names))
        lattice = Lattice(listed, self.valuation.params)

        def clip(axis: int, known: Sequence[Column]) -> tuple[Column | None, Column | None]:
            return self._clipped(names, found.conditions, axis, known)

        first = lattice.extended([], 1, 1, clip)[0][0]
        others = 1
        for axis in range(1, len(names)):
            least, largest = lattice.span(axis)
            others *= max(1, largest - least + 1)
        step = max(1, _CHUNK // others)
        for start in range(0, len(first), step):
            part = first[start : start + step]
            columns = lattice.extended([part], len(part), len(names), clip)[0]
            named = Points(dict(zip(names, columns, strict=True)), len(columns[0]))
            yield self._guarded(named, found.conditions)

    def _of_values(self, lattice: Lattice, found: ScatteredTerms, terms: Points) -> tuple[Points, Column]:
        """The terms that go to a value of the computation, and for each of them the value's row."""
        chosen = {name: self.valuation.column(value, terms) - less for name, (value, less) in found.places.items()}
        at = Points({**terms.columns, **chosen}, terms.count)
        flat, inside = self.values.located([at.columns[name] for name in self.c.iterators], at.count)
        rows = np.minimum(np.searchsorted(self.flat, flat), self.count - 1)
        inside &= self.flat[rows] == flat
        at, rows = at.where(inside), rows[inside]
        inside = lattice.contains([at.columns[name] for name in self.c.point_iterators])
        at = self._guarded(Points(at.columns, at.count, rows).where(inside), found.rest)
        assert at.rows is not None
        return Points(at.columns, at.count), at.rows


def mentions(expression: Expr, iterators: Sequence[str]) -> bool:
    """Whether an expression uses one of some iterators."""
    return any(isinstance(node, Iter) and node.name in iterators for node in walk(expression))


def _bound(guard: Expr, iterator: str, outer: Sequence[str]) -> tuple[Expr, bool] | None:
    """An iterator's bound by a guard, over outer iterators alone, and whether it is ``iterator < bound``."""
    if not isinstance(guard, Binary) or guard.op not in ("<=", "<") or guard.left.dtype.name != "int64":
        return None
    bound, other = (guard.left, guard.right) if guard.op == "<=" else (guard.right, guard.left)
    if not (isinstance(other, Iter) and other.name == iterator):
        return None
    inside = all(node.name in outer for node in walk(bound) if isinstance(node, Iter))
    return (bound, guard.op == "<") if inside else None


# -- reductions, one term at a time: each partial result is rounded to the type of the reduction


def accumulate(valuation: Valuation, op: Operator, dtype: DType, partial: Array, terms: Array, origin: Column) -> None:
    """Combine `terms` into `partial`, in place: term t goes to ``partial[origin[t]]``, in order.

    `origin` is non-decreasing. Many short reductions are computed side by side, few long ones one after another.
    """
    counts = np.bincount(origin, minlength=len(partial))
    longest = int(counts.max(initial=0))
    ufunc = _UFUNCS.get(id(op))
    if ufunc is not None and longest > 4 * len(partial):
        _one_by_one(ufunc, partial, terms, counts)
    elif longest:
        _side_by_side(valuation, op, dtype, partial, terms, origin, counts)


def accumulate_anywhere(
    valuation: Valuation, op: Operator, dtype: DType, partial: Array, terms: Array, origin: Column
) -> None:
    """Combine terms as `accumulate` does, with origins in any order."""
    ufunc = _UFUNCS.get(id(op))
    if ufunc is not None:
        ufunc.at(partial, origin, terms)
        return
    order = np.argsort(origin, kind="stable")
    accumulate(valuation, op, dtype, partial, terms[order], origin[order])


#: The operators that NumPy has; its ``accumulate`` combines strictly from left to right (unlike ``reduce``).
_UFUNCS: dict[int, Any] = {
    id(operators.sum_): np.add,
    id(operators.product): np.multiply,
    id(operators.min_): np.minimum,
    id(operators.max_): np.maximum,
    id(operators.logical_and): np.bitwise_and,
    id(operators.logical_or): np.bitwise_or,
}


def _one_by_one(ufunc: Any, partial: Array, terms: Array, counts: Column) -> None:
    start = 0
    for row, count in enumerate(counts):
        listed = np.concatenate([partial[row : row + 1], terms[start : start + count]])
        partial[row] = ufunc.accumulate(listed, dtype=partial.dtype)[-1]
        start += count


def _side_by_side(
    valuation: Valuation, op: Operator, dtype: DType, partial: Array, terms: Array, origin: Column, counts: Column
) -> None:
    combined = typed(op.combine(Iter("accumulator", dtype), Iter("term", dtype)), dtype)
    rank = np.arange(len(terms)) - (np.cumsum(counts) - counts)[origin]
    order = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        chosen = order[start:end]
        rows = origin[chosen]
        at = Points({"accumulator": partial[rows], "term": terms[chosen]}, len(rows))
        partial[rows] = valuation.column(combined, at)
