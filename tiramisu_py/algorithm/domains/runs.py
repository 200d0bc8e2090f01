"""Runs: ranges of positions between neighbouring elements of a monotone input, ``start[n] <= p < start[n + 1]``.

Runs of different rows n share no position, so that p says which n it is of: values in the runs are kept by position,
and there are at most as many as positions. In the same way, a place ``place[n] == v`` says which n it is of if the
elements of `place` are distinct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.extents import first_indices
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Access, Binary, Const, Expr, Iter, Unary, binary
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import int64
from tiramisu_py.records import dataclass

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, eq=False)
class Run:
    """``start[row] <= position < start[row + 1]``: both are forms; `conditions` are the two comparisons."""

    start: str
    row: isl.Aff
    position: isl.Aff
    conditions: tuple[Expr, Expr]


@dataclass(frozen=True, eq=False)
class StartBound:
    """An element of a monotone input that bounds a form: ``start[index] <= form``, or ``form < start[index]``."""

    start: str
    index: isl.Aff
    form: isl.Aff
    lower: bool
    condition: Expr

    def is_same(self, other: StartBound) -> bool:
        """Whether two bounds are one."""
        if (self.start, self.lower) != (other.start, other.lower):
            return False
        return _is_zero(self.index.sub(other.index)) and _is_zero(self.form.sub(other.form))


def start_bounds(inputs: Mapping[str, Input], reader: Affine, guards: Sequence[Expr]) -> Iterator[StartBound]:
    """The bounds by elements of monotone inputs among some conditions, with forms as `reader` reads them."""
    if not any(each.monotone for each in inputs.values()):
        return
    for guard in guards:
        for condition in conjuncts(typed(guard)):
            found = _bound(inputs, reader, condition)
            if found is not None:
                yield found


def runs(bounds: Sequence[StartBound]) -> Iterator[Run]:
    """The runs that some bounds make, two for each."""
    for low in bounds:
        for high in bounds:
            if not low.lower or high.lower or low.start != high.start or not _is_zero(low.form.sub(high.form)):
                continue
            if _is_zero(sets.plus(low.index, 1).sub(high.index)):
                yield Run(low.start, low.index, low.form, (low.condition, high.condition))


def runs_of_values(algorithm: Algorithm, declared: Computation) -> list[Run]:
    """The runs that a computation's values are in."""
    space = declared.domain.get_space()
    reader = Affine(space, dict(zip(declared.iterators, sets.variables(space), strict=True)))
    return list(runs(list(start_bounds(algorithm.inputs, reader, declared.guards))))


def stored_axes(algorithm: Algorithm, declared: Computation) -> tuple[int, ...]:
    """The indices of a computation's values by which its own array holds them: without those that others tell."""
    axes = range(len(declared.iterators))
    if declared.name in algorithm.by_index or declared.stage is not None or declared.shape is not None:
        return tuple(axes)
    told = set(told_axes(algorithm, declared))
    for place in table_places(algorithm, declared):
        if place.place not in told:
            told |= set(place.rows)
    return tuple(axis for axis in axes if axis not in told)


def told_axes(algorithm: Algorithm, declared: Computation) -> dict[int, tuple[int, str]]:
    """The indices of a computation's values that are rows of runs, each with that of the position and the starts."""
    told: dict[int, tuple[int, str]] = {}
    for run in runs_of_values(algorithm, declared):
        row, position = _axis(run.row), _axis(run.position)
        if row is not None and position is not None and row not in told and _end(told, position) != row:
            told[row] = position, run.start
    return told


@dataclass(frozen=True, eq=False)
class TablePlace:
    """``table[rows] == place``, of a table of distinct places: indices of a computation's values, by their axes."""

    table: Input
    rows: tuple[int, ...]
    place: int
    condition: Expr


def table_places(algorithm: Algorithm, declared: Computation) -> list[TablePlace]:
    """The indices of a computation's values that are elements of tables of distinct places."""
    tables = {each.name for each in algorithm.inputs.values() if each.injective}
    if not tables or declared.is_reduction or declared.stage is not None:
        return []
    space = declared.domain.get_space()
    reader = Affine(space, dict(zip(declared.iterators, sets.variables(space), strict=True)))
    found: list[TablePlace] = []
    for condition in (typed(part) for guard in declared.guards for part in conjuncts(typed(guard))):
        if isinstance(condition, Binary) and condition.op == "==":
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                element = narrowest(side)
                if isinstance(element, Access) and element.source in tables:
                    place = _table_place(algorithm.inputs[element.source], reader, element, other)
                    found += [] if place is None else [replace(place, condition=condition)]
    return found


