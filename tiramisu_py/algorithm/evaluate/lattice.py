"""The elements of a set as NumPy columns, in lexicographic order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import islpy as isl
import numpy as np
import numpy.typing as npt

from tiramisu_py import sets

Column = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Bounds of one dimension for each of some prefixes: ``(axis, columns so far) -> (least, largest)``, None for no bound.
Clip = Callable[[int, Sequence[Column]], tuple[Column | None, Column | None]]


class Lattice:
    """A finite set at given parameter values, ready to be listed one dimension after another."""

    def __init__(self, of: isl.Set, params: Mapping[str, int]) -> None:
        whole = sets.fixed(of, params)
        self.size = sets.size(whole)
        self.is_empty = bool(whole.is_empty())
        prefixes = [sets.project_prefix(whole, depth) for depth in range(self.size + 1)]
        self._spans = [sets.interval(prefix, axis) or (0, -1) for axis, prefix in enumerate(prefixes[1:])]
        self._parts = [sets.floors_and_rows(prefix) for prefix in prefixes]

    def span(self, axis: int) -> tuple[int, int]:
        """The least and the largest coordinate of one dimension (least > largest if the set is empty)."""
        return self._spans[axis]

    def elements(self, clip: Clip | None = None) -> list[Column]:
        """The columns of all elements; a set without dimensions has none (see `is_empty`)."""
        return self.extended([], 1, self.size, clip)[0]

    def extended(
        self, columns: Sequence[Column], count: int, depth: int, clip: Clip | None = None
    ) -> tuple[list[Column], Column]:
        """All extensions of `count` prefixes to `depth` dimensions, and the position of the prefix of each."""
        if self.is_empty:
            return [np.arange(0)] * depth, np.arange(0)
        current, origin = list(columns), np.arange(count)
        for axis in range(len(current), depth):
            grown, parent = self._grown(axis, current, len(origin), clip)
            inside = self.contains(grown)
            current, origin = [column[inside] for column in grown], origin[parent[inside]]
        return current, origin

    def counts(self, axis: int, columns: Sequence[Column], count: int, clip: Clip | None = None) -> Column:
        """An upper bound on the number of coordinates of dimension `axis`, for each prefix."""
        low, high = self._bounds(axis, columns, count, clip)
        found: Column = np.maximum(high - low + 1, 0)
        return found

    def _bounds(self, axis: int, columns: Sequence[Column], count: int, clip: Clip | None) -> tuple[Column, Column]:
        least, largest = self._spans[axis]
        low, high = np.full(count, least), np.full(count, largest)
        lines = [_line(floors, rows, axis, columns) for floors, rows in self._parts[axis + 1] if columns]
        lows, highs = ([end for line in lines if (end := line[side]) is not None] for side in (0, 1))
        if lines and len(lows) == len(lines):
            low = np.maximum(low, functools.reduce(np.minimum, lows))
        if lines and len(highs) == len(lines):
            high = np.minimum(high, functools.reduce(np.maximum, highs))
        if clip is not None:
            lower, upper = clip(axis, columns)
            low = low if lower is None else np.maximum(low, lower)
            high = high if upper is None else np.minimum(high, upper)
        return low, high

    def _grown(
        self, axis: int, columns: Sequence[Column], count: int, clip: Clip | None
    ) -> tuple[list[Column], Column]:
        low, high = self._bounds(axis, columns, count, clip)
        counts = np.maximum(high - low + 1, 0)
        parent = np.repeat(np.arange(count), counts)
        first = np.cumsum(counts) - counts
        added = np.arange(len(parent)) - np.repeat(first - low, counts)
        return [*(column[parent] for column in columns), added], parent

    def contains(self, columns: Sequence[Column]) -> Mask:
        """Whether each tuple, of all dimensions or of the first few, is in (the projection of) the set."""
        parts = self._parts[len(columns)]
        if not columns:
            return np.full(1, bool(parts))
        inside = np.zeros(len(columns[0]), dtype=np.bool_)
        for floors, rows in parts:
            inside |= _satisfied(floors, rows, columns)
        return inside


def _line(
    floors: Sequence[tuple[sets.Row, int]], rows: Sequence[tuple[sets.Row, bool]], axis: int, columns: Sequence[Column]
) -> tuple[Column | None, Column | None]:
    """Bounds of a dimension by those before it, where constraints relate them: one value where it is ``7 i == k``.

    ``c x + rest >= 0`` gives ``x >= ceil(-rest / c)`` for c > 0. Constraints with integer parts of x say less.
    """
    low: Column | None = None
    high: Column | None = None
    known: list[Column | None] = [*columns, None]
    for (coefficients, constant), divisor in floors:
        rest = _known_row((coefficients, constant), known)
        known.append(None if rest is None or coefficients[axis] else rest // divisor)
    for (coefficients, constant), is_equality in rows:
        c, others = coefficients[axis], [*coefficients[:axis], 0, *coefficients[axis + 1 :]]
        rest = _known_row((tuple(others), constant), known) if c and any(others) else None
        if rest is None:
            continue
        if c > 0 or is_equality:
            least = -(rest // c) if c > 0 else -(-rest // -c)
            low = least if low is None else np.maximum(low, least)
        if c < 0 or is_equality:
            largest = rest // -c if c < 0 else -rest // c
            high = largest if high is None else np.minimum(high, largest)
    return low, high


def _known_row(row: sets.Row, columns: Sequence[Column | None]) -> Column | None:
    """The value of a form; None if it needs a column that is not known."""
    coefficients, _ = row
    if any(c and column is None for c, column in zip(coefficients, columns, strict=False)):
        return None
    given = next(column for column in columns if column is not None)
    found: Column = _row(row, [given if column is None else column for column in columns])
    return found


def _satisfied(
    floors: Sequence[tuple[sets.Row, int]], rows: Sequence[tuple[sets.Row, bool]], columns: Sequence[Column]
) -> Mask:
    known = list(columns)
    for row, divisor in floors:
        known.append(_row(row, known) // divisor)
    inside = np.ones(len(columns[0]), dtype=np.bool_)
    for row, is_equality in rows:
        value = _row(row, known)
        inside &= (value == 0) if is_equality else (value >= 0)
    return inside


def _row(row: sets.Row, columns: Sequence[Column]) -> Any:
    coefficients, constant = row
    value: Any = np.full(len(columns[0]), constant)
    for coefficient, column in zip(coefficients, columns, strict=False):
        if coefficient:
            value = value + coefficient * column
    return value
