"""Which point is tried next: all in random order, random ones, or those that Optuna proposes."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, Protocol

from tiramisu_py.errors import ArgumentError
from tiramisu_py.tuning.search.space import Point, Space

SEARCHES = ("grid", "random", "optuna")
#: Draws for each new point; after them, the points that are left are too few to be met by chance.
DRAWS = 1000
#: Proposals of Optuna for each new point; then a random one is taken.
ASKED = 20


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


class Guided:
    """The points that Optuna's tree-structured Parzen estimator proposes, given the costs so far.

    Parameters whose values are numbers in order are proposed by their index, so that neighbours count as alike. A point
    without a cost is told as pruned, which the estimator ranks below all others.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._drawn = Drawn(space, seed)
        self._optuna = _optuna()
        self._distributions = {name: self._distribution(values) for name, values in space.values.items()}
        self._pending: dict[int, Any] = {}
        with _Quiet(self._optuna):
            sampler = self._optuna.samplers.TPESampler(seed=seed)
            self._study = self._optuna.create_study(sampler=sampler, direction="minimize")

    def take(self, count: int) -> list[Point]:
        found = []
        with _Quiet(self._optuna):
            for _ in range(count):
                point = self._proposed() or self._drawn.draw()
                if point is None:
                    break
                found.append(point)
        return found

    def tell(self, point: Point, cost: float | None) -> None:
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

    def _distribution(self, values: Sequence[Any]) -> Any:
        kinds = self._optuna.distributions
        last = len(values) - 1
        return kinds.IntDistribution(0, last) if _is_ordered(values) else kinds.CategoricalDistribution(range(last + 1))


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


def _is_ordered(values: Sequence[Any]) -> bool:
    """Whether values are numbers that increase."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return numbers and all(a < b for a, b in pairwise(values))


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
