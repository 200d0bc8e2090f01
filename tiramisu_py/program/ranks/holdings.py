"""The parts of a whole array that ranks hold, at given sizes: for callers that have the whole, and for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.program.machine.distribution import Dealt, Distribution, Pieces

Array = npt.NDArray[Any]


def coordinates_of(rank: int, grid: Sequence[int]) -> tuple[int, ...] | None:
    """The coordinates of a rank in a process grid, the last axis running fastest; None beyond the grid."""
    size = int(np.prod(grid, dtype=np.int64))
    return tuple(int(x) for x in np.unravel_index(rank, grid)) if rank < size else None


def held(
    distribution: Distribution, shape: Sequence[int], at: Sequence[int] | None, params: Mapping[str, int] = {}
) -> list[Array]:
    """For each dimension, the indices that the rank at some coordinates holds; `params` are those of its points.

    A rank beyond the grid holds nothing: no indices of the dimensions that are dealt out, or of the first one.
    """
    nothing = _nothing(distribution, at)
    chosen: list[Array] = []
    for dim, extent in enumerate(shape):
        indices = np.arange(extent)
        dealt = distribution.dealt(dim)
        if dim in (distribution.dims or (0,)) if at is None else nothing and dim == 0:
            indices = indices[:0]
        elif dealt is not None and at is not None and not nothing:
            axis, spread = dealt
            indices = indices[_owners(spread, indices, params) == at[axis]]
        chosen.append(indices)
    return chosen


def _nothing(distribution: Distribution, at: Sequence[int] | None) -> bool:
    """Whether a rank is beyond the grid, or not where the whole array is."""
    return at is None or any(isinstance(s, int) and s != x for s, x in zip(distribution.axes, at, strict=True))


def _owners(spread: Dealt | Pieces, indices: Array, params: Mapping[str, int]) -> Array:
    if isinstance(spread, Pieces):
        below = [indices < extent_value(point, params) for point in spread.points]
        return np.select([*below, indices >= 0], list(spread.ranks))
    number = indices // spread.block
    return number if spread.cycle is None else number % spread.cycle


def part(distribution: Distribution, whole: Array, at: Sequence[int] | None, params: Mapping[str, int] = {}) -> Array:
    """The part of a whole array that the rank at some coordinates holds, as a new array.

    An array without dimensions has one element on every rank; on one that does not hold it, it is unused.
    """
    return np.array(whole[np.ix_(*held(distribution, whole.shape, at, params))], order="C")


def joined(
    distribution: Distribution,
    parts: Sequence[Array],
    grid: Sequence[int],
    whole: Array,
    params: Mapping[str, int] = {},
) -> Array:
    """The whole array of the parts that the ranks of a grid hold, in the order of ranks; `whole` is overwritten."""
    for at, mine in zip(product(*map(range, grid)), parts, strict=False):
        if whole.ndim or not _nothing(distribution, at):
            whole[np.ix_(*held(distribution, whole.shape, at, params))] = mine
    return whole
