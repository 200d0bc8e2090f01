"""Values that are substituted where they are read."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.auto.single.phases import phases_of
from tiramisu_py.queries import Select, kinds

#: The most operations of a value that is computed again where it is read, instead of being kept.
CHEAP = 4


def inlined(problem: Problem, name: str) -> Iterator[Offer]:
    """Substitute a value where it is read, if that repeats no work worth keeping, nor hides the form of a product."""
    readers = problem.readers[name]
    if name in problem.algorithm.outputs or not readers:
        return
    if any(problem.computation(each).is_reduction or problem.computation(each).group for each in readers):
        return
    last = problem.computation(name).iterators[-1:]
    if last and phases_of(problem, name, last[0]) > 1:
        return
    if all(len(problem.computation(each).iterators) == len(problem.computation(name).iterators) for each in readers):
        once = len(readers) == 1 and len(problem.reads_of(readers[0], name)) == 1
        if once or (problem.operations(name) <= CHEAP and Select not in kinds(problem.computation(name).expr)):
            why = "each value is read once" if once else "computing a value again costs less than keeping it"
            again = sum(len(problem.reads_of(each, name)) for each in readers) - 1
            work = ValueWork(problem.operations(name) * again, 0.0, 0.0, problem.lanes(name))
            yield Offer(name, "inlined", why, lambda function: function[name].inline(), (name,), work)
