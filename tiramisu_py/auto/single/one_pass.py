"""Two sums over one matrix, along its rows and along its columns: a few rows at a time, read from memory once.

::

    for i, j: rows[i] += a[i, j] * x[j]               for each block of rows i0:
    for i, j: columns[j] += a[i, j] * y[i]      -->       for i in i0, j: rows[i] += a[i, j] * x[j]
                                                          for j, i in i0: columns[j] += a[i, j] * y[i]

The second sum may use the results of the first one, of the same row. In place of the first one there may be the values
of the matrix itself, which are then in the cache when they are added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tiramisu_py import Combine, Function, Iter, Memory
from tiramisu_py import sum as sum_
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import best_iterator
from tiramisu_py.queries import is_box, same_points
from tiramisu_py.records import dataclass

#: The rows of a block, and how many elements ahead the matrix is fetched.
ROWS, AHEAD = 8, 512


@dataclass(frozen=True)
class SumPair:
    """Sums along the columns of a matrix, with what is computed in the same rows: sums along them, or their values."""

    rows: str
    columns: str
    matrix: str
    row: str
    column: str


def one_pass(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a sum and the other one that reads the same matrix."""
    pair = pair_of(problem, name)
    if pair is None:
        return
    lanes = problem.lanes(pair.columns)
    both = pair.rows != pair.matrix
    place = None if both else problem.computation(pair.matrix).iterators
    found = (touch.access.source for touch in problem.touches(pair.rows) if touch.alone == place)
    read = [] if both else [each for each in dict.fromkeys(found) if each in problem.algorithm.inputs]
    reads = f"both read {pair.matrix}" if both else f"{pair.columns} reads {pair.matrix}"
    yield Offer(
        name, f"{pair.rows} and {pair.columns} of {ROWS} rows{f' of {pair.matrix}' if both else ''} at a time",
        f"{reads}: the rows are in the cache then",
        lambda function: _apply(function, pair, lanes, read), (pair.rows, pair.columns),
        problem.work(name, pair.column, lanes, stores=2 / ROWS, moved=0.5), is_tiled=True,
    )  # fmt: skip


def pair_of(problem: Problem, name: str) -> SumPair | None:
    """The pair that a sum is one of: the nearest other one that reads the same matrix the other way round."""
    for other in reversed(list(problem.algorithm.computations)):
        if other != name:
            found = _pair(problem, name, other) or _pair(problem, other, name)
            if found is not None:
                return found
    made = [each for each in problem.sources(name) if _makes(problem, each, name)]
    return SumPair(made[0], name, made[0], *_row_and_column(problem, name)) if made else None


def _makes(problem: Problem, matrix: str, columns: str) -> bool:
    """Whether a computation makes a matrix, each value by itself, whose columns are summed."""
    made = problem.computation(matrix)
    if made.is_reduction or made.group or made.guards or made.stage is not None or matrix in problem.given:
        return False
    if not _is_sum(problem, columns) or problem.is_recurrent(matrix) or len(made.iterators) != 2:
        return False
    place = _row_and_column(problem, columns)
    if not any(touch.alone == place for touch in problem.touches(columns) if touch.access.source == matrix):
        return False
    summed = problem.computation(columns)
    turned = summed.point_iterators[::-1]
    contiguous = best_iterator(problem.touches(matrix), made, made.iterators) == made.iterators[1]
    if not contiguous or not same_points(summed, turned, made, made.iterators):
        return False
    reads = problem.reads_of(columns, matrix)
    others = {
        each for source in problem.sources(columns) if source != matrix for each in (source, *_needed(problem, source))
    }
    return len(reads) == 1 and matrix not in others


def _row_and_column(problem: Problem, columns: str) -> tuple[str, str]:
    declared = problem.computation(columns)
    return declared.over[0], declared.iterators[0]


def _pair(problem: Problem, rows: str, columns: str) -> SumPair | None:
    if not _is_sum(problem, rows) or not _is_sum(problem, columns):
        return None
    of_rows, of_columns = problem.computation(rows), problem.computation(columns)
    (row,), (column,) = of_columns.over, of_columns.iterators
    reads = [
        touch.access.source for touch in problem.touches(rows) if touch.alone == (*of_rows.iterators, *of_rows.over)
    ]
    shared = [touch.access.source for touch in problem.touches(columns) if touch.alone == (row, column)]
    matrices = [each for each in reads if each in shared]
    if not matrices or of_rows.dtype != of_columns.dtype:
        return None
    if not same_points(of_columns, of_columns.point_iterators[::-1], of_rows, of_rows.point_iterators):
        return None
    used = {
        each for source in problem.sources(columns) if source != rows for each in (source, *_needed(problem, source))
    }
    if columns in _needed(problem, rows) or rows in used:
        return None
    if any([str(i) for i in read.access.indices] != [row] for read in problem.reads_of(columns, rows)):
        return None
    return SumPair(rows, columns, matrices[0], row, column)


def _is_sum(problem: Problem, name: str) -> bool:
    """Whether a computation is a sum in any order over one iterator, for the values of another one."""
    declared = problem.computation(name)
    if declared.op is not sum_ or declared.ordered or declared.guards or declared.group or name in problem.given:
        return False
    return len(declared.iterators) == len(declared.over) == 1 and is_box(declared)


def _needed(problem: Problem, name: str) -> set[str]:
    """All computations that one depends on."""
    found: set[str] = set()
    left = [name]
    while left:
        new = set(problem.sources(left.pop())) - found
        found |= new
        left += new
    return found


def _apply(function: Function, pair: SumPair, lanes: int, read: Collection[str]) -> None:
    """Both in blocks of rows; the matrix, or the arrays in `read` that its values are made of, is fetched ahead."""
    rows: Any = function[pair.rows]
    columns: Any = function[pair.columns]
    fresh = Fresh(function)
    outer, inner = fresh(f"{pair.row}0"), fresh(f"{pair.row}1")
    row, column = Iter(pair.row), Iter(pair.column)
    columns.update.split(row, ROWS, outer, inner)
    block = columns.update.rfactor(outer)
    columns.update.reorder(outer, column)
    columns.update.parallelize(outer, combine=Combine.PRIVATE)
    columns.update.vectorize(column, 2 * lanes, remainder="mask")
    block.compute_at(columns.update, column)
    block.store_in(Memory.REGISTER)
    block.update.unroll(row)
    first = rows
    own, along = _iterators(function, pair.rows)
    if pair.rows != pair.matrix:
        first = rows.update
    first.split(own, ROWS, outer, inner)
    first.parallelize(outer)
    if pair.rows != pair.matrix:
        first.vectorize(along, 4 * lanes, combine=Combine.PRIVATE)
        first.prefetch(function[pair.matrix], along, AHEAD)
    else:
        first.vectorize(along, lanes, remainder="mask")
        for source in read:
            first.prefetch(function[source], along, AHEAD)
    columns.update.after(first, outer)


def _iterators(function: Function, name: str) -> tuple[Iter, Iter]:
    """The iterators of a sum: of its value, and of its terms."""
    declared = function.program.algorithm.computations[name]
    own, along = declared.point_iterators
    return Iter(own), Iter(along)
