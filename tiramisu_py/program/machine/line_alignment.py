"""Rows read from the beginnings of cache lines: which value of a row each iteration of a loop computes.

Of a row of `extent` values, the iteration c of a loop computes the value

    (c + s) % extent                     by="shift", where s = (x - c - row) % lanes
    c - s, if that is in the row         by="line", where s = (row - (x - c)) % lanes, for c in 0..width

`lanes` elements are a line of memory, `row` is the place of the row's first element in its array, counted in elements,
and x is the number of the thread in its block. So the thread x reads an element whose place is x, plus a multiple of
`lanes`: threads that are neighbours in a line of threads read one line of memory. For each row this is a permutation of
its values, since s depends on the row alone; iterations that have none compute nothing.
"""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class LineAlignment:
    """The alignment of a statement's loop over `iterator` to lines of `bytes` bytes of the array `source`.

    `row` is the place of the first element that a row reads; `lanes` elements are in a line. The row has `extent`
    values, and the loop `width` iterations.
    """

    iterator: str
    source: str
    bytes: int
    by: str
    row: Expr
    lanes: int
    extent: int

    @property
    def width(self) -> int:
        """The iterations of the loop: those of the row, and of lines that it may begin in the middle of."""
        if self.by == "shift":
            return self.extent
        return -(-(self.extent + self.lanes - 1) // self.lanes) * self.lanes


def with_width(instances: isl.Set, axis: int, extent: int, width: int) -> isl.Set | None:
    """Instances with `width` in place of `extent` values along a dimension; None unless they are whole rows of it."""
    whole = sets.freed(instances, axis)
    variable = sets.variables(whole.get_space())[axis]
    if not whole.intersect(sets.within(variable, 0, extent)).is_equal(instances):
        return None
    return whole.intersect(sets.within(variable, 0, width))
