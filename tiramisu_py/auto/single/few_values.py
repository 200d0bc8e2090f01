"""Sums of a few values over the same long rows of terms: a vector of partial results for each, all in registers.

::

    for o, y, x:                                for o:
        for b, i:                                   for b, i:
            for j: d[o, y, x] += ..     -->             for j in vectors:
                                                            d_partial[o, y, x, lane] += .. for each (y, x), unrolled
                                                    d[o, y, x] += d_partial[o, y, x, lane] for each lane

The gradient of the weights of a convolution is such a sum: a row of the picture is read once for all of them, and lanes
are combined once in the end, not for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tiramisu_py import Combine, Function, Iter, Memory
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import APART, read_cost
from tiramisu_py.queries import is_box
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class FewValues:
    """The iterators of a sum: values outside, the few of which each has a vector, other terms, and those in lanes."""

    outer: tuple[str, ...]
    few: tuple[str, ...]
    terms: tuple[str, ...]
    lane: str


def few_values(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a sum whose last values are few, whatever the sizes are, and whose terms are long rows."""
    found = _few(problem, name)
    if found is None:
        return
    lanes = problem.lanes(name)
    yield Offer(
        name, f"{', '.join(found.outer)} outside, a vector of {lanes} partial results along {found.lane} for each of "
        f"{', '.join(found.few)}",
        f"terms are contiguous along {found.lane}, and the same for the values of {', '.join(found.few)}",
        lambda function: _apply(function, name, found, lanes), (name,), _work(problem, name, found, lanes),
    )  # fmt: skip


def _few(problem: Problem, name: str) -> FewValues | None:
    declared = problem.computation(name)
    if declared.guards or declared.group or declared.in_order or len(declared.over) < 2 or not is_box(declared):
        return None
    extents = dict(zip(declared.point_iterators, problem.point_extents(name), strict=True))
    few: tuple[str, ...] = ()
    for each in reversed(declared.iterators):
        if extents[each] is None or math.prod(extents[value] or 1 for value in (*few, each)) > _room(problem):
            break
        few = (each, *few)
    outer, lane = declared.iterators[: len(declared.iterators) - len(few)], declared.over[-1]
    if not few or not outer or extents[lane] is not None:
        return None
    contiguous = all(read_cost(touch, lane) < APART and touch.mentions(lane) for touch in problem.touches(name))
    return FewValues(outer, few, declared.over[:-1], lane) if contiguous else None


def _room(problem: Problem) -> int:
    """The vectors of results that leave registers for operands."""
    return problem.cpu.registers // 2 + problem.cpu.registers // 4


def _work(problem: Problem, name: str, found: FewValues, lanes: int) -> ValueWork:
    """The work of a term: reads that no few value changes are one for all of them, and no result is stored."""
    extents = dict(zip(problem.computation(name).point_iterators, problem.point_extents(name), strict=True))
    count = math.prod(extents[each] or 1 for each in found.few)
    work = problem.work(name, found.lane, lanes, stores=0.0)
    shared = [touch for touch in problem.touches(name) if not any(touch.mentions(each) for each in found.few)]
    return replace(work, accesses=work.accesses - len(shared) * (1 - 1 / count))


def _apply(function: Function, name: str, found: FewValues, lanes: int) -> None:
    update: Any = function[name].update
    fresh, few = Fresh(function), [Iter(each) for each in found.few]
    block, lane, own_block, own_lane = (fresh(f"{found.lane}{level}") for level in range(4))
    update.split(Iter(found.lane), lanes, block, lane)
    partial = update.rfactor(lane)
    update.reorder(*map(Iter, found.outer), *few, lane)
    partial.compute_at(update, Iter(found.outer[-1]))
    partial.store_in(Memory.REGISTER)
    partial.update.split(Iter(found.lane), lanes, own_block, own_lane)
    partial.update.reorder(*map(Iter, found.terms), own_block, *few, lane, own_lane)
    update.parallelize(Iter(found.outer[0]))
    for each in few:
        partial.unroll(each)
        update.unroll(each)
    partial.vectorize(lane, lanes, remainder="mask")
    update.vectorize(lane, lanes, combine=Combine.PRIVATE)
