"""Matrix products: tiles of accumulators in registers, both operands packed for the caches.

`matmul_space` has the sizes that are worth trying.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tiramisu_py import Combine, Computation, Expr, Iter, Memory, Reduction, Target
from tiramisu_py import sum as sum_
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Access, Binary, Cast, end_of
from tiramisu_py.recipes.cpu import MOST_LANES, Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor, sums_of, untouched, with_sizes
from tiramisu_py.records import dataclass

#: The most terms summed in registers before they are added: more save nothing.
MOST_TERMS = 384
#: The most tiles in a block of rows: threads share the blocks, so that there should be several for each.
MOST_TILES = 24
#: The most rows of a tile.
MOST_ROWS = 14


@own_call_of("tm.recipes")
def matmul(
    product: Computation, *, cpu: Cpu | Target | str | None = None, sizes: Mapping[str, int] | None = None
) -> AppliedCommands:
    """Schedule ``C[i, j] += A[i, k] * B[k, j]`` in tiles of registers, with both operands copied for the caches.

    ::

        print(tm.recipes.matmul(C))
            -->   k, k0, k1, i, j, i0, j0, ... = tm.iters("k k0 k1 i j i0 j0 ...")
                  C = f["C"]
                  C.update.split(k, 384, k0, k1)
                  C.update.rfactor(k0)
                  C.tile(i, j, 6, 64, i0, j0, i1, j1)
                  C.split(i0, 24, i2, i0)
                  ...
                  C.init.compute_at(C.update, i1)
                  ...
                  C.update.prefetch(C, i0, 1)
                  C_partial = f["C_partial"]
                  C_partial.compute_at(C.update, i0)
                  C_partial.store_in(tm.REGISTER)
                  ...

    A tile of accumulators and one row of vectors of B fill the registers. The terms are summed in blocks, so that a
    panel of B, as wide as a tile, takes an eighth of the second-level cache of `cpu` (default: this machine's), and a
    block of rows of A a quarter. The first block of terms starts its results, and what the next tile adds to is
    prefetched. A tile that is not full has a version for each number of rows and of vectors in a row, so that no vector
    is computed in vain. Threads share the blocks of rows, and the panels of B; blocks of a constant number of rows are
    made alike, as many for each core. A and B may be transposed, and may be one array (``A[i, k] * A[j, k]``), whose
    panels are then both operands; operands may be cast to the type of the result. The result may have further
    iterators: those of B (``A[b, i, k] * B[b, k, j]``) have a product each, and threads share the outermost of them;
    those of A alone (``A[b, i, k] * B[k, j]``) have the same panels of B, and threads share them and the blocks of
    rows. Sums over several iterators (``A[b, i, k] * B[b, k, j]`` over b and k) are in blocks of the longest one. Sums
    of floating-point numbers are rounded in another order, and are fast only if compiled with ``fast=("contract",)``.
    Returns the commands that were applied, to be pasted and edited.

    `product` may also be a computation that reads C at its own iterators, to add a bias, say, or to apply ReLU: a tile
    of it is computed as soon as the last block of terms has been added. If both have one type, they are in one array,
    unless it updates an input in place.

    `sizes` are given by name, instead of those that follow from the processor: `terms` of a block, `rows` and
    `columns` of a tile, `tiles` in a block of rows; `threads`, at most so many; `copied`, the number of operands
    that are copied: with 1 that of the rows is read where it is, which is faster where few columns read it (and is
    done where the columns are a constant number of at most one tile, and its rows are contiguous), and with 0 the
    other one, too. With `parts` of 2 or more it is the blocks of terms that threads share, for few results with
    many terms: so many partial results are summed side by side, if there are as many threads, each of a range of
    blocks of terms (of several sums, of a range of the one with the most blocks or iterations), and added in the end;
    which bits the sums have then depends on the number of threads.
    `matmul_space` has values to choose among with `tune`.

    Raises `ArgumentError` for what is no matrix product, with the reason, and the error of a command that is refused;
    then none of the commands is applied.
    """
    recipe = Recipe("matmul", [product])
    reader = None if isinstance(product, Reduction) else product
    sums = product if reader is None else sums_of(recipe, reader)
    found = _product_of(recipe, sums)
    plan = _planned(recipe, sums, found, processor("matmul", cpu), sizes or {})
    with recipe.together():
        if reader is not None:
            untouched(recipe, reader)
        tiled = _apply(recipe, found, plan)
        if reader is not None and plan.parts > 1:
            _read_afterwards(found, reader, plan)
        elif reader is not None:
            _read_at_the_end(found, reader, tiled, plan)
            if reader.dtype == sums.dtype and not _in_place(recipe, reader):
                sums.store_in(reader, list(found.iterators))
    return recipe.commands()


@dataclass(frozen=True)
class Sizes:
    """The sizes of a schedule: terms of a block, rows and columns of a tile, tiles of a block of rows, lanes.

    `parts` is the number of partial results that are summed side by side, `threads` that of threads (None: of all), and
    `copied` that of operands that are copied.
    """

    terms: int
    rows: int
    columns: int
    tiles: int
    lanes: int
    parts: int = 1
    threads: int | None = None
    copied: int = 2

    @classmethod
    def of(cls, product: Computation, cpu: Cpu) -> Sizes:
        """The sizes for values of one type on a processor."""
        size = product.dtype.bytes
        lanes = min(cpu.lanes(size), MOST_LANES)
        vectors = min(cpu.registers // 8, MOST_LANES // lanes)
        rows = min(cpu.rows_of_sums(vectors), MOST_ROWS)
        columns = vectors * lanes
        terms = max(min(cpu.second // 8 // (columns * size) // lanes * lanes, MOST_TERMS), lanes)
        tiles = max(min(cpu.second // 4 // (terms * size) // rows, MOST_TILES), 1)
        return cls(terms, rows, columns, tiles, lanes)

    def shared(self, rows: int | None, cores: int) -> Sizes:
        """The sizes with blocks of rows that are alike for all cores, if the number of rows is a constant.

        There are as few blocks as before, rounded up to a multiple of the number of cores.
        """
        if rows is None:
            return self
        tiles = -(-rows // self.rows)
        blocks = cores * -(-tiles // (cores * self.tiles))
        return replace(self, tiles=-(-tiles // blocks))

    def replaced(self, given: Mapping[str, int]) -> Sizes:
        """The sizes, those that the user gives instead; raises `ArgumentError`."""
        found = with_sizes(self, "matmul", given, least={"copied": 0}, fixed="lanes")
        if found.copied > 2:
            raise ArgumentError(f"matmul: copied is {found.copied}, and a product has 2 operands: give 0, 1 or 2")
        return found


@dataclass(frozen=True)
class Product:
    """The reduction, its iterators, and its operands: `left` is indexed by the rows, `right` by the columns.

    `batch` are further iterators of `right`, and perhaps of `left`; `stack` are those of `left` alone. `sums` are
    further ones that are summed over, of both.
    """

    result: Reduction
    iterators: tuple[Iter, ...]
    batch: tuple[Iter, ...]
    stack: tuple[Iter, ...]
    row: Iter
    column: Iter
    term: Iter
    sums: tuple[Iter, ...]
    left: Access
    right: Access


def _product_of(recipe: Recipe, product: Computation) -> Product:
    """The parts of a matrix product; raises `ArgumentError` for other computations."""
    who = recipe.name
    if not isinstance(product, Reduction):
        raise ArgumentError(f"{who}: {product} is not a reduction: declare it with f.reduction(..., op=tm.sum)")
    declared = recipe.function.algorithm.computations[product.name]
    if declared.op is not sum_ or declared.in_order:
        raise ArgumentError(f"{who}: {product} is not a sum whose order is free: it takes op=tm.sum, not ordered")
    term = max(reversed(declared.over), key=lambda name: _constant_extent(recipe, product, Iter(name)) or math.inf)
    first, second = _operands(product, declared.expr)
    of_first, of_second = _indices(product, first), _indices(product, second)
    missing = [name for name in declared.over if name not in of_first or name not in of_second]
    if missing:
        raise ArgumentError(
            f"{who}: {product} sums over {', '.join(declared.over)}: it takes sums whose iterators are indices of both "
            f"operands, and {', '.join(missing)} is not one of {first} and {second}"
        )
    if first.source == second.source and of_first.index(term) != of_second.index(term):
        raise ArgumentError(
            f"{who}: {product} reads {first.source} as {first} and as {second}: it takes one array as both operands "
            f"where {term} is the same index of both; copy it to another one first"
        )
    column = declared.iterators[-1]
    left, right = (second, first) if column in _indices(product, first) else (first, second)
    of_left, of_right = _indices(product, left), _indices(product, right)
    outer = declared.iterators[:-1]
    rows = [name for name in outer if name in of_left and name not in of_right]
    batch = [name for name in outer if name in of_right]
    fits = column in of_right and column not in of_left
    if not rows or not fits or not set(outer) <= {*of_left, *of_right}:
        raise ArgumentError(
            f"{who}: {product} is no matrix product: one operand must have its last iterator, {column}, the other one "
            f"a further iterator of {product}, both {term}, and one of them each of the rest; they are {left} and "
            f"{right}"
        )
    untouched(recipe, product)
    *stack, row = (Iter(name) for name in rows)
    iterators, beside = (tuple(map(Iter, names)) for names in (declared.iterators, batch))
    further = tuple(Iter(name) for name in declared.over if name != term)
    return Product(product, iterators, beside, tuple(stack), row, Iter(column), Iter(term), further, left, right)


def _operands(product: Computation, term: Expr) -> tuple[Access, Access]:
    """The two reads whose product each term is."""
    if isinstance(term, Binary) and term.op == "*":
        left, right = (each.operand if isinstance(each, Cast) else each for each in (term.left, term.right))
        if isinstance(left, Access) and isinstance(right, Access):
            return left, right
    raise ArgumentError(f"matmul: the terms of {product} are {term}, and it takes products of two reads")


def _indices(product: Computation, access: Access) -> list[str]:
    """The iterators that index an operand; raises `ArgumentError` for other indices."""
    names = [index.name for index in access.indices if isinstance(index, Iter)]
    if len(names) < len(access.indices) or len(set(names)) < len(names):
        raise ArgumentError(f"matmul: {product} reads {access}: it takes indices that are different iterators")
    return names


def _planned(recipe: Recipe, sums: Computation, found: Product, cpu: Cpu, sizes: Mapping[str, int]) -> Sizes:
    """The sizes that follow from the processor, with blocks of rows that are alike for all cores; those given instead.

    Raises `ArgumentError` for parts of products that threads share already.
    """
    plan = Sizes.of(sums, cpu)
    if not found.batch and not found.stack:
        plan = plan.shared(_constant_extent(recipe, found.result, found.row), cpu.cores)
    columns = _constant_extent(recipe, found.result, found.column)
    if columns is not None and columns <= plan.columns and _indices(found.result, found.left)[-1] == found.term.name:
        plan = replace(plan, copied=1)  # one tile reads each row of the left operand, once and in its order
    plan = plan.replaced(sizes)
    if plan.parts > 1 and found.batch:
        raise ArgumentError(
            f"matmul: parts is {plan.parts}, and {sums} is a product for each {', '.join(map(str, found.batch))}, "
            "which threads share: leave parts out"
        )
    return plan


def _constant_extent(recipe: Recipe, sums: Reduction, iterator: Iter) -> int | None:
    """The number of iterations of an iterator of a reduction, if it is a positive constant."""
    declared = recipe.function.algorithm.computations[sums.name]
    return end_of(recipe.function.program, declared, iterator.name)


@dataclass(frozen=True)
class TileLoops:
    """The loops of tiles, of their blocks, and inside of tiles."""

    blocks: Iter
    rows: Iter
    columns: Iter
    row: Iter
    column: Iter


def _apply(recipe: Recipe, found: Product, sizes: Sizes) -> TileLoops:
    """Apply the commands, and return the loops of the result."""
    product, fresh = found.result, recipe.fresh
    i, j, k = found.row, found.column, found.term
    i0, j0, i1, j1 = (fresh(f"{loop.name}{level}") for level in (0, 1) for loop in (i, j))
    i2, k0, k1 = fresh(f"{i.name}2"), fresh(f"{k.name}0"), fresh(f"{k.name}1")
    update = product.update
    update.split(k, sizes.terms, k0, k1)
    tile = update.rfactor(*found.sums, k0)
    product.tile(i, j, sizes.rows, sizes.columns, i0, j0, i1, j1)
    product.split(i0, sizes.tiles, i2, i0)
    terms = [*found.sums, k0]
    if sizes.parts > 1:
        shared = _longest(recipe, found, k0, sizes)
        terms = [shared, *(loop for loop in terms if loop is not shared)]
        update.reorder(*terms, *found.stack, i2, j0, i0, i1, j1)
        update.parallelize(shared, combine=Combine.PRIVATE, threads=min(sizes.parts, sizes.threads or sizes.parts))
        product.init.parallelize(*found.stack, i2, threads=sizes.threads)
    else:
        update.reorder(*found.batch, *terms, *found.stack, i2, j0, i0, i1, j1)
        product.init.compute_at(update, i1)
        product.parallelize(*(found.batch[:1] or (*found.stack, i2)), threads=sizes.threads)
    product.unroll(i1, remainder="specialize")
    product.vectorize(j1, sizes.lanes, remainder="mask", partial="specialize")
    if sizes.tiles > 1:  # a block of one tile has no next one
        update.prefetch(product, i0, 1)
    tile.compute_at(update, i0)
    tile.store_in(Memory.REGISTER)
    tile.update.reorder(k, i, j)
    tile.unroll(i, remainder="specialize")
    tile.vectorize(j, sizes.lanes, remainder="pad" if sizes.copied else "mask", partial="specialize")
    if sizes.copied:
        _pack_right(recipe, found, tile, terms[-1], sizes)
    if sizes.copied == 2 and found.left.source != found.right.source:
        _copy_left(recipe, found, tile, i2, sizes)
    return TileLoops(i2, i0, j0, i1, j1)


def _longest(recipe: Recipe, found: Product, blocks: Iter, sizes: Sizes) -> Iter:
    """The loop over terms with the most iterations, that over the blocks of the longest iterator where none has more.

    Partial results are so many at most: one outside of all blocks may have two iterations, as that of heads has.
    """

    def iterations(loop: Iter) -> float:
        extent = _constant_extent(recipe, found.result, found.term if loop is blocks else loop)
        return math.inf if extent is None else -(-extent // (sizes.terms if loop is blocks else 1))

    return max([blocks, *found.sums], key=iterations)


def _read_at_the_end(found: Product, reader: Computation, loops: TileLoops, sizes: Sizes) -> None:
    """Compute what reads the product in its tiles, after the last block of terms."""
    reader.tile(found.row, found.column, sizes.rows, sizes.columns, loops.rows, loops.columns, loops.row, loops.column)
    reader.split(loops.rows, sizes.tiles, loops.blocks, loops.rows)
    reader.reverse_compute_at(found.result.update, loops.rows)
    reader.parallelize(*(found.batch[:1] or (*found.stack, loops.blocks)), threads=sizes.threads)
    reader.unroll(loops.row, remainder="specialize")
    reader.vectorize(loops.column, sizes.lanes, remainder="mask", partial="specialize")


def _read_afterwards(found: Product, reader: Computation, sizes: Sizes) -> None:
    """Compute what reads the product when all partial results have been added."""
    reader.parallelize(*found.stack, found.row, threads=sizes.threads)
    reader.vectorize(found.column, sizes.lanes, remainder="mask")


def _in_place(recipe: Recipe, reader: Computation) -> bool:
    """Whether a computation is stored in the array of another value, which blocks of terms would overwrite."""
    program = recipe.function.program
    return len(list(program.storages_in(program.storages[reader.name].buffer))) > 1


def _pack_right(recipe: Recipe, found: Product, tile: Reduction, level: Iter, sizes: Sizes) -> None:
    """Copy the operand of the columns into panels, as wide as a tile, for each block of terms."""
    loops = {loop: recipe.fresh(2 * loop) for loop in _indices(found.result, found.right)}
    jj, kk = loops[found.column.name], loops[found.term.name]
    width = sizes.columns
    source = recipe.function[found.right.source]
    name = recipe.copy_name(found.right.source, "packed")
    panels = tile.update.copy(source, list(loops.values()), at=level, layout=[jj // width, kk, jj % width], name=name)
    outer, inner = recipe.fresh(f"{jj.name}0"), recipe.fresh(f"{jj.name}1")
    panels.split(jj, width, outer, inner)
    transposed = list(loops)[-1] != found.column.name
    if transposed:
        panels.reorder(*(each for each in loops.values() if each is not jj and each is not kk), outer, kk, inner)
    if not found.batch and sizes.parts == 1:
        panels.parallelize(outer if transposed else kk, threads=sizes.threads)
    panels.vectorize(inner, width if width.bit_count() == 1 else sizes.lanes, remainder="mask")


def _copy_left(recipe: Recipe, found: Product, tile: Reduction, level: Iter, sizes: Sizes) -> None:
    """Copy a block of rows of the other operand into rows whose distance is no power of two."""
    loops = {loop: recipe.fresh(2 * loop) for loop in _indices(found.result, found.left)}
    ii, kk = loops[found.row.name], loops[found.term.name]
    source = recipe.function[found.left.source]
    layout = [ii * (sizes.terms + sizes.lanes) + kk]
    name = recipe.copy_name(found.left.source, "packed")
    tile.update.copy(source, list(loops.values()), at=level, layout=layout, name=name)


@own_call_of("tm.recipes")
def matmul_space(product: Computation, *, cpu: Cpu | Target | str | None = None) -> dict[str, list[int]]:
    """Values of the `sizes` of `matmul` around those that follow from `cpu` (default: this machine's), for `tune` and
    `input_aware`.

    ::

        def make(**sizes):
            f, C = product()
            tm.recipes.matmul(C, sizes=sizes)
            return f

        cpu = tm.target()
        room = cpu.vector_registers * cpu.lanes(tm.float32)
        space = tm.recipes.matmul_space(product()[1])       # {"terms": [...], "rows": [...], ...}
        tm.tune(make, space, where=lambda rows, columns, **_: (rows + 1) * columns <= room, ...)

    Accumulators and a row of vectors should fit in the registers, as the condition here says. On several cores there
    are also `parts` and `threads`, one or as many as cores. Raises `ArgumentError`.
    """
    recipe = Recipe("matmul_space", [product])
    sums = product if isinstance(product, Reduction) else sums_of(recipe, product)
    chosen = processor("matmul_space", cpu)
    plan = Sizes.of(product, chosen)
    lanes = plan.lanes
    widths = [lanes * vectors for vectors in (1, 2, 4, 8) if lanes * vectors <= MOST_LANES]
    terms = {max(plan.terms * part // 4 // lanes * lanes, lanes) for part in (1, 2, 3, 4, 8)}
    return {
        "terms": sorted(terms),
        "rows": sorted({*range(2, MOST_ROWS + 1, 2), plan.rows}),
        "columns": sorted({*widths, plan.columns}),
        "tiles": sorted({max(plan.tiles * part // 4, 1) for part in (1, 2, 4, 8)}),
        **_numbers_of_threads(recipe, sums, chosen.cores),
    }


def _numbers_of_threads(recipe: Recipe, sums: Reduction, cores: int) -> dict[str, list[int]]:
    """The numbers of partial results and of threads that are worth trying; none on one core."""
    batch = _product_of(recipe, sums).batch
    if cores == 1:
        return {}
    return {**({} if batch else {"parts": [1, cores]}), "threads": [1, cores]}
