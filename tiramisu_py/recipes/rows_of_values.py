"""Values one by one: a loop over edges, nodes or other rows on threads, and the last axis in vectors or on threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tiramisu_py import REGISTER, Combine, Computation, GpuThreads, Iter, Reduction
from tiramisu_py.queries import Declared, chosen_by_values, extents
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.shared_rows import SharedRows
from tiramisu_py.recipes.tiled_sums import innermost, lanes_for, loops_of, part_of

#: How terms are added, in words.
ADDED = {Combine.ATOMIC: "added atomically", Combine.PRIVATE: "added in copies for each thread"}


def in_rows(recipe: Recipe, stage: Computation, cpu: Cpu, combine: Combine | None = None) -> list[str]:
    """Run the first loop of values on threads and their last axis in vectors; what was done, in words.

    A scatter is on one thread without `combine`, and its terms are added in their order.
    """
    f = recipe.function
    declared, tags = f.program.algorithm.computations[stage.name], in_vectors(recipe, stage, cpu)
    first = Iter(declared.iterators[0])
    if isinstance(stage, Reduction) and chosen_by_values(declared):
        (term, *_) = loops_of(f, stage.update)
        stage.init.parallelize(first)
        if combine is not None:
            stage.update.parallelize(Iter(term), combine=combine)
            tags.append(f"{term} on threads, {ADDED[combine]}")
    elif recipe.tried(partial(_on_threads, stage, first)):
        tags.append(f"{first} on threads")
    last = stage.update if isinstance(stage, Reduction) else stage
    return [f"loops over {', '.join(loops_of(f, last))}", *tags]


def in_vectors(recipe: Recipe, stage: Computation, cpu: Cpu) -> list[str]:
    """Run the last axis of values in vectors, as the innermost loop, where it is wide enough; in words."""
    declared, lanes = recipe.function.program.algorithm.computations[stage.name], cpu.lanes(stage.dtype.bytes)
    tags = list[str]()
    for statement in [stage.init, stage.update] if isinstance(stage, Reduction) else [stage]:
        tags = _in_vectors(recipe, statement, declared, lanes)
    return tags


def _on_threads(stage: Computation, first: Iter) -> None:
    stage.parallelize(first)


def _in_vectors(recipe: Recipe, statement: Any, declared: Declared, widest: int) -> list[str]:
    """Run the last axis of a value in vectors, as the innermost loop; what was done, in words."""
    extent = extents(declared)[-1]
    if len(declared.iterators) < 2 or extent is None or extent < 2:
        return []
    last, lanes = declared.iterators[-1], lanes_for(extent, widest)
    loops = loops_of(recipe.function, statement)
    if last not in loops or lanes < 2:
        return []
    ordered = innermost(loops, declared, last)

    def vectors() -> None:
        if loops != ordered:
            statement.reorder(*map(Iter, ordered))
        statement.vectorize(Iter(last), lanes, **({} if extent % lanes == 0 else {"remainder": "mask"}))

    return [f"{last} in vectors"] if recipe.tried(vectors) else []


def on_gpu(
    recipe: Recipe,
    stage: Computation,
    on: GpuThreads,
    threads: int,
    combine: Combine | None = None,
    shared: int = 0,
    taken: Sequence[Reduction] = (),
) -> list[str]:
    """Give values a kernel: a thread has one row, and one element of the last axis where that fits; in words.

    A sum begins and has all of its terms in one thread, in their order, or with `combine` by positions. A block keeps
    at most so many bytes of the rows of a product in `shared` memory. Sums that are `taken` along are in the thread
    that reads them, in registers.
    """
    if combine is not None and isinstance(stage, Reduction):
        _tag(recipe, stage.init, stage, on, threads)
        loops, _ = _tag(recipe, stage.update, stage, on, threads, combine)
        return [f"{', '.join(loops)} on threads, {ADDED[combine]}"]
    declared = recipe.function.program.algorithm.computations[stage.name]
    columns = extents(declared)[-1] or threads + 1
    for sums in taken:
        sums.compute_at(stage, Iter(declared.iterators[-1]))
        sums.store_in(REGISTER)
    rows, across = None, threads // columns
    if shared and across and isinstance(stage, Reduction):
        rows = SharedRows.fetched(recipe, stage, declared.iterators[0], across, shared)
    loops, block = _tag(recipe, stage, stage, on, threads)
    words = [f"{', '.join(loops)} on threads"]
    return words if rows is None else [*words, rows.placed(stage, block, across, columns)]


def _tag(
    recipe: Recipe, of: Any, stage: Computation, on: GpuThreads, threads: int, combine: Combine | None = None
) -> tuple[list[str], Iter]:
    """Run the first loop of statements, and their last axis, on threads; the loops that these have, and the blocks."""
    f = recipe.function
    declared = f.program.algorithm.computations[stage.name]
    whole = isinstance(of, Reduction)
    changed = of.update if whole else of
    loops = loops_of(f, changed)
    first, width = loops[0], extents(declared)[-1] or threads + 1
    last = [declared.iterators[-1]] if declared.iterators[-1] in loops[1:] and width <= threads else []
    others = [name for name in declared.iterators if name in loops[1:] and name not in last]
    ordered = [first, *last, *others, *(name for name in loops[1:] if name not in (*last, *others))]
    if ordered != loops:
        changed.reorder(*map(Iter, ordered))
    if whole:
        if last and others:
            of.init.reorder(*map(Iter, (first, *last, *others)))
        of.update.after(of.init, Iter([first, *last][-1]))
    block, thread = (part_of(recipe, declared, f"{first}_{part}") for part in ("block", "thread"))
    of.split(Iter(first), threads // width if last else threads, block, thread)
    added = {} if combine is None else {"combine": combine}
    of.tag_gpu([block], [thread, *map(Iter, last)], stream=on.stream, device=on.device, **added)
    return [first, *last], block
