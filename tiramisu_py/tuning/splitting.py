"""The cuts of a level at which all parts end together: they minimise the time of the slowest executor.

This module is independent of programs: it has a level from `low` to `high`, cuts, costs of parts, and allowed values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass

#: Halvings of the interval that contains the least time: enough for the precision of a float.
HALVINGS = 60
#: Times are compared with this relative slack, so that rounding takes no iteration away.
SLACK = 1e-12
#: Larger than any value of a parameter.
HUGE = 2**48


@dataclass(frozen=True)
class Cost:
    """The cost of a part: 0 if it is empty, else `fixed` seconds and `each` per iteration."""

    fixed: float
    each: float

    def of(self, iterations: int) -> float:
        """The seconds of a number of iterations."""
        return self.fixed + self.each * iterations if iterations > 0 else 0.0


@dataclass(frozen=True, eq=False)
class LevelCut:
    """A point of a level, as a function of the value of the parameter `name` (constant if that is None)."""

    name: str | None
    place: Callable[[int], int]

    def value(self, at: Mapping[str, int]) -> int:
        """The position of the point."""
        return self.place(0 if self.name is None else at[self.name])


@dataclass(frozen=True, eq=False)
class Division:
    """The iterations from `low` to `high` (excluded), cut into parts, each with its executor."""

    low: int
    high: int
    cuts: tuple[LevelCut, ...]
    executors: tuple[Hashable, ...]

    def iterations(self, at: Mapping[str, int]) -> tuple[int, ...]:
        """The number of iterations of each part at given parameter values."""
        bounds = [self.low]
        for cut in self.cuts:
            bounds.append(max(bounds[-1], min(cut.value(at), self.high)))
        return tuple(after - before for before, after in pairwise([*bounds, max(bounds[-1], self.high)]))

    def runs(self) -> list[tuple[str, int]]:
        """The parameters to choose, in order, each with the number of cuts known after it; raises `ArgumentError`."""
        last = {cut.name: k + 1 for k, cut in enumerate(self.cuts) if cut.name is not None}
        first = {cut.name: k for k, cut in reversed(list(enumerate(self.cuts))) if cut.name is not None}
        for (name, end), (other, _) in pairwise(last.items()):
            if first[other] < end:
                raise ArgumentError(
                    f"the points of {name} and {other} alternate: give each a range of points of its own"
                )
        return list(last.items())


class Allowed(Protocol):
    """The allowed values of a parameter, given the chosen ones; None if there are none."""

    def largest(self, chosen: Mapping[str, int], name: str, most: int) -> int | None:
        """The largest up to `most`."""

    def least(self, chosen: Mapping[str, int], name: str, low: int = 0) -> int | None:
        """The least from `low` on."""


def split(division: Division, costs: Sequence[Cost], allowed: Allowed) -> dict[str, int]:
    """The values of the parameters with the least makespan; parts of one executor run one after another.

    For a given end, each part from the first on takes as many iterations as fit, and the end is feasible if the last
    part fits too: costs grow with iterations, so no other choice leaves fewer iterations to the later parts. The least
    feasible end is found by bisection. Raises `ArgumentError` if no values are allowed.
    """
    runs = division.runs()
    start = sum(cost.of(1) for cost in costs) or 1.0
    end, low = start, 0.0
    while _filled(division, runs, costs, allowed, end) is None:
        low, end = end, 2 * end
        if end > start * HUGE:
            names = ", ".join(name for name, _ in runs)
            raise ArgumentError(f"the assumptions allow no value of {names} at these sizes")
    for _ in range(HALVINGS):
        middle = (low + end) / 2
        low, end = (middle, end) if _filled(division, runs, costs, allowed, middle) is None else (low, middle)
    found = _filled(division, runs, costs, allowed, end)
    assert found is not None
    return found


def makespan(division: Division, costs: Sequence[Cost], at: Mapping[str, int]) -> float:
    """The time at which the last executor ends, if all start together."""
    return _ends(division, len(costs), costs, at)


def _filled(
    division: Division, runs: Sequence[tuple[str, int]], costs: Sequence[Cost], allowed: Allowed, end: float
) -> dict[str, int] | None:
    """Values for which every executor ends by `end`, with early parts as long as possible; None if there are none."""
    at: dict[str, int] = {}
    for name, known in runs:
        value = _furthest(division, known, costs, allowed, end, at, name)
        if value is None:
            return None
        at[name] = value
    return at if _ends(division, len(costs), costs, at) <= end * (1 + SLACK) else None


def _furthest(
    division: Division,
    known: int,
    costs: Sequence[Cost],
    allowed: Allowed,
    end: float,
    at: Mapping[str, int],
    name: str,
) -> int | None:
    """The value of a parameter that moves its cuts as far as possible while the parts before them end by `end`."""
    place = division.cuts[known - 1].place
    grows = place(HUGE) >= place(0)

    def fits(value: int) -> bool:
        return _ends(division, known, costs, {**at, name: value}) <= end * (1 + SLACK)

    if not grows:
        return allowed.least(at, name, _first(fits, _first(lambda value: place(value) <= division.low)))
    beyond = _first(lambda value: place(value) >= division.high)
    return allowed.largest(at, name, beyond if fits(beyond) else _first(lambda value: not fits(value), beyond) - 1)


def _first(holds: Callable[[int], bool], most: int = HUGE) -> int:
    """The least value up to `most` for which a monotone predicate holds; `most` if it never does."""
    low, high = 0, 1
    while high < most and not holds(high):
        low, high = high, 2 * high
    high = min(high, most)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _ends(division: Division, count: int, costs: Sequence[Cost], at: Mapping[str, int]) -> float:
    """The time at which the last executor has completed its parts among the first `count`."""
    bounds, spent = division.low, dict[Hashable, float]()
    latest = 0.0
    for k in range(count):
        after = division.high if k == len(division.cuts) else min(division.cuts[k].value(at), division.high)
        after = max(bounds, after)
        executor = division.executors[k]
        spent[executor] = spent.get(executor, 0.0) + costs[k].of(after - bounds)
        latest, bounds = max(latest, spent[executor]), after
    return latest


def fitted(runs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The fixed cost and the cost of each unit of work, from one or two runs ``(work, seconds)``: never negative.

    Two runs without growth (because of noise) are treated as one run, without a fixed cost.
    """
    (most, longest), (least, shortest) = max(runs), min(runs)
    if most <= 0:
        return 0.0, 0.0
    each = (longest - shortest) / (most - least) if most > least else 0.0
    fixed = longest - each * most
    return (fixed, each) if each > 0 and fixed > 0 else (0.0, longest / most)
