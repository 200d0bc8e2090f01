"""The recipe for typed products: one matrix for the positions of a run, or of an index, ``Y[p] = X[i[p]] W[t[p]]``."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py import REGISTER, Computation, GpuThreads, Iter, Reduction, Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Declared, accesses, chosen_by_values, extents, run_of_positions
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, checked_gpu, processor, sums_of, untouched, with_sizes
from tiramisu_py.recipes.rows_of_values import on_gpu
from tiramisu_py.recipes.shared_rows import MOST_BYTES, SharedRows
from tiramisu_py.recipes.tiled_sums import ACCUMULATORS, TileSizes, free_name, in_tiles, lanes_for, with_rows_of_weights
from tiramisu_py.records import dataclass

#: Positions of a block that threads share: a multiple of the rows of a tile.
BLOCK = 384
#: The most vectors in a row of a tile.
MOST_VECTORS = 4
#: The most rows of a tile.
MOST_ROWS = 8
#: Threads of a block on a GPU.
THREADS = 256
#: Threads of a multiprocessor at a time that a kernel asks for: each may have 64 registers, so that none is spilled.
RESIDENT = 1024


@dataclass(frozen=True)
class TypedSizes:
    """The sizes of a schedule on cores: `rows` and `columns` of a tile, `tiles` of positions that a thread takes."""

    rows: int
    columns: int
    tiles: int


@dataclass(frozen=True)
class TypedGpuSizes:
    """The sizes of a schedule on a GPU.

    A block has a `tile` of positions and a number of `columns`, of which each thread has `coarsen` positions;
    `minimum_blocks` are to be resident at a time, 0 where the compiler chooses; by default so many that 1,024 threads
    are. Rows of X are gathered into shared memory where a block has at most so many bytes of them, `shared`.
    """

    tile: int
    columns: int
    coarsen: int
    minimum_blocks: int
    shared: int


@dataclass(frozen=True)
class ThreadSizes:
    """The sizes of a schedule on a GPU without runs: the `threads` of a block, and its most bytes of `shared` rows."""

    threads: int
    shared: int


@dataclass(frozen=True)
class _Form:
    """``msg[r, p, h, d] += .. [p, k] * W[r, h, k, d]``: the loops of a typed product by what they are over."""

    sums: Reduction
    reader: Computation
    run: Iter
    position: Iter
    heads: tuple[Iter, ...]
    column: Iter
    term: Iter
    width: int | None


@own_call_of("tm.recipes")
def typed_matmul(
    product: Computation,
    *,
    on: GpuThreads | None = None,
    cpu: Cpu | Target | str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> AppliedCommands:
    """Schedule ``msg[r, p, d] += X[index[p], k] * W[r, k, d]`` over runs of positions that have one matrix each.

    ::

        types = f.segments("types", R, of=E)
        msg = f.reduction("msg", {r: R, p: types[r], d: F}, {k: K}, tm.sum, x[src[p], k] * W[r, k, d])
        out = f.computation("out", {r: R, p: types[r], d: F}, msg[r, p, d] * scale[p])
        print(tm.recipes.typed_matmul(out))
            -->   out.split(p, 384, p0, p1)
                  out.split(p1, 6, p2, p3)
                  out.reorder(p0, r, p2, p3, d)
                  msg.compute_at(out, p2)
                  ...
                  out.parallelize(p0)

    `product` reads the sums at its own iterators: a factor for each row, a bias, an activation, or the sums as they
    are. Rows of X are gathered as they are needed, and no matrix is copied. Blocks of positions are dealt out evenly,
    whatever the runs are; each goes through the runs that it touches in tiles, whose sums are in registers. Each sum
    has its terms in their order. Iterators between positions and columns, ``{r: R, p: types[r], h: H, d: F}``, are
    products of their own, such as those of heads.

    The sums may be `product` themselves, where nothing else is to be stored. Sums need no runs: in
    ``msg[p, d] += X[index[p], k] * W[etype[p], k, d]`` each position says which matrix is its own, as in COO, and
    tiles have positions of any types; what reads them at its own iterators takes them along as well. Weights whose rows
    are not along the columns are copied by columns first.

    `on` is a GPU and its operation sequence, ``tm.gpu(stream=1)``, or None for cores. There the threads of a block
    gather its rows of X into shared memory, once for all columns, where these are at most as many bytes as `shared`
    says. `sizes` are given by name, instead of those that follow from the processor: `rows` and `columns` of a tile and
    `tiles` of a block on cores; `tile`, `columns`, `coarsen` (positions of a thread), `minimum_blocks` and `shared` on
    a GPU; without runs `vectors` of a tile on cores, `threads` and `shared` on a GPU. Transfers are left to
    ``f.derive_transfers()``. Sums of floating-point numbers are fast only if compiled with ``fast=("contract",)``.

    Returns the commands that were applied, to be pasted and edited. Raises `ArgumentError` for what is no typed
    product, with the reason, and the error of a command that is refused; nothing is applied then. Source: Wu, Hector,
    algorithm 3.1.
    """
    recipe = Recipe("typed_matmul", [product])
    given = sizes or {}
    on = None if on is None else checked_gpu("typed_matmul", on)
    with recipe.together():
        if isinstance(product, Reduction):
            untouched(recipe, product)
            if not _is_in_runs(recipe, product):
                return recipe.commands(loops=_by_index(recipe, product, on, cpu, given))
            sums = product.accumulate(free_name(recipe.function, f"{product.name}_sums"))
            form = _form_of(recipe, product, sums)
        else:
            of_product = sums_of(recipe, product)
            untouched(recipe, product)
            untouched(recipe, of_product)
            if not any(_is_in_runs(recipe, each) for each in (product, of_product)):
                return recipe.commands(loops=_by_index(recipe, of_product, on, cpu, given, product))
            form = _form_of(recipe, product, of_product)
        loops = _on_cores(recipe, form, cpu, given) if on is None else _on_gpu(recipe, form, on, given)
    return recipe.commands(loops=loops)


def _is_in_runs(recipe: Recipe, product: Computation) -> bool:
    """Whether a product has a value for each position of runs."""
    declared = _declared(recipe, product)
    found = run_of_positions(recipe.function.program.algorithm, declared)
    return found is not None and found.position in declared.iterators


def _by_index(
    recipe: Recipe,
    product: Reduction,
    on: GpuThreads | None,
    cpu: Cpu | Target | str | None,
    given: Mapping[str, int],
    reader: Computation | None = None,
) -> list[str]:
    """Schedule products whose matrices are chosen by an index, or are one for all, and what reads them; in words."""
    declared = _declared(recipe, product)
    if chosen_by_values(declared) or run_of_positions(recipe.function.program.algorithm, declared) is not None:
        raise ArgumentError(
            f"typed_matmul: {product} sums over positions, each of which has terms: tm.recipes.traversal takes sums "
            "over runs, and scatters"
        )
    if not declared.iterators:
        raise ArgumentError(f"typed_matmul: {product} is one sum of everything: it takes a product for each position")
    named = [_names(read) for read in accesses(declared.expr)]
    columns = [declared.iterators[-1] in names for names in named if names >= {*declared.over}]
    if not any(columns) or all(columns):
        raise ArgumentError(
            f"typed_matmul: {product} is no product of rows and matrices: one factor has its terms and its last axis, "
            "another one its terms alone"
        )
    if on is None:
        plan = with_sizes(TileSizes(ACCUMULATORS), "typed_matmul", given)
        known, taken = processor("typed_matmul", cpu), [product] if reader is not None else []
        return in_tiles(recipe, reader or product, known, plan.vectors, taken)
    threads = with_sizes(ThreadSizes(THREADS, MOST_BYTES), "typed_matmul", given, least={"shared": 0})
    if reader is not None:
        return on_gpu(recipe, reader, on, threads.threads, taken=[product])
    return on_gpu(recipe, product, on, threads.threads, shared=threads.shared)


def _form_of(recipe: Recipe, product: Computation, sums: Reduction) -> _Form:
    """The loops of a typed product; raises `ArgumentError`, with the reason."""
    declared = recipe.function.program.algorithm.computations[sums.name]
    found = run_of_positions(recipe.function.program.algorithm, declared)
    if (
        found is None
        or found.position not in declared.iterators
        or run_of_positions(recipe.function.program.algorithm, _declared(recipe, product)) != found
    ):
        raise ArgumentError(
            f"typed_matmul: {product} and {sums} have no run of positions that each matrix is for: declare "
            'types = f.segments("types", R, of=E), and both over {r: R, p: types[r], d: D}'
        )
    _, run, position = found
    others = [each for each in declared.iterators if each not in found]
    if not others or len(declared.over) != 1:
        raise ArgumentError(
            f"typed_matmul: {sums} has the iterators {', '.join(declared.point_iterators)}: it takes a run, its "
            "positions, one column, or heads and columns, and one term"
        )
    (*heads, column), (term,) = others, declared.over
    matrices = [read for read in accesses(declared.expr) if _names(read) >= {run, column, term}]
    if not matrices or any(position in _names(read) for read in matrices):
        raise ArgumentError(
            f"typed_matmul: {sums} reads no matrix of its run, such as W[{run}, {term}, {column}]: each run has one"
        )
    width = extents(declared)[declared.iterators.index(column)]
    return _Form(sums, product, Iter(run), Iter(position), tuple(map(Iter, heads)), Iter(column), Iter(term), width)


def _declared(recipe: Recipe, of: Computation) -> Declared:
    return recipe.function.program.algorithm.computations[of.name]


def _names(read: object) -> set[str]:
    return {str(index) for index in getattr(read, "indices", ())}


# -- on cores


def _on_cores(recipe: Recipe, form: _Form, cpu: Cpu | Target | str | None, given: Mapping[str, int]) -> list[str]:
    known = processor("typed_matmul", cpu)
    lanes, plan = _sizes_on_cores(form, known)
    plan = with_sizes(plan, "typed_matmul", given)
    sums, reader, p, d = form.sums, form.reader, form.position, form.column
    block, inside, tile, row = (recipe.fresh(f"{p.name}{k}") for k in range(4))
    reader.split(p, plan.rows * plan.tiles, block, inside)
    reader.split(inside, plan.rows, tile, row)
    order = [block, form.run, *form.heads, tile, row, d]
    if form.width is None or form.width > plan.columns:
        part, d = recipe.fresh(f"{d.name}0"), recipe.fresh(f"{d.name}1")
        reader.split(form.column, plan.columns, part, d)
        order = [block, form.run, *form.heads, part, tile, row, d]
    reader.reorder(*order)
    sums.compute_at(reader, tile)
    sums.update.reorder(form.term, p, form.column)
    for stage in (sums.init, sums.update):
        stage.unroll(p)
        if lanes > 1:
            stage.vectorize(form.column, lanes)
    reader.unroll(row)
    if lanes > 1:
        reader.vectorize(d, lanes)
    reader.parallelize(block)
    declared = _declared(recipe, sums)
    turned = with_rows_of_weights(recipe.function, sums, declared, form.column.name if lanes > 1 else "")
    return [
        f"tiles in runs of {form.run}",
        f"sums of {plan.rows} {p} in registers",
        *([f"{form.column} in vectors"] if lanes > 1 else []),
        f"{block} on threads",
        *turned,
    ]


def _sizes_on_cores(form: _Form, cpu: Cpu) -> tuple[int, TypedSizes]:
    """The lanes of a vector, and the sizes that fill its registers with the sums of a tile."""
    lanes = cpu.lanes(form.sums.dtype.bytes)
    if form.width is not None:
        lanes = lanes_for(form.width, lanes)
    vectors = MOST_VECTORS if cpu.registers >= 32 else MOST_VECTORS // 2
    if form.width is not None:
        vectors = max(min(vectors, form.width // lanes), 1)
    rows = min(cpu.rows_of_sums(vectors), MOST_ROWS)
    return lanes, TypedSizes(rows, vectors * lanes, max(BLOCK // rows, 1))


# -- on a GPU


def _on_gpu(recipe: Recipe, form: _Form, on: GpuThreads, given: Mapping[str, int]) -> list[str]:
    columns = THREADS // 4 if form.width is None else min(form.width, THREADS)
    coarsen = 4
    rows = max(THREADS // columns, 1)
    plan = with_sizes(
        TypedGpuSizes(rows * coarsen, columns, coarsen, 0, MOST_BYTES),
        "typed_matmul",
        given,
        least={"minimum_blocks": 0, "shared": 0},
    )
    if plan.tile % plan.coarsen:
        raise ArgumentError(
            f"typed_matmul: a tile of {plan.tile} positions is no multiple of coarsen, {plan.coarsen}: each thread has "
            "as many positions"
        )
    sums, reader, p, d = form.sums, form.reader, form.position, form.column
    fetched = SharedRows.fetched(recipe, sums, p.name, plan.tile, plan.shared)
    block, inside, thread, own = (recipe.fresh(f"{p.name}{k}") for k in range(4))
    reader.split(p, plan.tile, block, inside)
    reader.split(inside, plan.coarsen, thread, own)
    blocks, order = [block], [block, thread, d, form.run, *form.heads, own]
    if form.width is None or form.width > plan.columns:
        part, d = recipe.fresh(f"{d.name}0"), recipe.fresh(f"{d.name}1")
        reader.split(form.column, plan.columns, part, d)
        blocks, order = [block, part], [block, part, thread, d, form.run, *form.heads, own]
    reader.reorder(*order)
    sums.compute_at(reader, [form.run, *form.heads][-1])
    sums.update.reorder(form.term, p)
    sums.store_in(REGISTER)
    for stage in (sums.init, sums.update):
        stage.unroll(p)
    reader.unroll(own)
    threads = plan.tile // plan.coarsen * plan.columns
    resident = plan.minimum_blocks if "minimum_blocks" in given else max(RESIDENT // threads, 1)
    reader.tag_gpu(blocks, [thread, d], stream=on.stream, device=on.device, minimum_blocks=resident or None)
    gathered = [] if fetched is None else [fetched.placed(reader, blocks[-1], plan.tile // plan.coarsen, plan.columns)]
    return [f"tiles in runs of {form.run}", f"{p} and {form.column} on threads", *gathered]
