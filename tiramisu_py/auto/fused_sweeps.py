"""Sweeps of one step in one nest: each row of a computation as soon as the rows are there that it reads.

::

    for t:                              for t:
        for i, j: e[t, i, j]                for i:
        for i, j: h[t, i, j]      -->           for j: e[t, i, j]
                                                for j: h[t, i - 1, j]

A row is then in the cache when the next computation reads it. Rows depend on each other: threads cannot share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.auto.carried import LoopDependences
from tiramisu_py.auto.nests import members_of
from tiramisu_py.auto.offers import Offer, Problem
from tiramisu_py.function import Function
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.statement import Role, Statement


def fused(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a group whose computations share the loop over steps, and have the same number of loops inside."""
    names = members_of(problem, name)
    program = problem.function.program
    statements = tuple(each for source in names for each in program.statements_of(source))
    alike = len({len(each.loops) for each in statements}) == 1 and all(each.role is Role.VALUE for each in statements)
    if problem.threads > 1 or len(statements) < 2 or not alike or len(statements[0].loops) < 3:
        return
    if any(shared(a, b) != 1 for a, b in pairwise(statements)):
        return
    dependences = LoopDependences(program, statements)
    ordered = sorted(statements, key=lambda each: program.positions[each.name])
    delays = _delays(dependences, ordered)
    inner = [each.loops[-1] for each in statements]
    if delays is None or dependences.carrying & set(inner):
        return
    lanes = problem.lanes(name)

    def apply(function: Function) -> None:
        for before, after in pairwise(ordered):
            function[after.source].fuse(function[before.source], Iter(program.loop_names(after)[1]))
        for each, delay in zip(ordered, delays, strict=True):
            if delay:
                now = function.program.statements[each.name]
                function[each.source].shift(Iter(function.program.loop_names(now)[1]), delay)
            function[each.source].vectorize(Iter(program.loop_names(each)[-1]), lanes, remainder="mask")

    rows = program.loop_names(ordered[0])[1]
    said = ", ".join(f"{each.source} {delay} later" for each, delay in zip(ordered, delays, strict=True) if delay)
    last = problem.computation(name).iterators[-1]
    yield Offer(
        name, f"{', '.join(each.source for each in ordered)} in one loop over {rows}{f', {said}' if said else ''}",
        "a row is in the cache when the next computation reads it", apply, names,
        problem.work(name, last, lanes, moved=0.4),
    )  # fmt: skip


def _delays(dependences: LoopDependences, ordered: Sequence[Statement]) -> list[int] | None:
    """How many rows later each computation runs, so that what it needs of the same step is there; None if none do."""
    delays: list[int] = []
    for position, statement in enumerate(ordered):
        least = 0
        for before, delay in zip(ordered[:position], delays, strict=True):
            for each in dependences.all:
                if each.first is before and each.second is statement:
                    inside = sets.equal_prefix(each.pairs, 1)
                    distance = 0 if inside.is_empty() else sets.least_distance(inside, 1)
                    if distance is None:
                        return None
                    least = max(least, delay - distance if not inside.is_empty() else 0)
        delays.append(least)
    return delays
