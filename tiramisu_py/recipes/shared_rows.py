"""Rows of a product in shared memory: the threads of a block gather them once, and each then reads them from there."""

from __future__ import annotations

from math import prod

from tiramisu_py import SHARED, Computation, Iter, Reduction
from tiramisu_py.queries import accesses, extents, iterators
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.tiled_sums import free_name
from tiramisu_py.records import dataclass

#: The most bytes of rows that a block keeps: all blocks of 256 threads that an A100 has at a time have room for them.
MOST_BYTES = 16 << 10


@dataclass(frozen=True, eq=False)
class SharedRows:
    """The rows that the threads of a block read of a factor, as values of their own."""

    recipe: Recipe
    rows: Computation
    position: Iter

    @classmethod
    def fetched(cls, recipe: Recipe, sums: Reduction, position: str, tile: int, most: int) -> SharedRows | None:
        """The rows that all columns of `tile` positions of a product share; None where a block cannot keep them.

        Give it before other commands on `sums`. A block keeps `most` bytes. The rows have the terms of a position, and
        not the column; a value that the columns of one position alone read is none.
        """
        f = recipe.function
        declared = f.program.algorithm.computations[sums.name]
        known = dict(zip(declared.point_iterators, extents(declared, terms=True), strict=True))
        for read in accesses(declared.expr):
            depends = iterators(read)
            if not {position, *declared.over} <= depends or declared.iterators[-1] in depends:
                continue
            sizes = [known[name] or most for name in depends - {position}]
            if tile * prod(sizes) * read.dtype.bytes > most:
                continue
            rows = sums.fetch(f[read.source], free_name(f, f"{read.source}_rows"))
            return cls(recipe, rows, Iter(position))
        return None

    def placed(self, reader: Computation, block: Iter, across: int, columns: int) -> str:
        """Gather the rows of each iteration of `block`, on ``across x columns`` threads; what was done, in words."""
        rows = self.rows
        *_, last = map(Iter, self.recipe.function.program.algorithm.computations[rows.name].iterators)
        rows.compute_at(reader, block)
        rows.store_in(SHARED)
        turn, row, part, own = (self.recipe.fresh(f"{rows.name}_{each}") for each in ("turn", "row", "part", "own"))
        rows.split(self.position, across, turn, row)
        rows.split(last, columns, part, own)
        rows.tag_gpu(threads=[row, own])
        return f"{rows.name} of a block in shared memory"
