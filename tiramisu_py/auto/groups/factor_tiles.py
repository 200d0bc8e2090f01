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

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, sum_
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Iter, Select
from tiramisu_py.algorithm.traversal import accesses, kinds
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.single.contractions import in_tiles
from tiramisu_py.errors import CommandError
from tiramisu_py.function import Function
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass

#: The rows of a tile, which is two vectors wide, with 32 registers and with fewer; and the tiles of a block each way.
MOST_ROWS, FEW_ROWS, VECTORS, TILES = 14, 5, 2, 12


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
    """The loops of tiles in the words of isl: those outside of all terms, and names and forms of those inside."""

    outer: str
    block: Iter
    tile: Iter
    term: Iter
    row: Iter
    column: Iter
    in_row: str
    in_column: str

    @classmethod
    def of(cls, fresh: Fresh, size: FactorTile) -> _TileLoops:
        diagonal, block = fresh("diagonal"), fresh("block")
        across, down = fresh(f"{size.column}0"), fresh(f"{size.row}0")
        row, column = fresh(f"{size.row}1"), fresh(f"{size.column}1")
        high, wide = f"floor(i / {TILES * size.rows})", f"floor(j / {TILES * size.columns})"
        outer = f"{diagonal.name} = {high} + {wide}, {block.name} = {high}"
        outer += f", {across.name} = floor(j / {size.columns}), {down.name} = floor(i / {size.rows})"
        return cls(
            outer, block, down, fresh(f"{size.term}0"), row, column,
            f"{row.name} = i mod {size.rows}", f"{column.name} = j mod {size.columns}",
        )  # fmt: skip


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
    own = [touch for touch in problem.touches(total) if touch.access.source == value]
    if (
        len(own) < 2
        or any(len(touch.alone or ()) != 2 for touch in own)
        or not _reads_before(declared, [each.access for each in own])
    ):
        return None
    rows = MOST_ROWS if problem.cpu.registers >= 32 else FEW_ROWS
    lanes = problem.lanes(total)
    return FactorTile(total, value, row, column, declared.over[0], rows, VECTORS * lanes, lanes)


def _reads_before(declared: Computation, reads: Sequence[Access]) -> bool:
    """Whether all elements that terms read are in rows above or the same, and in columns to the left or the same."""
    reader = Affine(declared.points.get_space())
    for read in reads:
        for index, own in zip(read.indices, declared.iterators, strict=True):
            try:
                place, here = reader.single(index), reader.single(Iter(own))
            except NotAffine:
                return False
            if not declared.points.is_subset(place.le_set(here)):
                return False
    return True


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
    inside = f"{loops.in_row}, {loops.in_column}"
    total.init.set_schedule(f"{{ [i, j] -> [{loops.outer}, {inside}] }}")
    total.update.set_schedule(f"{{ [i, j, k] -> [{loops.outer}, {loops.term.name} = k, {inside}] }}")
    in_column = f"{{ [i, j] -> [{loops.outer}, {loops.term.name} = j, {loops.in_row}] }}"
    for each in parts:
        in_row = f"{{ [i, j] -> [{loops.outer}, {loops.term.name} = i, {loops.in_column}] }}"
        each.set_schedule(in_row if in_rows[each] else in_column)
    copies = []
    for read in reads:
        if read.indices[0].key() == Iter(size.column).key():
            x, y = fresh("x"), fresh("y")
            copies.append(total.update.copy(value, [x, y], layout=[y, x]))
            copies[-1].set_schedule(in_column)
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
            others = [statements[other].instances for other in left if other is not each]
            if not any(_reads(statements[each], value, elements) for elements in others):
                ready.append(each)
        if not ready:
            raise CommandError(f"the cases of {value} read each other: none of them can come first in a step")
        found += ready
        left = [each for each in left if each not in ready]
    return found


def _reads(statement: Statement, value: str, elements: isl.Set) -> bool:
    """Whether a statement reads some of these elements of a value."""
    places = [each for each in accesses(statement.body) if each.source == value]
    return any(not _places(statement, each, elements).is_empty() for each in places)


def _places(statement: Statement, read: Access, elements: isl.Set) -> isl.Set:
    """The executions of a statement in which a read is of some elements."""
    space = statement.instances.get_space()
    reader = Affine(space, dict(zip(statement.dims, sets.variables(space), strict=True)))
    try:
        place = sets.function(space, None, [reader.single(index) for index in read.indices])
    except NotAffine as error:
        raise CommandError(f"{read} is read at computed places") from error
    return sets.graph(place, statement.instances).intersect_range(sets.named(elements, None)).domain()


def _is_read_by_row(statement: Statement, update: Statement, reads: Sequence[Access], size: FactorTile) -> bool:
    """Whether a term with the number of a row reads the elements of this case, not one with that of a column."""
    axes = set()
    for read in reads:
        if not _places(update, read, statement.instances).is_empty():
            axes.add([index.key() for index in read.indices].index(Iter(size.term).key()))
    if len(axes) > 1:
        raise CommandError(f"terms of {size.total} read the same elements of {size.value} as rows and as columns")
    return axes == {0}
