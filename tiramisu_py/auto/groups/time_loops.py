"""Computations that read values of their own: fields over time, in tiles of several levels."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.recipes import time_stencil

#: In three dimensions the halos of tiles cost as much as they save, unless a level is far larger than all caches.
MOST_DIMENSIONS = 2
#: The share of values that come from memory, if tiles compute several levels.
MOVED = 0.25


def tiled_over_time(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a field whose levels are computed from earlier ones, the outermost loop being time."""
    declared = problem.computation(name)
    own = [touch for touch in problem.touches(name) if touch.access.source == name]
    if len(declared.iterators) < 2 or declared.group or not own:
        return
    time, *space = declared.iterators
    if len(space) > MOST_DIMENSIONS:
        return
    if any((touch.offset(0, time) or 0) >= 0 for touch in own):
        return
    offsets = [[touch.offset(axis, each) for axis, each in enumerate(space, 1)] for touch in own]
    if any(None in each for each in offsets) or not any(any(each) for each in offsets):
        return
    yield Offer(
        name, f"tiles over {', '.join((time, *space))} that compute several levels of {time} in the cache",
        f"a level of {name} needs only neighbours in earlier ones: a tile is read once for several levels",
        lambda function: time_stencil(function[name], cpu=problem.cpu), (name, *_copies(problem, name)),
        problem.work(name, space[-1], problem.lanes(name), moved=MOVED), is_tiled=True,
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
