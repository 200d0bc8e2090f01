"""Computations whose values do not depend on each other: threads share the outermost loop, the best one is vectors."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import best_iterator
from tiramisu_py.function import Function

#: The block of a single loop that threads share.
BLOCK = 1 << 14


def streamed(problem: Problem, name: str) -> Iterator[Offer]:
    """The candidates of a computation of values that are independent of each other."""
    declared = problem.computation(name)
    if not declared.loop_iterators or declared.stage is not None:
        return
    vector = best_iterator(problem.touches(name), declared, declared.iterators)
    assert vector is not None
    lanes, outer = problem.lanes(name), [each for each in declared.iterators if each != vector]
    shared = f"threads share {outer[0] if outer else f'blocks of {BLOCK} of {vector}'}"
    why = "no value reads another one of it"

    def both(function: Function) -> None:
        loops = _ordered(function, name, vector)
        if len(loops) == 1:
            fresh = Fresh(function)
            first, loops[0] = fresh(f"{vector}0"), fresh(f"{vector}1")
            function[name].split(Iter(vector), BLOCK, first, loops[0])
            loops.insert(0, first)
        function[name].parallelize(loops[0])
        function[name].vectorize(loops[-1], lanes, remainder="mask")

    def threads(function: Function) -> None:
        function[name].parallelize(Iter(declared.iterators[0]))

    if problem.threads == 1 and not outer:
        yield Offer(
            name, f"vectors of {lanes} along {vector}", why,
            lambda function: function[name].vectorize(Iter(vector), lanes, remainder="mask"), (name,),
            problem.work(name, vector, lanes),
        )  # fmt: skip
    else:
        yield Offer(
            name, f"{shared}, vectors of {lanes} along {vector}", why, both, (name,), problem.work(name, vector, lanes)
        )
    yield Offer(name, f"threads share {declared.iterators[0]}", why, threads, (name,), problem.work(name, None))


def _ordered(function: Function, name: str, vector: str) -> list[Iter]:
    """Put the loop of the vectors innermost, and return all loops."""
    loops = [Iter(each) for each in function.program.algorithm.computations[name].iterators]
    if loops[-1].name != vector:
        loops = [*(each for each in loops if each.name != vector), Iter(vector)]
        function[name].reorder(*loops)
    return loops