def _table_place(table: Input, reader: Affine, element: Access, other: Expr) -> TablePlace | None:
    """The axes that an element of a table and its place are; None where they are other forms."""
    if not all(map(is_exact, (*element.indices, other))):
        return None
    try:
        rows, place = [_axis(reader.single(index)) for index in element.indices], _axis(reader.single(other))
    except NotAffine:
        return None
    known = tuple(row for row in rows if row is not None)
    if place is None or len(known) < len(rows) or len({place, *known}) < len(rows) + 1:
        return None
    return TablePlace(table, known, place, other)


def element_of(algorithm: Algorithm, declared: Computation, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """The element of its own array that holds a computation's value at some indices."""
    if declared.shape is not None:
        return tuple(indices)
    axes = stored_axes(algorithm, declared)
    lows = first_indices(declared.domain, algorithm.context, axes)
    return tuple(
        indices[axis] if isinstance(low, Const) and low.value == 0 else binary("-", indices[axis], low)
        for axis, low in zip(axes, lows, strict=True)
    )


def _end(told: Mapping[int, tuple[int, str]], axis: int) -> int:
    """The axis that tells an axis, in the end."""
    while axis in told:
        axis, _ = told[axis]
    return axis


def _bound(inputs: Mapping[str, Input], reader: Affine, condition: Expr) -> StartBound | None:
    if not isinstance(condition, Binary) or condition.op not in _MIRRORED:
        return None
    for op, side, other in (
        (condition.op, condition.left, condition.right),
        (_MIRRORED[condition.op], condition.right, condition.left),
    ):
        element = narrowest(side)
        declared = inputs.get(element.source) if isinstance(element, Access) else None
        if not isinstance(element, Access) or declared is None or not declared.monotone or len(declared.shape) != 1:
            continue
        if not all(map(is_exact, (*element.indices, other))):
            return None
        try:
            index, form = reader.single(element.indices[0]), reader.single(other)
        except NotAffine:
            return None
        lower = op in ("<", "<=")  # element < form, or element <= form
        shifted = {"<": -1, "<=": 0, ">": 0, ">=": 1}[op]  # form < element + shifted, or element <= form + shifted
        return StartBound(declared.name, index, sets.plus(form, shifted if lower else -shifted), lower, condition)
    return None


def is_number_of_run(algorithm: Algorithm, index: Expr, start: str, position: Expr) -> bool:
    """Whether an index is the number of the run that a position is in: ``rows.of(p)``."""
    number = narrowest(index)
    if not isinstance(number, Access) or algorithm.runs_numbered(number.source) != start:
        return False
    return narrowest(number.indices[0]).same_as(narrowest(position))


def is_run_of_position(algorithm: Algorithm, guard: Expr) -> bool:
    """Whether conditions bound a position by the run that it is in: ``start[of[p]] <= p``, ``p < start[of[p] + 1]``.

    Here `of` are the values that are declared to be the runs of positions.
    """
    return all(_bounds_own_run(algorithm, each) for each in conjuncts(typed(guard)))


def _bounds_own_run(algorithm: Algorithm, condition: Expr) -> bool:
    if not isinstance(condition, Binary) or condition.op not in _MIRRORED:
        return False
    for op, side, other in (
        (condition.op, condition.left, condition.right),
        (_MIRRORED[condition.op], condition.right, condition.left),
    ):
        element = narrowest(side)
        if not isinstance(element, Access) or len(element.indices) != 1 or element.source not in algorithm.inputs:
            continue
        index: Expr = narrowest(element.indices[0])
        end = isinstance(index, Binary) and index.op == "+"
        if isinstance(index, Binary):
            if not (end and isinstance(index.right, Const) and index.right.value == 1):
                continue
            index = narrowest(index.left)
        if not isinstance(index, Access) or algorithm.runs_numbered(index.source) != element.source:
            continue
        position = narrowest(index.indices[0])
        return narrowest(other).same_as(position) and op == (">" if end else "<=")
    return False


def is_exact(e: Expr) -> bool:
    """Whether the arithmetic of an expression of iterators and parameters is in 64 bits, where it never wraps."""
    operations = (node for node in walk(e) if isinstance(node, Binary | Unary | Iter))
    return all(node.dtype == int64 or node.dtype.weak for node in operations)


def _is_zero(form: isl.Aff) -> bool:
    return bool(form.plain_is_zero())


def _axis(form: isl.Aff) -> int | None:
    """The dimension that a form is, up to its sign and a form of the sizes; None for other forms."""
    taken = sets.terms(form)
    used = [axis for axis, factor in enumerate(taken.dims) if factor]
    if taken.denominator != 1 or taken.divs or len(used) != 1 or abs(taken.dims[used[0]]) != 1:
        return None
    return used[0]
