"""Sums into ranges that values say, ``start[i] <= e < start[i + 1]``: the loop over i stays outside that over e."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiramisu_py import Combine, Function, Iter
from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.auto.model.strides import best_iterator
from tiramisu_py.queries import Declared, accesses, in_ranges_of_terms, iterators
from tiramisu_py.recipes.spmv import MOST_LANES as MOST_ENTRIES


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
