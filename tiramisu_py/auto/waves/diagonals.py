"""Recurrences along all of their loops: diagonals whose values are independent, stored and computed as vectors.

::

    for t:                          for t0, w:
        for i, j: a[i, j]   -->         for t in the block t0:
                                            for i in vectors: a[w - 3 t - 2 i, i]

In each step the values with the same ``2 i + j`` do not depend on each other. They are neighbours in memory if they are
stored by this sum and by i. The diagonals of a block of steps follow one another while they are in the cache. Source:
Lamport, The Parallel Execution of DO Loops (the hyperplane method).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiramisu_py import Function, Iter
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import APART
from tiramisu_py.auto.waves.step_pipelines import MOST_STEPS, MOVED, ROW
from tiramisu_py.errors import TiramisuError
from tiramisu_py.queries import LoopDependences, Role, Statement, distances, have_one_end
from tiramisu_py.records import dataclass

#: Diagonals that are steeper have few values.
STEEPEST = 4


def diagonal(problem: Problem, name: str) -> Iterator[Offer]:
    """The offers of a recurrence whose last two loops carry dependences, in diagonals of these.

    The first one keeps one value for all iterations of the first loop, which the proof may refuse.
    """
    program, declared = problem.function.program, problem.computation(name)
    statements = program.statements_of(name)
    if len(statements) != 1 or statements[0].role is not Role.VALUE or name in problem.algorithm.outputs:
        return
    statement = statements[0]
    names = program.loop_names(statement)
    if len(names) not in (2, 3, 4) or tuple(names) != declared.iterators:
        return
    if not set(statement.loops[-2:]) <= LoopDependences(program, (statement,)).carrying:
        return
    slope = _slope(distances(program, name))
    if slope is None:
        return
    for found in _stored(problem, statement, slope):
        delay = found.delay()
        if delay is not None:
            yield found.offer(delay)


def _stored(problem: Problem, statement: Statement, slope: int) -> Iterator[_Diagonals]:
    """Ways to store the values: a few diagonals, one value for all steps, or all values.

    An array of all diagonals has the square of the number of rows: it is made only if there are as many columns.
    """
    names = problem.computation(statement.source).iterators
    if len(names) == 2:
        back = _furthest(problem, statement.source, slope)
        if back is not None:
            yield _Diagonals(problem, statement.source, names, slope, (), back + 1)
    if have_one_end(statement, len(names) - 2, len(names) - 1):
        for kept in (names[1:-2], names[:-2])[len(names) == 2 :]:
            yield _Diagonals(problem, statement.source, names, slope, tuple(kept))


def _furthest(problem: Problem, name: str, slope: int) -> int | None:
    """How many diagonals a value reads back; None if that has no bound."""
    rows, columns = problem.computation(name).iterators
    found = [0]
    for each in problem.touches(name):
        if each.access.source == name:
            down, right = each.offset(0, rows), each.offset(1, columns)
            if down is None or right is None:
                return None
            found.append(-slope * down - right)
    return max(found)


@dataclass(frozen=True, eq=False)
class _Diagonals:
    """A recurrence whose values with the same ``slope * rows + columns`` are independent in each step.

    `kept` are the outer loops for whose iterations values have places of their own. With `most`, only so many diagonals
    are kept.
    """

    problem: Problem
    name: str
    loops: Sequence[str]
    slope: int
    kept: tuple[str, ...]
    most: int | None = None

    def delay(self) -> int | None:
        """How many diagonals a step runs behind the one before, if values are stored by diagonals; None if none do."""
        if self.most is not None:
            return 0
        stored = self.problem.function.copy()
        try:
            self._store(stored)
        except TiramisuError:
            return None
        found = distances(stored.program, self.name)
        slope = _slope(found)
        if slope is None or slope > self.slope:
            return None
        delays = [0]
        if len(self.loops) == 3:
            late = [vector for vector in found if vector[0] > 0]
            delays += [-((self.slope * rows + columns) // steps) for steps, rows, columns in late]
        return max(delays)

    def offer(self, delay: int) -> Offer:
        problem, (rows, columns) = self.problem, self.loops[-2:]
        lanes, steps = problem.lanes(self.name), self._steps(delay)
        others = [each for each in problem.touches(self.name) if each.access.source != self.name]
        own = len(problem.touches(self.name)) - len(others)
        accesses = own + 1 + sum(APART if len(each.forms) > 1 else 1.0 for each in others)
        operations, size = problem.operations(self.name), problem.computation(self.name).dtype.bytes
        moved = MOVED if self.most is not None or len(self.kept) == len(self.loops) - 3 else 2 * MOVED
        times = f"{self.slope} " if self.slope > 1 else ""
        what = f"diagonals {times}{rows} + {columns}, stored and computed in vectors of {lanes}"
        if self.kept and len(self.kept) == len(self.loops) - 2:
            what += f", apart for each {self.loops[0]}"
        if self.most is not None:
            what += f"; {self.most} of them are kept"

        def apply(function: Function) -> None:
            self._store(function)
            self._order(function, delay)

        return Offer(
            self.name, f"{what}{f'; {steps} steps follow one another' if len(self.loops) == 3 else ''}",
            f"values depend on earlier ones along {rows} and {columns}, but not on those of their diagonal",
            apply, (self.name,), ValueWork(operations, accesses, moved * size, lanes),
        )  # fmt: skip

    def _steps(self, delay: int) -> int:
        size = self.problem.computation(self.name).dtype.bytes
        most = self.problem.cpu.second // (2 * size * ROW * max(delay, 1))
        return max(2, min(MOST_STEPS, 1 << max(most.bit_length() - 1, 0)))

    def _store(self, function: Function) -> None:
        rows, columns = map(Iter, self.loops[-2:])
        wave = rows + columns if self.slope == 1 else self.slope * rows + columns
        wave = wave if self.most is None else wave % self.most
        function[self.name].store_in([*map(Iter, self.kept), wave, rows])

    def _order(self, function: Function, delay: int) -> None:
        computation, fresh = function[self.name], Fresh(function)
        rows, columns = map(Iter, self.loops[-2:])
        wave = fresh("wave")
        computation.transform([rows, columns], [[self.slope, 1], [1, 0]], [wave, rows])
        if len(self.loops) == 3:
            time = Iter(self.loops[0])
            if delay:
                computation.skew(time, wave, delay)
            if self.problem.tiles:
                outer = fresh(f"{time.name}0")
                computation.split(time, self._steps(delay), outer, time)
                computation.reorder(outer, wave, time)
        computation.vectorize(rows, self.problem.lanes(self.name), remainder="mask")


def _slope(distances: Sequence[Sequence[int]]) -> int | None:
    """The least slope of diagonals along which values of one step are independent; None if none is small."""
    inside = [vector for vector in distances if not any(vector[:-2])]
    for slope in range(1, STEEPEST + 1):
        if all(slope * vector[-2] + vector[-1] > 0 for vector in inside):
            return slope
    return None
