"""Which computations are scheduled together, and the candidates of each: the structure of the schedule."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.domains.scatters import chosen_by_values
from tiramisu_py.algorithm.expressions import Select
from tiramisu_py.algorithm.traversal import kinds
from tiramisu_py.auto.groups.bands import stages
from tiramisu_py.auto.groups.group_orders import fused, terms_outside
from tiramisu_py.auto.groups.nests import swept
from tiramisu_py.auto.groups.pipelines import rows_in_turn
from tiramisu_py.auto.groups.time_loops import tiled_over_time
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.auto.single.independent import streamed
from tiramisu_py.auto.single.sums import chained, read_at_the_end, reduced, scattered

#: The most operations of a value that is computed again where it is read, instead of being kept.
CHEAP = 4


def anchors(problem: Problem) -> Iterator[str]:
    """The computations in the order in which they get commands: recurrences, then each other one after its readers."""
    last_first = list(problem.algorithm.computations)[::-1]
    yield from (name for name in last_first if problem.is_recurrent(name))
    yield from (name for name in last_first if not problem.is_recurrent(name))


def candidates(problem: Problem, name: str) -> list[Offer]:
    """What may be done with a computation that nothing covers yet, the best first."""
    declared = problem.computation(name)
    if declared.stage is not None:
        return []
    if declared.group:
        found = [*terms_outside(problem, name), *fused(problem, name), *swept(problem, name)]
    elif chosen_by_values(declared) and not problem.is_recurrent(name):
        found = list(scattered(problem, name))
    elif declared.is_reduction:
        found = list(reduced(problem, name))
    elif problem.is_recurrent(name):
        found = [*tiled_over_time(problem, name), *swept(problem, name)]
    else:
        found = [*inlined(problem, name), *read_at_the_end(problem, name), *chained(problem, name)]
        found += [*stages(problem, name), *rows_in_turn(problem, name), *streamed(problem, name)]
    found = [each for each in found if problem.tiles or not each.is_tiled]
    return sorted(found, key=lambda each: problem.cost(each.work))


def inlined(problem: Problem, name: str) -> Iterator[Offer]:
    """Substitute a value where it is read, if that repeats no work worth keeping, nor hides the form of a product."""
    readers = problem.readers[name]
    if name in problem.algorithm.outputs or not readers:
        return
    if any(problem.computation(each).is_reduction or problem.computation(each).group for each in readers):
        return
    if all(len(problem.computation(each).iterators) == len(problem.computation(name).iterators) for each in readers):
        once = len(readers) == 1 and len(problem.reads_of(readers[0], name)) == 1
        if once or (problem.operations(name) <= CHEAP and Select not in kinds(problem.computation(name).expr)):
            why = "each value is read once" if once else "computing a value again costs less than keeping it"
            again = sum(len(problem.reads_of(each, name)) for each in readers) - 1
            work = ValueWork(problem.operations(name) * again, 0.0, 0.0, problem.lanes(name))
            yield Offer(name, "inlined", why, lambda function: function[name].inline(), (name,), work)
