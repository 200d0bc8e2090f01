"""Super-blocks: blocks of a sparse matrix gathered into larger products, without a block that is not there.

A super-block is a list of rows and one of columns, which need not touch: every cell of them is a block. The largest one
that ends at a block is one more than the least of those at its neighbours, as in the square of ones of a bitmap; a
neighbour is the nearest block above, `i0`, or to the left, `j0`, and there must be none between them::

    q(i, j) = 1 + min(q(i0, j0), q(i0, j), q(i, j0))   if rows i0..i have no block strictly between columns j0 and j,
                                                       and columns j0..j none strictly between rows i0 and i
    q(i, j) = 1                                        otherwise

Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, algorithm 3, corrected: a super-block has the
rows and columns of the chain of neighbours, and what one has taken is no part of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.records import dataclass

Map = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SuperBlock:
    """The product of some block rows and some block columns, in increasing order, of one head."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    head: int = 0


def super_blocks(mask: Map, sizes: Sequence[int], head: int) -> list[SuperBlock]:
    """Super-blocks of the given `sizes`, in this order, that have each block of a map once; the last size is 1."""
    left = mask.copy()
    found: list[SuperBlock] = []
    for size in sizes:
        found += _of_size(left, size, head)
    return found


def _of_size(left: Map, size: int, head: int) -> list[SuperBlock]:
    """The super-blocks of one size, as they are met; their blocks are taken from the map."""
    if size == 1:
        some = [SuperBlock((int(i),), (int(j),), head) for i, j in np.argwhere(left)]
        left[...] = False
        return some
    above, before = _nearest_above(left), _nearest_above(left.T).T
    largest = np.zeros(left.shape, np.int64)
    taken = np.zeros(left.shape, bool)
    found = []
    for i, j in np.argwhere(left).tolist():
        i0, j0 = int(above[i, j]), int(before[i, j])
        largest[i, j] = 1
        # nothing between the neighbours: no row has a block to the left nearer than j0, no column one above i0
        if i0 >= 0 and j0 >= 0 and before[i0 : i + 1, j].max() <= j0 and above[i, j0 : j + 1].max() <= i0:
            largest[i, j] = 1 + min(largest[i0, j0], largest[i0, j], largest[i, j0])
        if largest[i, j] >= size:
            rows, columns = _chain(above[:, j], i, size), _chain(before[i], j, size)
            cells = np.ix_(rows, columns)
            if not taken[cells].any():
                taken[cells] = True
                found.append(SuperBlock(tuple(rows), tuple(columns), head))
    left &= ~taken  # not before: the sizes above are those of the whole map
    return found


def _nearest_above(mask: Map) -> npt.NDArray[np.int64]:
    """The row of the nearest block above each cell; -1 if there is none."""
    own = np.where(mask, np.arange(len(mask))[:, None], -1)
    found = np.full(mask.shape, -1, np.int64)
    if len(mask) > 1:
        found[1:] = np.maximum.accumulate(own, axis=0)[:-1]
    return found


def _chain(neighbour: npt.NDArray[Any], last: int, count: int) -> list[int]:
    """The last of a chain of neighbours and those before it, in increasing order."""
    found = [last]
    while len(found) < count:
        found.append(int(neighbour[found[-1]]))
    return found[::-1]
