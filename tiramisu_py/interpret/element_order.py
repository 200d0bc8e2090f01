"""Levels of executions: those of one level touch nothing of each other, and come after what they depend on.

An execution loads, and then stores. It depends on an earlier one if both touch an element, and one of them stores to
it. So executions of level 0, then those of level 1, .. find and leave what they do one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiramisu_py.interpret.nest_elements import NestExecutions, UnsuitableError
from tiramisu_py.ir import Load
from tiramisu_py.ir.rewriting import loads_in
from tiramisu_py.records import dataclass

Whole = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(eq=False)
class StoredElements:
    """The elements of arrays that executions store to, and when, of all stores one after another.

    `stored` are numbers of elements, those of different arrays apart; `time` grows in the order of execution, and is
    that of a whole vector. Store `k` has the positions from ``starts[k]`` on.
    """

    stored: Whole
    time: Whole
    starts: tuple[int, ...]
    bases: dict[str, int]


def places(found: Sequence[NestExecutions]) -> StoredElements:
    """The elements that executions store to; raises `UnsuitableError` where one is outside of its array."""
    bases: dict[str, int] = {}
    after = 0
    for each in found:
        if each.store.buffer not in bases:
            bases[each.store.buffer] = after
            after += each.array.data.size
    stored = []
    for each in found:
        own = each.flat(each.store.indices, each.array)
        if own.min() < 0:
            raise UnsuitableError("a store is outside of its array")
        stored.append(own + bases[each.store.buffer])
    starts = (0, *np.cumsum([len(own) for own in stored]).tolist())
    return StoredElements(np.concatenate(stored), _times(found), tuple(starts), bases)


def _times(found: Sequence[NestExecutions]) -> Whole:
    """Numbers that are ordered as the executions are: the columns of their order as digits."""
    depth = max(len(each.order) for each in found)
    times: Whole = np.zeros(sum(each.elements.count for each in found), np.int64)
    size = 1
    for place in range(depth):
        digits = [each.order[place] if place < len(each.order) else 0 for each in found]
        pairs = zip(digits, found, strict=True)
        column = np.concatenate([np.broadcast_to(own, each.elements.count) for own, each in pairs])
        least, most = int(column.min()), int(column.max())
        size *= most - least + 1
        if size >= 1 << 62:
            raise UnsuitableError("too many iterations to be numbered")
        times = times * (most - least + 1) + (column - least)
    return times


def touches_its_own(each: NestExecutions, stored: frozenset[str]) -> bool:
    """Whether a store loads nothing that the nest stores but the element that it stores to."""
    return all(is_own(load, each) for load in loads_in(each.store.value) if load.buffer in stored)


def is_own(load: Load, each: NestExecutions) -> bool:
    """Whether a load is that of the element that a store stores to."""
    pairs = zip(load.indices, each.store.indices, strict=False)
    return load.buffer == each.store.buffer and all(a.key() == b.key() for a, b in pairs)


@dataclass(eq=False)
class Groups:
    """NestExecutions that store to one element side by side, in their order: `order` are their positions.

    `first` says of each group where it begins, `size` how many there are, `number` which one of its group each is.
    """

    order: Whole
    first: Whole
    size: Whole
    number: Whole


def groups(at: StoredElements) -> Groups:
    """Executions by the element that they store to; raises `UnsuitableError` for one that a vector stores to twice."""
    order = np.lexsort((at.time, at.stored))
    element, time = at.stored[order], at.time[order]
    begins = np.concatenate([[True], element[1:] != element[:-1]])
    if np.any(~begins[1:] & (time[1:] == time[:-1])):
        raise UnsuitableError("two lanes of a store have one element")
    first = np.flatnonzero(begins)
    size = np.diff(np.append(first, len(order)))
    return Groups(order, first, size, np.arange(len(order)) - np.repeat(first, size))


def levels(found: Sequence[NestExecutions], at: StoredElements) -> Whole:
    """The level of each execution."""
    stored = frozenset(at.bases)
    if all(touches_its_own(each, stored) for each in found):
        grouped = groups(at)
        level = np.empty_like(grouped.number)
        level[grouped.order] = grouped.number
        return level
    return _after_conflicts(found, at, stored)


def _after_conflicts(found: Sequence[NestExecutions], at: StoredElements, stored: frozenset[str]) -> Whole:
    """The level of each execution, one after another: after the last store to what it touches, and the loads of it."""
    groups(at)
    loaded, times, arrays = [], [], {each.store.buffer: each.array for each in found}
    for each, start in zip(found, at.starts, strict=False):
        for load in loads_in(each.store.value):
            if load.buffer in stored:
                own = each.flat(load.indices, arrays[load.buffer])
                inside = own >= 0
                loaded.append(own[inside] + at.bases[load.buffer])
                times.append(at.time[start : start + each.elements.count][inside])
    elements = np.concatenate([at.stored, *loaded])
    _, compact = np.unique(elements, return_inverse=True)
    all_times = np.concatenate([at.time, *times])
    moments, moment = np.unique(all_times, return_inverse=True)
    stores = np.arange(len(elements)) < len(at.stored)
    order = np.lexsort((stores, moment))
    level = _walked(compact[order].tolist(), moment[order].tolist(), stores[order].tolist(), len(moments))
    return level[moment[: len(at.stored)]]


def _walked(elements: list[int], moments: list[int], stores: list[bool], count: int) -> Whole:
    """The level of each moment, from the accesses in their order."""
    after_store, after_load = [0] * (1 + max(elements)), [0] * (1 + max(elements))
    level = [0] * count
    end = len(elements)
    at = 0
    while at < end:
        moment, begin, own = moments[at], at, 0
        while at < end and moments[at] == moment:
            element = elements[at]
            own = max(own, after_store[element], after_load[element] if stores[at] else 0)
            at += 1
        level[moment] = own
        for position in range(begin, at):
            element = elements[position]
            if stores[position]:
                after_store[element], after_load[element] = own + 1, 0
            else:
                after_load[element] = max(after_load[element], own + 1)
    return np.array(level)
