"""The time of a call: the least of some samples, taken only as long as the point may still be the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

#: The seconds that a sample takes at least: a shorter call is repeated within the sample.
SAMPLE_SECONDS = 1e-3
#: A point is given up where it is this many times slower than the best one, after one, two, and more samples.
CLEARLY_SLOWER = (2.0, 1.5, 1.2)

Call = Callable[[], object]
#: The samples of each case, in seconds a call.
Samples = tuple[tuple[float, ...], ...]


def seconds_of(samples: Samples) -> float | None:
    """The time of a point: the geometric mean, over the cases, of the least sample; None while a case has none."""
    return geometric_mean([min(case) for case in samples]) if samples and all(samples) else None


def geometric_mean(times: Sequence[float]) -> float:
    """The geometric mean of some times; of one time, the time itself."""
    if len(times) == 1:
        return times[0]
    return math.exp(math.fsum(math.log(time) for time in times) / len(times))


@dataclass
class Rivals:
    """What a point has to beat: the least time of all, and the least time that any point has in each case."""

    best: float = math.inf
    floors: list[float] = field(default_factory=list)

    def met(self, samples: Samples) -> None:
        """Takes note of a measured point."""
        seconds = seconds_of(samples)
        if seconds is not None:
            self.best = min(self.best, seconds)
            least = [min(case) for case in samples]
            self.floors = [min(pair) for pair in zip(self.floors, least, strict=True)] if self.floors else least

    def bound(self, samples: Samples) -> float:
        """The least time that a point can still have, if in the cases to come it is as fast as any other point."""
        if not self.floors:
            return geometric_mean([min(own) for own in samples if own])
        return geometric_mean([min(own, default=floor) for own, floor in zip(samples, self.floors, strict=True)])

    def beat(self, samples: Samples) -> bool:
        """Whether a point with these samples is clearly slower than the best one."""
        last = max(map(len, samples))
        return self.bound(samples) > CLEARLY_SLOWER[min(last, len(CLEARLY_SLOWER)) - 1] * self.best


@dataclass(frozen=True)
class Stopwatch:
    """Measures calls by a clock: up to `repeats` samples of each case."""

    repeats: int
    clock: Callable[[], float] = perf_counter

    def measured(
        self, calls: Sequence[Call], before: Sequence[Call], rivals: Rivals, known: Samples = ()
    ) -> tuple[Samples, bool]:
        """The samples of a point, one call for each case, and whether it was stopped early.

        ``before[k]()`` runs before each call of a case, untimed. The cases take turns, so that a slow phase of the
        machine does not hit one of them alone. `known` samples count.
        """
        found = [list(case) for case in known] or [list[float]() for _ in calls]
        numbers = [0] * len(calls)
        for _ in range(self.repeats):
            for case, call in enumerate(calls):
                seconds = self._sample(call, before[case], numbers[case] or 1)
                if not numbers[case]:
                    numbers[case] = max(1, math.ceil(SAMPLE_SECONDS / seconds))
                    seconds = seconds if numbers[case] == 1 else self._sample(call, before[case], numbers[case])
                found[case].append(seconds)
                samples = tuple(map(tuple, found))
                if rivals.beat(samples):
                    return samples, True
        return tuple(map(tuple, found)), False

    def _sample(self, call: Call, before: Call, number: int) -> float:
        """The seconds of a call, as the mean of a number of them."""
        spent = 0.0
        for _ in range(number):
            before()
            start = self.clock()
            call()
            spent += self.clock() - start
        return max(spent / number, 1e-9)
