"""Recurrences over time of which few levels are kept, and what reads each level and follows it in its loop.

::

    for t:                      for t:
        for i: u                    for i: u, of which two levels are kept
    for t, i: energy    -->         for i: energy

    for t backwards:            for t backwards:
        for i: d_u                  for i: d_u, of which two levels are kept
    for i, t: d_c       -->         for i: d_c
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiramisu_py import Combine, Function, Iter
from tiramisu_py.auto.model.offers import Problem
from tiramisu_py.queries import loop_direction
from tiramisu_py.recipes.reductions.rows import accumulating
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class LevelReader:
    """A computation that reads the levels of another one as they are made, the last of them `later` iterations later.

    Its iterator `along` goes with the levels; `is_turned` says that its loop is to run the other way for it.
    """

    name: str
    along: str
    later: int
    is_turned: bool = False

    def follow(self, problem: Problem, function: Function, fold: KeptLevels, threads: bool, vectors: bool) -> None:
        """Compute it in each iteration of the first loop of a folded computation, after that."""
        handle: Any = function[self.name]
        declared, source, lanes = problem.computation(self.name), function[fold.source], problem.lanes(self.name)
        if self.is_turned:
            handle.reverse(Iter(self.along))
        if self.along in declared.over:
            order = (self.along, *declared.iterators[:-1], *declared.over[1:], *declared.iterators[-1:])
            if len(order) > 1:
                handle.update.reorder(*map(Iter, order))
            handle.update.after(source, Iter(fold.time))
            if threads and len(declared.iterators) > 1:
                handle.update.parallelize(Iter(declared.iterators[0]))
            if vectors and declared.iterators:
                handle.update.vectorize(Iter(declared.iterators[-1]), lanes, remainder="mask")
            return
        handle.after(source, Iter(fold.time))
        if declared.is_reduction:
            if len(declared.over) > 1 and not declared.in_order and threads:
                handle.update.parallelize(Iter(declared.over[0]), combine=Combine.PRIVATE)
            if vectors and not declared.in_order:
                wide = accumulating(lanes, problem.cpu)
                handle.update.vectorize(Iter(declared.over[-1]), wide, combine=Combine.PRIVATE)
            return
        if len(declared.iterators) > 2 and threads:
            handle.parallelize(Iter(declared.iterators[1]))
        if len(declared.iterators) > 1 and vectors:
            handle.vectorize(Iter(declared.iterators[-1]), lanes, remainder="mask")


@dataclass(frozen=True)
class KeptLevels:
    """Few levels of a computation are kept along its first loop: `levels`, or the `fewest` where a value is stored over
    the one that it alone reads, at its own place. Readers `beside` it are computed in the same loop, after it.
    """

    source: str
    time: str
    levels: int
    fewest: int
    beside: tuple[LevelReader, ...] = ()

    @property
    def words(self) -> str:
        """A sentence of what it does, for an offer."""
        said = f"{self.source} keeps {self.levels} of {self.time}"
        return f"{said}, each followed by {', '.join(each.name for each in self.beside)}" if self.beside else said

    def apply(self, function: Function) -> None:
        """Give the command."""
        function[self.source].fold(Iter(self.time), self.levels)


def folds_of(problem: Problem, names: Sequence[str]) -> Iterator[KeptLevels]:
    """The computations that are read only some iterations of their first loop later, and how many of these to keep.

    What reads the last ones after the loop is left to the proof. Computations that the user has stored are left out.
    """
    for name in names:
        found = kept_levels(problem, names, name)
        if isinstance(found, KeptLevels):
            yield found


def kept_levels(problem: Problem, names: Sequence[str], name: str) -> KeptLevels | str | None:
    """The levels to keep of a computation; the reader outside that prevents it; None if nothing is to be folded."""
    declared = problem.computation(name)
    if name in problem.algorithm.outputs or declared.is_reduction or len(declared.iterators) < 2:
        return None
    if not problem.has_first_storage(name):
        return None
    time, way = declared.iterators[0], direction(problem, name)
    readers = [each for each in problem.readers[name] if each in names and time in problem.computation(each).iterators]
    offsets = [touch.offset(0, time) for each in readers for touch in problem.reads_of(each, name)]
    if way is None or not offsets or None in offsets:
        return None
    back = [-way * (each or 0) for each in offsets]
    if min(back) < 0 or max(back) == 0:
        return None
    beside: list[LevelReader] = []
    for each in problem.readers[name]:
        if each not in names and not _reads_one_level(problem, each, name):
            found = _level_reader(problem, each, name, way)
            if found is None:
                return each
            beside.append(found)
    later = max([0, *(each.later for each in beside)])
    own = max(back)
    over = own if names == (name,) and _is_in_place(problem, name, -way * own) else 1 + own
    return KeptLevels(name, time, 1 + max(own, later), max(over, 1 + later), tuple(beside))


def direction(problem: Problem, name: str) -> int | None:
    """1 if the first loop of a computation runs as declared, -1 if backwards; None if it is no such loop."""
    (first, *_) = problem.function.program.statements_of(name)
    return loop_direction(first, 0)


def _reads_one_level(problem: Problem, reader: str, source: str) -> bool:
    """Whether a computation reads the same levels of another one in all of its iterations."""
    return all(touch.forms[0] == {} for touch in problem.reads_of(reader, source))


def _level_reader(problem: Problem, reader: str, source: str, way: int) -> LevelReader | None:
    """How a computation outside reads levels no earlier than they are made; None if it cannot follow the source.

    A sum follows it only if it takes its terms in the order of the levels, so that none is added earlier than declared,
    and if it has no more dimensions than a level: else each level would go through all of its elements in memory.
    """
    declared, touched = problem.computation(reader), problem.reads_of(reader, source)
    if not declared.iterators and not declared.over:
        return None
    if declared.group or declared.stage is not None or reader in problem.given or problem.is_recurrent(reader):
        return None
    along = {each for touch in touched for each in touch.forms[0] or ()}
    forms = [touch.forms[0] for touch in touched]
    if len(along) != 1 or any(form != forms[0] for form in forms):
        return None
    (name,) = along
    step, apart = (forms[0] or {})[name], [touch.constants[0] for touch in touched]
    if None in apart or abs(step) != 1:
        return None
    later = [-way * (each or 0) for each in apart]
    is_turned = step != way
    if min(later) < 0:
        return None
    if name in declared.over:
        is_first = not is_turned and name == declared.over[0]
        is_small = len(declared.iterators) < len(problem.computation(source).iterators)
        return LevelReader(reader, name, max(later)) if is_first and is_small else None
    return LevelReader(reader, name, max(later), is_turned) if name == declared.iterators[0] else None


def _is_in_place(problem: Problem, name: str, furthest: int) -> bool:
    """Whether the values of the furthest level that a value reads are the one at its own place."""
    time, *space = problem.computation(name).iterators
    last = [touch for touch in problem.reads_of(name, name) if touch.offset(0, time) == furthest]
    return all(touch.offset(axis, each) == 0 for touch in last for axis, each in enumerate(space, 1))
