"""Points that a model of the costs would not propose: with values that were hardly tried, and beside the best one."""

from __future__ import annotations

import math
from random import Random

from tiramisu_py.tuning.search.drawing import Drawn
from tiramisu_py.tuning.search.space import Point, Space

#: Draws of the other parameters for one value.
TRIES = 200


class Explorer:
    """Proposes points by what has been tried.

    A model that has seen no good point with a value gives that value up, also where only its combinations with others
    were bad; and it seldom tries the last steps to the best point.
    """

    def __init__(self, space: Space, drawn: Drawn, seed: int) -> None:
        self._space = space
        self._drawn = drawn
        self._random = Random(seed)
        self._tried = {name: [0] * len(values) for name, values in space.values.items()}
        self._turn = 0
        self._best: tuple[float, Point] | None = None

    def tell(self, point: Point, cost: float | None) -> None:
        """Takes note of a point that was tried, and of its cost, if it has one."""
        for name, index in self._space.indices(point).items():
            self._tried[name][index] += 1
        if cost is not None and (self._best is None or cost < self._best[0]):
            self._best = cost, point

    def rare(self) -> Point | None:
        """A new point with a value that was hardly tried, of one parameter after another; None if none is met."""
        names = list(self._space.values)
        for _ in names:
            name = names[self._turn % len(names)]
            self._turn += 1
            tried = self._tried[name]
            least = sorted(range(len(tried)), key=lambda index: (tried[index], self._random.random()))
            for index in least[:2]:
                point = self._with(name, index)
                if point is not None:
                    return point
        return None

    def near(self) -> Point | None:
        """A new point that differs from the best one in one value: the next lower or higher one, or any if the values
        have no order; None if there is none left.
        """
        if self._best is None:
            return None
        at = self._space.indices(self._best[1])
        steps = [(name, index) for name in at for index in self._beside(name, at[name])]
        self._random.shuffle(steps)
        for name, index in steps:
            point = self._space.at({**at, name: index})
            if self._drawn.is_new(point):
                return point
        return None

    def _beside(self, name: str, index: int) -> list[int]:
        count = len(self._space.values[name])
        if self._space.is_ordered(name):
            return [other for other in (index - 1, index + 1) if 0 <= other < count]
        return [other for other in range(count) if other != index]

    def _with(self, name: str, index: int) -> Point | None:
        """A new random point with a value of one parameter."""
        others = {other: len(values) for other, values in self._space.values.items() if other != name}
        for _ in range(min(TRIES, 4 * math.prod(others.values()))):
            drawn = {other: self._random.randrange(count) for other, count in others.items()}
            point = self._space.at({**drawn, name: index})
            if self._drawn.is_new(point):
                return point
        return None
