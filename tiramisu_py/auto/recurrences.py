"""Computations that read values of their own: fields over time in tiles, recurrences of several lines at once."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.auto.carried import LoopDependences
from tiramisu_py.auto.offers import Offer, Problem
from tiramisu_py.auto.strides import APART
from tiramisu_py.function import Function
from tiramisu_py.recipes import time_stencil

#: How many lines run side by side: the chain of additions of one leaves the adders idle for as long.
LINES = 8


def tiled_over_time(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a field whose levels are computed from earlier ones, the outermost loop being time."""
    declared = problem.computation(name)
    own = [touch for touch in problem.touches(name) if touch.access.source == name]
    if len(declared.iterators) < 2 or declared.group or not own:
        return
    time, *space = declared.iterators
    if any((touch.offset(0, time) or 0) >= 0 for touch in own):
        return
    offsets = [[touch.offset(axis, each) for axis, each in enumerate(space, 1)] for touch in own]
    if any(None in each for each in offsets) or not any(any(each) for each in offsets):
        return
    yield Offer(
        name, f"tiles over {', '.join((time, *space))} that compute several levels of {time} in the cache",
        f"a level of {name} needs only neighbours in earlier ones: a tile is read once for several levels",
        lambda function: time_stencil(function[name], cpu=problem.cpu), (name, *_copies(problem, name)), 4.0,
    )  # fmt: skip


def _copies(problem: Problem, name: str) -> list[str]:
    """The outputs that are a part of a field, with at least two loops: the recipe gives them their loops."""
    found = []
    for each in problem.readers[name]:
        declared = problem.computation(each)
        alone = {touch.access.source for touch in problem.touches(each)} == {name}
        if each != name and alone and each in problem.algorithm.outputs and len(declared.iterators) > 1:
            found.append(each)
    return found


def several_lines(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a recurrence along neighbours: vectors across it would be strided, so that lines are jammed."""
    program = problem.function.program
    statements = program.statements_of(name)
    if len(statements) != 1 or problem.computation(name).group or len(statements[0].loops) < 2:
        return
    (statement,) = statements
    carrying = LoopDependences(program, statements).carrying
    free = [loop for loop in statement.loops if loop not in carrying]
    if not free or statement.loops[-1] not in carrying:
        return
    lines, last = program.loops[free[-1]].name, program.loops[statement.loops[-1]].name
    if all(touch.cost(lines) < APART for touch in problem.touches(name)):
        return

    def apply(function: Function) -> None:
        function[name].unroll_and_jam(Iter(lines), LINES)
        function[name].parallelize(Iter(program.loops[free[0]].name))

    yield Offer(
        name, f"{LINES} of {lines} side by side along {last}",
        f"values depend on the ones before along {last}, and vectors along {lines} would be far apart in memory",
        apply, (name,), 4.5,
    )  # fmt: skip
