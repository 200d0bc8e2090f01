"""Sums that read earlier values of their own group, such as factors of matrices, in tiles of registers.

::

    for i, j:                                   for each block of a diagonal, and each tile i0, j0 in it:
        for k: s[i, j] += a[i, k] * a[k, j]         s[tile] = 0
        a[i, j] = A[i, j] - s[i, j]       -->       for k:
                                                        a[i, k], a[k, j], where they are in the tile
                                                        s[tile] += a[tile's i, k] * a[k, tile's j]

A tile has all terms of its sums. The last of them are elements that it makes itself: a step k makes a row or a column
of the tile, if that is its own, before it adds to the tile. Which of them, the reads say: an element is made in the
step in which a term reads it. Tiles may be in this order if no element reads one that is further down, or further to
the right; so threads share the blocks of a diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiramisu_py import Expr, Function, Iter
from tiramisu_py import sum as sum_
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.single.contractions import in_tiles
from tiramisu_py.errors import CommandError
from tiramisu_py.queries import Access, Role, Select, Statement, accesses, kinds, meets, reads_backwards
from tiramisu_py.records import dataclass

#: The vectors of a row of a tile, and the tiles of a block each way.
VECTORS, TILES = 2, 12


@dataclass(frozen=True)
class FactorTile:
    """The sum and the value of a group, their iterators, and the size of a tile."""

    total: str
    value: str
    row: str
    column: str
    term: str
    rows: int
    columns: int
    lanes: int


@dataclass(frozen=True)
class _TileLoops:
    """The loops of tiles: over the blocks of a diagonal, the tiles of a block, terms, and the elements of a tile."""

    size: FactorTile
    diagonal: Iter
    block: Iter
    across: Iter
    tile: Iter
    term: Iter
    row: Iter
    column: Iter

    @classmethod
    def of(cls, fresh: Fresh, size: FactorTile) -> _TileLoops:
        names = (
            "diagonal",
            "block",
            f"{size.column}0",
            f"{size.row}0",
            f"{size.term}0",
            f"{size.row}1",
            f"{size.column}1",
        )
        return cls(size, *map(fresh, names))

    def outer(self, i: Iter, j: Iter) -> dict[Iter, Expr]:
        """The loops outside of all terms, for an element of row i and column j."""
        high, wide = i // (TILES * self.size.rows), j // (TILES * self.size.columns)
        tile = {self.across: j // self.size.columns, self.tile: i // self.size.rows}
        return {self.diagonal: high + wide, self.block: high, **tile}

    def in_row(self, i: Iter) -> dict[Iter, Expr]:
        """The loop over the rows of a tile."""
        return {self.row: i % self.size.rows}

    def in_column(self, j: Iter) -> dict[Iter, Expr]:
        """The loop over the columns of a tile."""
        return {self.column: j % self.size.columns}


def factored(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a group of one sum, over one iterator, and one value of the same two iterators that reads it."""
    found = _tile_of(problem, members_of(problem, name))
    if found is None:
        return
    work = in_tiles(problem, found.total, found.rows * VECTORS)
    shape = f"{found.rows} {found.row} by {found.columns} {found.column}"
    yield Offer(
        name, f"tiles of {shape} in registers, with all {found.term}",
        f"terms of {found.total} are values of {found.value} above and to the left: a tile makes its own as it goes",
        lambda function: _apply(function, found), (found.total, found.value), work, is_tiled=True,
    )  # fmt: skip


def _tile_of(problem: Problem, names: Sequence[str]) -> FactorTile | None:
    if len(names) != 2:
        return None
    sums = [each for each in names if problem.computation(each).is_reduction]
    if len(sums) != 1:
        return None
    (total,) = sums
    (value,) = (each for each in names if each != total)
    declared, made = problem.computation(total), problem.computation(value)
    if declared.op is not sum_ or declared.ordered or declared.guards or made.guards or len(declared.over) != 1:
        return None
    if len(made.iterators) != 2 or made.iterators != declared.iterators or not problem.is_pointwise(value, total):
        return None
    if not problem.is_recurrent(value) or total in problem.algorithm.outputs or problem.readers[total] != (value,):
        return None
    row, column = made.iterators
    own = problem.reads_of(total, value)
    if (
        len(own) < 2
        or any(len(touch.alone or ()) != 2 for touch in own)
        or not all(reads_backwards(declared, each.access) for each in own)
    ):
        return None
    rows, lanes = problem.cpu.rows_of_sums(VECTORS), problem.lanes(total)
    return FactorTile(total, value, row, column, declared.over[0], rows, VECTORS * lanes, lanes)


