"""Proposals of the point to try next: all in random order, random ones, or those that Optuna proposes.

Between these are points with values that were hardly tried, and neighbours of the best one, which a model of the costs
would not propose.
"""

from __future__ import annotations

import importlib
import math
from random import Random
from typing import Any, Protocol

from tiramisu_py.errors import ArgumentError
from tiramisu_py.tuning.search.space import Point, Space

#: Draws for each new point; after them, the points that are left are too few to be met by chance.
DRAWS = 1000


class Drawn:
    """Random points of a space that may be too large to list."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._random = Random(seed)
        self._seen: set[int] = set()

    def take(self, count: int) -> list[Point]:
        drawn = (self.draw() for _ in range(count))
        return [point for point in drawn if point is not None]

    def draw(self) -> Point | None:
        """A point that has not been proposed; None if none is met."""
        for _ in range(DRAWS):
            point = self._space.numbered(self._random.randrange(self._space.size))
            if self.is_new(point):
                return point
        if not self._space.is_listed:
            return None
        left = [point for point in self._space.points() if self._space.number(point) not in self._seen]
        return left[0] if left and self.is_new(left[0]) else None

    def is_new(self, point: Point) -> bool:
        """Whether the condition allows a point that has not been proposed; it counts as proposed from now on."""
        number = self._space.number(point)
        if number in self._seen:
            return False
        self._seen.add(number)
        return self._space.allows(point)

    def tell(self, point: Point, cost: float | None) -> None:
        """Nothing follows from it."""


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


SEARCHES = ("grid", "random", "optuna")
#: Proposals of Optuna for each new point; then a random one is taken.
ASKED = 20
#: The points with rare values before all others; then the ways to choose a point take turns.
FIRST, TURNS = 12, ("near", "rare", "near", "estimated")


class Proposals(Protocol):
    """A source of points, each proposed once."""

    def take(self, count: int) -> list[Point]:
        """Up to `count` new points; none if there are none left."""

    def tell(self, point: Point, cost: float | None) -> None:
        """The cost of a point that was taken, to be made small; None if it has none, since it is refused or fails."""


class EveryPoint:
    """All points of a space, in random order."""

    def __init__(self, space: Space, seed: int) -> None:
        self._left = list(space.points())
        Random(seed).shuffle(self._left)
        self._left.reverse()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, count: int) -> list[Point]:
        return [self._left.pop() for _ in range(min(count, len(self._left)))]

    def tell(self, point: Point, cost: float | None) -> None:
        """Nothing follows from it."""


class Guided:
    """The points that Optuna's tree-structured Parzen estimator proposes, given the costs so far, and between these
    points with values that were hardly tried, and neighbours of the best one.

    Parameters whose values are numbers in order are proposed by their index, so that neighbours count as alike. A point
    without a cost is told as pruned, which the estimator ranks below all others.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._drawn = Drawn(space, seed)
        self._explorer = Explorer(space, self._drawn, seed)
        self._taken = 0
        self._optuna = _optuna()
        self._distributions = {name: self._distribution(name) for name in space.values}
        self._pending: dict[int, Any] = {}
        with _Quiet(self._optuna):
            sampler = self._optuna.samplers.TPESampler(seed=seed)
            self._study = self._optuna.create_study(sampler=sampler, direction="minimize")

    def take(self, count: int) -> list[Point]:
        found = []
        with _Quiet(self._optuna):
            for _ in range(count):
                point = self._next() or self._drawn.draw()
                if point is None:
                    break
                self._taken += 1
                found.append(point)
        return found

    def _next(self) -> Point | None:
        """The next point in turn; None if none is met."""
        way = "rare" if self._taken < FIRST else TURNS[self._taken % len(TURNS)]
        if way == "near":
            return self._explorer.near() or self._proposed()
        return (self._explorer.rare() if way == "rare" else None) or self._proposed()

    def tell(self, point: Point, cost: float | None) -> None:
        self._explorer.tell(point, cost)
        states = self._optuna.trial.TrialState
        trial = self._pending.pop(self._space.number(point), None)
        with _Quiet(self._optuna):
            if trial is None:
                self._study.add_trial(self._finished(point, cost))
            elif cost is None:
                self._study.tell(trial, state=states.PRUNED)
            else:
                self._study.tell(trial, cost)

    def _proposed(self) -> Point | None:
        """A new point that Optuna proposes; None if it keeps to known ones."""
        for _ in range(ASKED):
            trial = self._study.ask(self._distributions)
            point = self._space.at(trial.params)
            if self._drawn.is_new(point):
                self._pending[self._space.number(point)] = trial
                return point
            states = self._optuna.trial.TrialState
            allowed = self._space.allows(point)  # a known point says nothing new, an excluded one that it is no good
            self._study.tell(trial, state=states.FAIL if allowed else states.PRUNED)
        return None

    def _finished(self, point: Point, cost: float | None) -> Any:
        """A trial of a point that Optuna has not proposed."""
        states = self._optuna.trial.TrialState
        return self._optuna.trial.create_trial(
            params=self._space.indices(point),
            distributions=self._distributions,
            value=cost,
            state=states.PRUNED if cost is None else states.COMPLETE,
        )

    def _distribution(self, name: str) -> Any:
        kinds = self._optuna.distributions
        count = len(self._space.values[name])
        if self._space.is_ordered(name):
            return kinds.IntDistribution(0, count - 1)
        return kinds.CategoricalDistribution(range(count))


def proposals_for(space: Space, search: object, most: int, seed: int) -> Proposals:
    """The way to search that the user names, or by default: all points if they are at most `most`, else Optuna.

    Raises `ArgumentError`, and `ImportError` without Optuna where it is needed.
    """
    if search is not None and search not in SEARCHES:
        raise ArgumentError(f"search={search!r}: choose among {', '.join(SEARCHES)}, or None for the usual one")
    if search == "random":
        return Drawn(space, seed)
    if search != "optuna" and space.is_listed:
        every = EveryPoint(space, seed)
        if search == "grid" or len(every) <= most:
            return every
    if search == "grid":
        raise ArgumentError(f"search='grid': the space has {space.size} points, too many to try all")
    return Guided(space, seed)


def _optuna() -> Any:
    try:
        return importlib.import_module("optuna")
    except ImportError as error:
        raise ImportError(
            "the space has more points than are to be tried, and Optuna, which chooses among them, cannot be imported "
            f"({error}): pip install 'tiramisu_py[tune]'; or give search='random', or points= of the space's size"
        ) from error


class _Quiet:
    """A context in which Optuna logs only warnings: by default it writes a line for each study and each trial."""

    def __init__(self, optuna: Any) -> None:
        self._logging = optuna.logging

    def __enter__(self) -> None:
        self._before = self._logging.get_verbosity()
        self._logging.set_verbosity(max(self._before, self._logging.WARNING))

    def __exit__(self, *raised: object) -> None:
        self._logging.set_verbosity(self._before)
