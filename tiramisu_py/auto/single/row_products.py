"""Products of many rows with one small matrix, and what reads them: a few rows at a time, while they are in the cache.

::

    for r, q, p: total[r, q, p] = 0                         for r, blocks of q:
    for r, q, p, s: total[r, q, p] += a[r, q, s] * c[s, p]      total of the block, in tiles of registers
    for r, q, p: updated[r, q, p] = total[r, q, p]    -->       updated of the block

The matrix stays in the cache, and needs no panels; the sums need no memory of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.single.contractions import TileIterators, in_tiles, is_box, roles_of
from tiramisu_py.function import Function
from tiramisu_py.program.storage import Memory

#: The vectors in a row of a tile, the most rows of it, with 32 registers and with fewer, and terms summed in registers.
VECTORS, MOST_ROWS, FEW_ROWS, TERMS = 3, 8, 4, 512


def products_of_rows(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a computation that reads, at its own iterators, a product that nothing else reads."""
    for source in problem.sources(name):
        declared = problem.computation(source)
        alone = problem.readers[source] == (name,) and source not in problem.algorithm.outputs
        if not declared.is_reduction or declared.group or not alone or not problem.is_pointwise(name, source):
            continue
        if problem.computation(name).iterators != declared.iterators:
            continue
        roles = roles_of(problem, source)
        if roles is None or not _is_of_one_matrix(roles) or not is_box(declared.points):
            continue
        rows = MOST_ROWS if problem.cpu.registers >= 32 else FEW_ROWS
        lanes = problem.lanes(source)
        sizes = rows, VECTORS * lanes, lanes
        yield Offer(
            name, f"{source} of {rows} {roles.row} at a time, in tiles of registers, and then {name}",
            f"nothing else reads {source}, whose rows are in the cache then",
            partial(_apply, name=name, source=source, roles=roles, sizes=sizes),
            (name, source), in_tiles(problem, source, rows * VECTORS), is_tiled=True,
        )  # fmt: skip


def _is_of_one_matrix(roles: TileIterators) -> bool:
    """Whether there are further iterators, for all of which the rows are multiplied by one matrix as it is stored."""
    return bool(roles.batch) and all(touch.alone == (roles.term, roles.column) for touch in roles.panels)


def _apply(function: Function, name: str, source: str, roles: TileIterators, sizes: tuple[int, int, int]) -> None:
    rows, width, lanes = sizes
    reader: Any = function[name]
    total: Any = function[source]
    fresh = Fresh(function)
    i, j, k = Iter(roles.row), Iter(roles.column), Iter(roles.term)
    i0, i1, j0, j1 = (fresh(f"{loop.name}{level}") for loop in (i, j) for level in (0, 1))
    k0, k1 = fresh(f"{k.name}0"), fresh(f"{k.name}1")
    reader.split(i, rows, i0, i1)
    reader.parallelize(Iter(roles.batch[0]))
    reader.vectorize(j, lanes, remainder="mask")
    total.update.split(k, TERMS, k0, k1)
    tile = total.update.rfactor(k0)
    total.compute_at(reader, i0)
    total.init.vectorize(j, lanes, remainder="mask")
    total.update.split(j, width, j0, j1)
    total.update.reorder(k0, j0, i, j1)
    total.update.unroll(i, remainder="specialize")
    total.update.vectorize(j1, lanes, remainder="mask", partial="specialize")
    tile.compute_at(total.update, j0)
    tile.store_in(Memory.REGISTER)
    tile.update.reorder(k, i, j)
    tile.unroll(i, remainder="specialize")
    tile.vectorize(j, lanes, remainder="mask", partial="specialize")