def _apply(function: Function, size: FactorTile) -> None:
    total: Any = function[size.total]
    value: Any = function[size.value]
    fresh = Fresh(function)
    (update,) = (each for each in function.program.statements_of(size.total) if each.role is Role.UPDATE)
    parts: list[Any] = [value]
    if Select in kinds(function.program.algorithm.computations[size.value].expr):
        (made,) = function.program.statements_of(size.value)
        parts = list(value.separate_cases(Iter(function.program.loop_names(made)[-1])))
    reads = [each for each in accesses(update.body) if each.source == size.value]
    statements = {each: function.program.statements[each.statement_names()[0]] for each in parts}
    parts = _readers_last(parts, statements, size.value)
    in_rows = {each: _is_read_by_row(statements[each], update, reads, size) for each in parts}
    loops = _TileLoops.of(fresh, size)
    i, j, k = Iter(size.row), Iter(size.column), Iter(size.term)
    inside = {**loops.in_row(i), **loops.in_column(j)}
    total.init.set_schedule({**loops.outer(i, j), **inside})
    total.update.set_schedule({**loops.outer(i, j), loops.term: k, **inside})
    for each in parts:
        x, y = map(Iter, statements[each].dims)
        own = {loops.term: x, **loops.in_column(y)} if in_rows[each] else {loops.term: y, **loops.in_row(x)}
        each.set_schedule({**loops.outer(x, y), **own})
    copies = []
    for read in reads:
        if read.indices[0].key() == Iter(size.column).key():
            x, y = fresh("x"), fresh("y")
            copies.append(total.update.copy(value, [x, y], layout=[y, x]))
            copies[-1].set_schedule({**loops.outer(x, y), loops.term: y, **loops.in_row(x)})
    function.order(total.init, parts[0], at=loops.tile)
    function.order(*parts, *copies, total.update, at=loops.term)
    total.store_at(total.update, loops.tile)
    for each in (total.init, total.update):
        each.unroll(loops.row)
    for each in (total.init, total.update, *(part for part in parts if in_rows[part])):
        each.vectorize(loops.column, size.lanes, remainder="mask")
    total.update.parallelize(loops.block)


def _readers_last(parts: Sequence[Any], statements: Mapping[Any, Statement], value: str) -> list[Any]:
    """The parts of a value so that each comes after those whose elements it reads; raises `CommandError`."""
    left, found = list(parts), []
    while left:
        ready = []
        for each in left:
            others = [statements[other] for other in left if other is not each]
            if not any(_reads(statements[each], value, other) for other in others):
                ready.append(each)
        if not ready:
            raise CommandError(f"the cases of {value} read each other: none of them can come first in a step")
        found += ready
        left = [each for each in left if each not in ready]
    return found


def _reads(statement: Statement, value: str, other: Statement) -> bool:
    """Whether a statement reads some of the elements of a value that another one has."""
    return any(meets(statement, each, other) for each in accesses(statement.body) if each.source == value)


def _is_read_by_row(statement: Statement, update: Statement, reads: Sequence[Access], size: FactorTile) -> bool:
    """Whether a term with the number of a row reads the elements of this case, not one with that of a column."""
    axes = set()
    for read in reads:
        if meets(update, read, statement):
            axes.add([index.key() for index in read.indices].index(Iter(size.term).key()))
    if len(axes) > 1:
        raise CommandError(f"terms of {size.total} read the same elements of {size.value} as rows and as columns")
    return axes == {0}
