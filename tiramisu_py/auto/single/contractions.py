"""Sums of products whose operands are read again for every row or column: tiles of partial results in registers.

This is the order of `recipes.matmul` for what that leaves out: triangles, one array in both operands, and several
products in one term. Tiles that are not full are loops with masks, so that the code stays short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tiramisu_py import Function, Iter, Memory
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.queries import LinearRead
from tiramisu_py.records import dataclass

#: Vectors in a row of a tile, the most rows, terms summed in registers, and tiles of a block of rows.
VECTORS, MOST_ROWS, TERMS, TILES = 2, 8, 256, 16
#: The vectors of results in a tile of `recipes.matmul`, with as many registers as there are in most processors.
BEST_TILE = 24


@dataclass(frozen=True)
class TileIterators:
    """The iterators of a contraction: those outside, the rows and the columns of a tile, and the terms.

    `panels` are the reads of the operands that vectors run along, and `has_rows_in_panels` says that rows are read from
    one of these arrays, too.
    """

    batch: tuple[str, ...]
    row: str
    column: str
    term: str
    panels: tuple[LinearRead, ...]
    has_rows_in_panels: bool


def contracted(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a sum over one iterator, if each operand is read for many rows or for many columns."""
    roles = roles_of(problem, name)
    if roles is None:
        return
    rows = min(MOST_ROWS, problem.cpu.rows_of_sums(VECTORS))
    if roles.has_rows_in_panels:  # those of a tile are in one panel
        rows = 1 << (rows.bit_length() - 1)
    lanes = problem.lanes(name)
    width = VECTORS * lanes
    yield Offer(
        name, f"tiles of {rows} {roles.row} by {width} {roles.column} in registers, blocks of {TERMS} {roles.term}",
        f"each term is used for one tile, and read from panels as wide as a tile along {roles.column}",
        lambda function: _apply(function, name, roles, (rows, width, lanes)), (name,),
        in_tiles(problem, name, rows * VECTORS), is_tiled=True,
    )  # fmt: skip


def in_tiles(problem: Problem, name: str, vectors: int) -> ValueWork:
    """The work of a term in a tile of so many vectors of results: each operand is loaded once for a row or a column."""
    work = problem.work(name, problem.computation(name).iterators[-1], problem.lanes(name), moved=1 / TERMS)
    return replace(work, accesses=work.accesses / vectors)


def roles_of(problem: Problem, name: str) -> TileIterators | None:
    """The iterators of a sum as those of a contraction; None if it is of another form."""
    declared = problem.computation(name)
    if declared.in_order or declared.guards or len(declared.over) != 1 or len(declared.iterators) < 2:
        return None
    (term,) = declared.over
    column = declared.iterators[-1]
    touched = problem.touches(name)
    right = [touch for touch in touched if touch.mentions(column)]
    left = [touch for touch in touched if not touch.mentions(column)]
    rows = [each for each in declared.iterators[:-1] if not any(touch.mentions(each) for touch in right)]
    if not right or not left or not rows or any(touch.alone is None or term not in touch.alone for touch in right):
        return None
    if not all(touch.mentions(term) for touch in left) or not any(touch.mentions(rows[-1]) for touch in left):
        return None
    panels = {touch.access.source: touch for touch in right}
    if len(panels) < len(right) or any(len(touch.access.indices) != 2 for touch in right):
        return None
    batch = tuple(each for each in declared.iterators[:-1] if each != rows[-1])
    shared = any(touch.access.source in panels for touch in left)
    return TileIterators(batch, rows[-1], column, term, tuple(panels.values()), shared)


def _apply(function: Function, name: str, roles: TileIterators, sizes: tuple[int, int, int]) -> None:
    rows, width, lanes = sizes
    product: Any = function[name]
    update, fresh = product.update, Fresh(function)
    i, j, k = Iter(roles.row), Iter(roles.column), Iter(roles.term)
    i0, j0, i1, j1 = (fresh(f"{loop.name}{level}") for level in (0, 1) for loop in (i, j))
    i2, k0, k1 = fresh(f"{i.name}2"), fresh(f"{k.name}0"), fresh(f"{k.name}1")
    batch = [Iter(each) for each in roles.batch]
    update.split(k, TERMS, k0, k1)
    tile = update.rfactor(k0)
    product.tile(i, j, rows, width, i0, j0, i1, j1)
    product.split(i0, TILES, i2, i0)
    update.reorder(k0, *batch, i2, j0, i0, i1, j1)
    product.init.compute_at(update, i1)
    product.parallelize(i2)
    product.unroll(i1)
    product.vectorize(j1, lanes, remainder="mask")
    tile.compute_at(update, i0)
    tile.store_in(Memory.REGISTER)
    tile.update.reorder(k, i, j)
    tile.unroll(i)
    tile.vectorize(j, lanes, remainder="mask")
    for touch in roles.panels:
        _packed(function, tile, touch, roles, (k0, width, lanes), fresh)


def _packed(
    function: Function, tile: Any, touch: LinearRead, of: TileIterators, block: tuple[Iter, int, int], fresh: Fresh
) -> None:
    """Copy an operand into panels as wide as a tile, for each block of terms."""
    level, width, lanes = block
    assert touch.alone is not None
    loops = {each: fresh(2 * each) for each in touch.alone}
    jj, kk = loops[of.column], loops[of.term]
    source, usual = touch.access.source, f"{touch.access.source}_packed"
    name = fresh(usual).name
    panels = tile.update.copy(
        function[source], list(loops.values()), at=level, layout=[jj // width, kk, jj % width],
        name=None if name == usual else name,
    )  # fmt: skip
    outer, inner = fresh(f"{jj.name}0"), fresh(f"{jj.name}1")
    panels.split(jj, width, outer, inner)
    if touch.alone[-1] != of.column:
        panels.reorder(outer, kk, inner)
    panels.parallelize(outer if touch.alone[-1] != of.column else kk)
    panels.vectorize(inner, width if width.bit_count() == 1 else lanes, remainder="mask")
