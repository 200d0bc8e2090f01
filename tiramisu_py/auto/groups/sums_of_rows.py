"""Results that depend on sums of their row, such as softmax and its gradient: all stages of a row before the next one.

The commands are those of `tm.recipes.rows`. Results of the same rows join them where that keeps more stages in a row:
a loss beside its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Recipe, rows
from tiramisu_py.recipes.reductions.chain_of_rows import Chain, axes


def in_their_rows(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a result and the stages on which it depends, if a row of them is read again while it is cached."""
    found = _with_results_beside(problem, name)
    if found is None or not any(problem.computation(each.name).is_reduction for each in found.stages):
        return
    saved = _bytes_saved(problem, found)
    if not saved:
        return
    ends = [each.name for each in (*found.results, *found.columns)]
    covered = (*(each.name for each in found.stages), *ends)
    declared, lanes = problem.computation(name), problem.lanes(name)
    of_elements = len(axes(declared)) > found.count
    own = problem.work(name, axes(declared)[-1] if of_elements else None, lanes if of_elements else 1)
    work = replace(own, bytes=own.bytes - saved * (1 if of_elements else lanes))
    yield Offer(
        name, f"{', '.join(covered)} row by row", f"the rows that {', '.join(ends)} depend on are in the cache then",
        lambda function: rows(*(function[each] for each in ends), cpu=problem.cpu), covered, work,
    )  # fmt: skip


def _with_results_beside(problem: Problem, name: str) -> Chain | None:
    """The chain of a result, with those outputs of the same rows that save traffic if they join it."""
    ends = [name]
    for other in problem.algorithm.outputs:
        beside = other in problem.algorithm.computations and other not in problem.given
        if beside and other != name and not problem.readers[other] and _chain(problem, (other, *ends)):
            ends.append(other)
    for other in ends[1:]:
        with_it, without = (_chain(problem, each) for each in (ends, [each for each in ends if each != other]))
        if with_it and without and _bytes_saved(problem, with_it) == _bytes_saved(problem, without):
            ends.remove(other)
    return _chain(problem, ends)


def _chain(problem: Problem, ends: Sequence[str]) -> Chain | None:
    """The chain that ends with some computations; None where they have another form."""
    try:
        return Chain.of(Recipe("rows", [problem.function[each] for each in ends]))
    except ArgumentError:
        return None


def _bytes_saved(problem: Problem, chain: Chain) -> float:
    """The bytes for each element of a row that need not come from memory, nor go there."""
    kept = [problem.computation(each.name) for each in chain.stages]
    saved = 2.0 * sum(each.dtype.bytes for each in kept if len(each.iterators) > chain.count)
    parts = [each.name for each in (*chain.stages, *chain.results, *chain.columns)]
    read: dict[str, list[int]] = {}
    for each in parts:
        own = axes(problem.computation(each))
        for touch in problem.touches(each) if len(own) > chain.count else ():
            if touch.alone == own and touch.access.source not in parts:
                read.setdefault(touch.access.source, []).append(touch.access.dtype.bytes)
    return saved + sum(sum(sizes[1:]) for sizes in read.values())
