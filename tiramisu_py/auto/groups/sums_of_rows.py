"""Results that depend on sums of their row, such as softmax and its gradient: all stages of a row before the next one.

The commands are those of `tm.recipes.rows`. Results of the same rows join them where that keeps more stages in a row:
a loss beside its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.auto.model.strides import best_iterator
from tiramisu_py.auto.single.contractions import roles_of
from tiramisu_py.auto.single.one_pass import pair_of
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Recipe, rows
from tiramisu_py.recipes.reductions.chain_of_rows import Chain, axes


def in_their_rows(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a result and the stages on which it depends: a row is in the cache while they are computed."""
    found = _with_results_beside(problem, name)
    if found is None or not found.results:  # `one_pass` is for sums of columns alone
        return
    sums = [each.name for each in found.stages if problem.computation(each.name).is_reduction]
    paired = not found.columns and any(pair_of(problem, each) for each in sums)  # by sums that are one nest with these
    if not sums or paired or not all(_is_of_rows(problem, each) for each in sums):
        return
    ends = [each.name for each in (*found.results, *found.columns)]
    covered = (*(each.name for each in found.stages), *ends)
    own = problem.work(name, axes(problem.computation(name))[-1], problem.lanes(name), moved=1 / len(covered))
    work = replace(own, bytes=own.bytes - _bytes_saved(problem, found))
    yield Offer(
        name, f"{', '.join(covered)} row by row", "a row is in the cache while all its stages are computed",
        lambda function: rows(*(function[each] for each in ends), cpu=problem.cpu), covered, work,
    )  # fmt: skip


def _is_of_rows(problem: Problem, name: str) -> bool:
    """Whether the terms of a sum are contiguous, and no operand of it is read again for many rows or columns."""
    declared = problem.computation(name)
    if roles_of(problem, name) is not None:
        return False
    return best_iterator(problem.touches(name), declared, declared.point_iterators) in declared.over


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
