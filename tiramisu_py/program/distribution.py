"""Which rank holds which elements of an array of the caller."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr


@dataclass(frozen=True)
class Dealt:
    """A dimension of an array is dealt out along an axis of the process grid, in blocks of `block` indices.

    With a `cycle`, the blocks go round that many ranks again and again (block-cyclic); otherwise each rank has one.
    """

    dim: int
    block: int
    cycle: int | None = None

    def owner(self, index: isl.Aff) -> isl.Aff:
        """The coordinate of the rank that holds an index."""
        number = sets.floor_div(index, self.block)
        return number if self.cycle is None else sets.modulo(number, self.cycle)

    def local(self, index: isl.Aff) -> isl.Aff:
        """Where its rank holds an index, counted from 0."""
        if self.cycle is None:
            return sets.modulo(index, self.block)
        whole = sets.scaled(sets.floor_div(index, self.block * self.cycle), self.block)
        return whole.add(sets.modulo(index, self.block))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Each rank has one block of the numbers from 0 up to `extent`: from parameter `lower` up to parameter `upper`.

    Their values are each rank's own, known when the function is called. The blocks of rank 0, 1, ... follow one
    another and cover all numbers; where there are several, each has at least `least` numbers. Ranks after the last
    block have nothing to do.
    """

    lower: str
    upper: str
    extent: Expr
    least: int = 1

    @property
    def bounds(self) -> tuple[str, str]:
        """The names of the two parameters."""
        return self.lower, self.upper


@dataclass(frozen=True)
class OwnBlock:
    """A dimension of an array is dealt out as `Blocks` say: each rank has the indices of its own block."""

    dim: int


#: Along one axis of the grid: a dimension that is dealt out; the one coordinate that holds the array; all (None).
Spread = Dealt | OwnBlock | int | None


@dataclass(frozen=True)
class Distribution:
    """How an array of the caller is held by the ranks: along each axis of the process grid.

    On a rank the caller's array has, in each dimension, the indices that are dealt to it, without gaps; a rank that
    holds nothing passes an empty array.
    """

    axes: tuple[Spread, ...]

    def dealt(self, dim: int) -> tuple[int, Dealt] | None:
        """The axis along which a dimension is dealt out, and how; None for a dimension that is kept whole."""
        for axis, spread in enumerate(self.axes):
            if isinstance(spread, Dealt) and spread.dim == dim:
                return axis, spread
        return None

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of which a rank has a part: at least the first where one coordinate holds the array."""
        parted = {spread.dim for spread in self.axes if isinstance(spread, Dealt | OwnBlock)}
        return tuple(sorted(parted | {0 for spread in self.axes if isinstance(spread, int)}))

    @property
    def in_blocks(self) -> int | None:
        """The dimension of which each rank has its own block; None where there is none."""
        return next((spread.dim for spread in self.axes if isinstance(spread, OwnBlock)), None)

    def holders(self, indices: isl.Set, ranks: isl.Set) -> isl.Map:
        """``indices -> coordinates of a rank`` that holds them; `ranks` are all the ranks there are."""
        space = indices.get_space()
        variables = sets.variables(space)
        pairs = isl.Map.from_domain_and_range(indices, ranks)
        for axis, spread in enumerate(self.axes):
            if spread is None or isinstance(spread, OwnBlock):
                continue
            form = sets.constant(space, spread) if isinstance(spread, int) else spread.owner(variables[spread.dim])
            pairs = pairs.intersect(_with_coordinate(space, ranks.get_space(), axis, form))
        return pairs


def _with_coordinate(space: isl.Space, ranks: isl.Space, axis: int, form: isl.Aff) -> isl.Map:
    """``indices -> rank`` whose coordinate along an axis has a value."""
    wanted = sets.graph(sets.function(space, None, [form]))
    coordinate = sets.graph(sets.function(ranks, None, [sets.variables(ranks)[axis]]))
    return wanted.apply_range(coordinate.reverse())
