"""Reductions: along the rows with partial results in the lanes, or along values with the terms outside."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace

from tiramisu_py import Combine, Function, Iter
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import best_iterator
from tiramisu_py.auto.single.contractions import BEST_TILE, contracted, in_tiles
from tiramisu_py.auto.single.few_values import few_values
from tiramisu_py.auto.single.one_pass import one_pass
from tiramisu_py.auto.single.windows import filled_lanes, windowed
from tiramisu_py.queries import (
    Access,
    Declared,
    accesses,
    chosen_by_values,
    in_ranges_of_terms,
    is_box,
    iterators,
    walk,
)
from tiramisu_py.recipes import columns, convolution, matmul, spmv
from tiramisu_py.recipes.cpu import MOST_LANES
from tiramisu_py.recipes.reductions.rows import accumulating
from tiramisu_py.recipes.spmv import MOST_LANES as MOST_ENTRIES

#: The block of terms of one sum that a thread adds.
BLOCK = 1 << 14


def reduced(problem: Problem, name: str) -> Iterator[Offer]:
    """The candidates of a reduction that stands alone."""
    declared = problem.computation(name)
    cpu = problem.cpu
    if in_ranges_of_terms(declared) and not problem.is_recurrent(name):
        yield from over_ranges(problem, name)
        return
    if len(declared.iterators) > 1 and len(declared.over) == 1 and is_box(declared):
        yield Offer(
            name, "a matrix product in tiles of registers, operands packed for the caches",
            "each operand is read again for every row or column of the other one",
            lambda function: matmul(function[name], cpu=cpu), (name,),
            in_tiles(problem, name, BEST_TILE), is_tiled=True,
        )  # fmt: skip
    yield from contracted(problem, name)
    yield from one_pass(problem, name)
    if declared.guards and len(declared.iterators) == len(declared.over) == 1:
        yield Offer(
            name, "rows by their numbers of entries on threads, entries in vectors",
            "the rows of a sparse matrix", lambda function: spmv(function[name], cpu=cpu), (name,),
            problem.work(name, declared.over[0], problem.lanes(name)),
        )  # fmt: skip
    yield from windowed(problem, name)
    yield from few_values(problem, name)
    vector = best_iterator(problem.touches(name), declared, _filling(problem, name))
    if vector is None:
        return
    if vector in declared.over:
        yield from _along_terms(problem, name, vector)
    else:
        yield from _along_values(problem, name, vector)
    yield from _plain(problem, name, declared.iterators)


def _filling(problem: Problem, name: str) -> list[str]:
    """The iterators that fill a vector, whatever the sizes are; all if there are none."""
    declared, lanes = problem.computation(name), problem.lanes(name)
    extents = zip(declared.point_iterators, problem.point_extents(name), strict=True)
    return [each for each, extent in extents if extent is None or extent >= lanes] or list(declared.point_iterators)


def scattered(problem: Problem, name: str) -> Iterator[Offer]:
    """The candidates of a scatter: loops whose places values choose stay inside, where they are one iteration.

    In vectors or on threads such a loop would try all places for each term.
    """
    declared = problem.computation(name)
    chosen, last = chosen_by_values(declared), declared.iterators[-1]
    shared = [each for each in declared.iterators if each not in chosen]
    lanes, fills = problem.lanes(name), declared.is_reduction
    apart = _places_move(declared, last)
    vector = None if last in chosen or (fills and apart) else last
    order = _terms_apart(problem, name, chosen) if fills and apart else ()
    why = f"values say which {', '.join(chosen)} a term goes to"

    def apply(function: Function) -> None:
        handle = function[name]
        if fills:
            handle.init.vectorize(Iter(last), lanes, remainder="mask")
        if order:
            handle.update.reorder(*map(Iter, order))
        if vector is not None:
            (handle.update if fills else handle).vectorize(Iter(vector), lanes, remainder="mask")

    def threads(function: Function) -> None:
        function[name].parallelize(Iter(shared[0]))
        apply(function)

    def copies(function: Function) -> None:
        apply(function)
        function[name].update.parallelize(Iter(declared.over[0]), combine=Combine.PRIVATE)

    along = f"vectors of {lanes} along {vector}" if vector else "terms one after another"
    along = f"order {', '.join(order)}" if order else along
    alone = problem.work(name, vector, chain=problem.latency)
    if problem.threads > 1 and not fills and shared and shared[0] != vector:
        yield Offer(name, f"threads share {shared[0]}, {along}", why, threads, (name,), problem.work(name, vector))
    if fills and problem.threads > 1 and not order and not declared.ordered and _is_small(problem, name):
        yield Offer(
            name, f"threads share {declared.over[0]}, each with a copy of {name}, {along}", why, copies, (name,),
            replace(alone, chain=alone.chain / problem.threads),
        )  # fmt: skip
    if fills or vector is not None:
        yield Offer(name, along, why, apply, (name,), alone)


def _places_move(declared: Declared, iterator: str) -> bool:
    """Whether the values that say where terms go are others along an iterator: its lanes would go to far places."""
    places = [node for guard in declared.guards for node in walk(guard) if isinstance(node, Access)]
    return any(isinstance(node, Iter) and node.name == iterator for place in places for node in walk(place))


def _terms_apart(problem: Problem, name: str, chosen: Collection[str]) -> tuple[str, ...]:
    """The loops of a scatter in the order in which terms that follow each other go to different places.

    The last loop over many places is inside those over terms; those over few, and over chosen places, are inside it.
    """
    declared = problem.computation(name)
    extents = dict(zip(declared.iterators, problem.extents(name), strict=True))
    many = [each for each in declared.iterators if each not in chosen and extents[each] is None]
    few = [each for each in declared.iterators if each not in chosen and each not in many]
    return (*many[:-1], *declared.over, *many[-1:], *few, *(each for each in declared.iterators if each in chosen))


def _is_small(problem: Problem, name: str) -> bool:
    """Whether copies of all values fit into the first-level caches."""
    extents = problem.extents(name)
    known = [each for each in extents if each is not None]
    size = math.prod(known) * problem.computation(name).dtype.bytes
    return len(known) == len(extents) and size <= problem.cpu.first // 2


def read_at_the_end(problem: Problem, name: str) -> Iterator[Offer]:
    """The candidates of a computation that reads a reduction which nothing else reads, at its own iterators."""
    for source in problem.sources(name):
        declared = problem.computation(source)
        alone = problem.readers[source] == (name,) and source not in problem.algorithm.outputs
        if not declared.is_reduction or not is_box(declared) or len(declared.iterators) < 2:
            continue
        if not alone or declared.group or not problem.is_pointwise(name, source):
            continue
        if len(declared.over) > 1:
            yield Offer(
                name, f"{source} is a convolution in tiles of registers, and {name} is computed in each tile",
                f"nothing else reads {source}", lambda function: convolution(function[name], cpu=problem.cpu),
                (name, source), in_tiles(problem, source, BEST_TILE), is_tiled=True,
            )  # fmt: skip
            continue
        yield Offer(
            name, f"{source} is a matrix product in tiles of registers, and {name} is computed in each tile",
            f"nothing else reads {source}", lambda function: matmul(function[name], cpu=problem.cpu), (name, source),
            in_tiles(problem, source, BEST_TILE), is_tiled=True,
        )  # fmt: skip


def _along_terms(problem: Problem, name: str, vector: str) -> Iterator[Offer]:
    declared = problem.computation(name)
    lanes = accumulating(problem.lanes(name), problem.cpu)
    order = [each for each in declared.point_iterators if each != vector] + [vector]
    work = problem.work(name, vector, problem.lanes(name))

    def by_rows(function: Function) -> None:
        update = function[name].update
        if tuple(order) != declared.point_iterators:
            update.reorder(*map(Iter, order))
        update.after(function[name].init, Iter(declared.iterators[-1]))
        if problem.threads > 1:
            update.parallelize(Iter(declared.iterators[0]))
        update.vectorize(Iter(vector), lanes, combine=Combine.PRIVATE)

    def one_value(function: Function) -> None:
        update, fresh = function[name].update, Fresh(function)
        outer, inner = fresh(f"{vector}0"), fresh(f"{vector}1")
        update.split(Iter(vector), BLOCK, outer, inner)
        update.reorder(outer, *map(Iter, order[:-1]), inner)
        update.parallelize(outer, combine=Combine.PRIVATE)
        update.vectorize(inner, lanes, combine=Combine.PRIVATE)

    if declared.iterators:
        shared = f"threads share {declared.iterators[0]}, " if problem.threads > 1 else ""
        yield Offer(
            name, f"{shared}{lanes} partial results along {vector}",
            f"terms are contiguous along {vector}, and their order is free", by_rows, (name,), work,
        )  # fmt: skip
        return
    if problem.threads > 1:
        yield Offer(
            name, f"threads share blocks of {BLOCK} of {vector}, {lanes} partial results in each",
            f"terms are contiguous along {vector}, and their order is free", one_value, (name,), work,
        )  # fmt: skip
    yield Offer(
        name, f"{lanes} partial results along {vector}",
        f"terms are contiguous along {vector}, and their order is free",
        lambda function: function[name].update.vectorize(Iter(vector), lanes, combine=Combine.PRIVATE), (name,),
        replace(work, chain=work.chain + 0.01),
    )  # fmt: skip


def _along_values(problem: Problem, name: str, vector: str) -> Iterator[Offer]:
    declared = problem.computation(name)
    outer = [each for each in declared.iterators if each != vector]
    lanes = problem.lanes(name)
    if len(declared.iterators) == len(declared.over) == 1:
        yield Offer(
            name, f"several rows at a time into strips of {vector}", f"values are contiguous along {vector}",
            lambda function: columns(function[name], cpu=problem.cpu), (name,),
            problem.work(name, vector, lanes, stores=2 / 8), is_tiled=True,
        )  # fmt: skip

    def by_values(function: Function) -> None:
        update, init = function[name].update, function[name].init
        update.reorder(*map(Iter, (*outer, *declared.over, vector)))
        if outer:
            init.reorder(*map(Iter, (*outer, vector))) if declared.iterators[-1] != vector else None
            update.after(init, Iter(outer[-1]))
            if problem.threads > 1:
                update.parallelize(Iter(outer[0]))
            init.vectorize(Iter(vector), lanes, remainder="mask")
            update.vectorize(Iter(vector), lanes, remainder="mask")
            return
        fresh = Fresh(function)
        first, inner = fresh(f"{vector}0"), fresh(f"{vector}1")
        function[name].split(Iter(vector), MOST_LANES * 8, first, inner)
        update.reorder(first, *map(Iter, declared.over), inner)
        update.after(init, first)
        if problem.threads > 1:
            update.parallelize(first)
        function[name].vectorize(inner, lanes, remainder="mask")

    yield Offer(
        name, f"{', '.join((*outer, *declared.over))} outside, vectors of {lanes} along {vector}",
        f"values are contiguous along {vector}", by_values, (name,),
        problem.work(name, vector, filled_lanes(problem, name, vector), stores=2.0),
    )  # fmt: skip


def _plain(problem: Problem, name: str, iterators: tuple[str, ...]) -> Iterator[Offer]:
    def by_rows(function: Function) -> None:
        function[name].update.after(function[name].init, Iter(iterators[0]))
        if problem.threads > 1:
            function[name].update.parallelize(Iter(iterators[0]))

    if iterators:
        work = problem.work(name, None, chain=problem.latency)
        said = f"threads share {iterators[0]}" if problem.threads > 1 else f"a value of {iterators[0]} at a time"
        yield Offer(name, said, "sums are independent", by_rows, (name,), work)


# -- sums into ranges that values say, ``start[i] <= e < start[i + 1]``


def over_ranges(problem: Problem, name: str) -> Iterator[Offer]:
    """The candidates of a sum whose values lie in a range for each term, as those of a gradient by a matrix's entries.

    A block of the values, or one value, would go through all ranges to find its own. Threads have whole ranges, which
    the proof finds to be apart where their ends are monotone.
    """
    declared = problem.computation(name)
    ranged = in_ranges_of_terms(declared)
    rows = _rows(declared, ranged)
    inner = [each for each in declared.iterators if each in ranged]
    rest = [each for each in declared.point_iterators if each not in rows and each not in inner]
    vector = best_iterator(problem.touches(name), declared, rest) or inner[-1]
    order = [each for each in (*rows, *inner, *rest) if each != vector] + [vector]
    lanes = min(problem.lanes(name), MOST_ENTRIES) if vector in ranged else problem.lanes(name)
    summed = vector in declared.over and not declared.ordered

    def apply(function: Function) -> None:
        handle = function[name]
        handle.init.vectorize(Iter(declared.iterators[-1]), problem.lanes(name), remainder="mask")
        handle.update.reorder(*map(Iter, order))
        if summed:
            handle.update.vectorize(Iter(vector), lanes, combine=Combine.PRIVATE)
        elif vector in declared.iterators:
            handle.update.vectorize(Iter(vector), lanes, remainder="scalar" if vector in ranged else "mask")

    def threads(function: Function) -> None:
        apply(function)
        function[name].update.parallelize(Iter(rows[0]))

    work = problem.work(name, vector, lanes, stores=2.0)
    said = f"{', '.join(order[:-1])} outside, vectors of {lanes} along {vector}"
    why = f"values say the range of {', '.join(inner)} for each {', '.join(rows)}"
    if problem.threads > 1:
        yield Offer(name, f"threads share {rows[0]}, {said}", why, threads, (name,), work)
    alone = replace(work.by_one_of(problem.threads), chain=work.chain + 0.01)
    yield Offer(name, said, why, apply, (name,), alone)


def _rows(declared: Declared, ranged: set[str]) -> list[str]:
    """The iterators of terms that say a range: those by which its ends are read."""
    found = {
        index
        for guard in declared.guards
        if ranged & set(iterators(guard))
        for access in accesses(guard)
        for index in iterators(access)
    }
    return [each for each in declared.over if each in found]
