"""The distribution of an array of the caller: which rank holds which elements."""

from __future__ import annotations

from dataclasses import field

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.extents_from_arguments import params_of
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.records import dataclass


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
        """The position of an index in its rank's part, counted from 0."""
        if self.cycle is None:
            return sets.modulo(index, self.block)
        whole = sets.scaled(sets.floor_div(index, self.block * self.cycle), self.block)
        return whole.add(sets.modulo(index, self.block))

    def owners(self, space: isl.Space) -> isl.Map:
        """``indices -> coordinate`` of the rank that holds them."""
        return sets.graph(sets.function(space, None, [self.owner(sets.variables(space)[self.dim])]))


@dataclass(frozen=True)
class Pieces:
    """A dimension of an array is cut at points, forms of parameters; each piece is on a rank.

    A piece has the indices below its point that no earlier piece has, and the last piece has all others; points that
    are out of order, or beyond the array, make pieces empty. `words` are the points as the user wrote them, by which
    cuts are compared.
    """

    dim: int
    points: tuple[Expr, ...] = field(compare=False)
    ranks: tuple[int, ...]
    words: tuple[str, ...]

    def parts(self, space: isl.Space) -> list[isl.Set]:
        """The indices of each piece."""
        reader, index = Affine(space, {}), sets.variables(space)[self.dim].to_pw_aff()
        rest, found = sets.universe(space), []
        for point in self.points:
            below = sets.as_set(index.lt_set(reader.value(point)))
            found.append(rest.intersect(below).coalesce())
            rest = rest.subtract(below)
        return [*found, rest.coalesce()]

    def owners(self, space: isl.Space) -> isl.Map:
        """``indices -> coordinate`` of the rank that holds them."""
        held = zip(self.ranks, self.parts(space), strict=True)
        return sets.union_of(
            sets.graph(sets.function(space, None, [sets.constant(space, rank)]), piece) for rank, piece in held
        )


@dataclass(frozen=True, eq=False)
class Blocks:
    """Each rank has one block of the numbers from 0 up to `extent`: from parameter `lower` up to parameter `upper`.

    Their values differ by rank, and are known when the function is called. The blocks of rank 0, 1, ... follow one
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
Spread = Dealt | Pieces | OwnBlock | int | None


@dataclass(frozen=True)
class Distribution:
    """How ranks hold an array of the caller, along each axis of the process grid.

    On a rank the caller's array has, in each dimension, the indices that are dealt to it, without gaps; a rank that
    holds nothing passes an empty array.
    """

    axes: tuple[Spread, ...]

    def dealt(self, dim: int) -> tuple[int, Dealt | Pieces] | None:
        """The axis along which a dimension is dealt out, and how; None for a dimension that is kept whole."""
        for axis, spread in enumerate(self.axes):
            if isinstance(spread, Dealt | Pieces) and spread.dim == dim:
                return axis, spread
        return None

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of which a rank has a part; also the first, if one coordinate holds the array."""
        parted = {spread.dim for spread in self.axes if isinstance(spread, Dealt | Pieces | OwnBlock)}
        return tuple(sorted(parted | {0 for spread in self.axes if isinstance(spread, int)}))

    @property
    def params(self) -> frozenset[str]:
        """The parameters at which dimensions are cut."""
        points = [point for spread in self.axes if isinstance(spread, Pieces) for point in spread.points]
        return frozenset().union(*map(params_of, points))

    @property
    def in_blocks(self) -> int | None:
        """The dimension of which each rank has its own block; None where there is none."""
        return next((spread.dim for spread in self.axes if isinstance(spread, OwnBlock)), None)

    def holders(self, indices: isl.Set, ranks: isl.Set) -> isl.Map:
        """``indices -> coordinates of a rank`` that holds them; `ranks` are all the ranks there are."""
        space = indices.get_space()
        pairs = isl.Map.from_domain_and_range(indices, ranks)
        for axis, spread in enumerate(self.axes):
            if spread is None or isinstance(spread, OwnBlock):
                continue
            owners = _always(space, spread) if isinstance(spread, int) else spread.owners(space)
            pairs = pairs.intersect(_with_coordinate(owners, ranks.get_space(), axis))
        return pairs


def _always(space: isl.Space, coordinate: int) -> isl.Map:
    return sets.graph(sets.function(space, None, [sets.constant(space, coordinate)]))


def _with_coordinate(owners: isl.Map, ranks: isl.Space, axis: int) -> isl.Map:
    """``indices -> rank``: the ranks whose coordinate along an axis is among the owners of the indices."""
    coordinate = sets.graph(sets.function(ranks, None, [sets.variables(ranks)[axis]]))
    return owners.apply_range(coordinate.reverse())
