"""The time of a call: the least of some samples, taken only as long as the point may still be the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from time import perf_counter

from tiramisu_py.records import dataclass

#: A sample is the least of so many calls, or of more if they take less than these seconds together.
SAMPLE_CALLS, SAMPLE_SECONDS = 5, 2e-3
#: A sample ends with the call after which it has taken so many seconds: a long call is a sample by itself.
LONG_SAMPLE = 2e-2
#: No call takes less, whatever the clock says.
SHORTEST = 1e-9
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
    """The times that a point has to beat: the least time of all, and the least time that any point has in each case."""

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

    def beat(self, samples: Samples, best_now: float = 0.0) -> bool:
        """Whether a point with these samples is clearly slower than the best one, which now takes `best_now`."""
        last = max(map(len, samples))
        limit = CLEARLY_SLOWER[min(last, len(CLEARLY_SLOWER)) - 1]
        return self.bound(samples) > limit * max(self.best, best_now)


@dataclass(frozen=True)
class TimedCalls:
    """A call of a kernel for each case, and what is to be done before each of them, untimed."""

    run: Sequence[Call]
    before: Sequence[Call]

    @property
    def cases(self) -> tuple[tuple[Call, Call], ...]:
        """The call of each case, with what is before it."""
        return tuple(zip(self.run, self.before, strict=True))


@dataclass(frozen=True)
class Measured:
    """The samples of a point; whether it was stopped early; and the `pace` of the machine meanwhile, as the factor by
    which the best point took longer than it can.
    """

    samples: Samples
    stopped: bool
    pace: float = 1.0


@dataclass(frozen=True)
class Stopwatch:
    """Measures calls by a clock: up to `repeats` samples of each case.

    A call of microseconds on several threads takes milliseconds when one of them sleeps, or when its core is taken. So
    a sample is the least of several calls, never their mean, and how many it needs follows from all of them, never from
    the first one alone. That one, before the samples, whoever made the calls has done (`Workbench.calls`).
    """

    repeats: int
    clock: Callable[[], float] = perf_counter

    def measured(
        self, calls: TimedCalls, rivals: Rivals, known: Samples = (), control: TimedCalls | None = None
    ) -> Measured:
        """The samples of a point, besides those that are `known`.

        The cases take turns, and so does the `control`, which is the best point so far: in a slow phase of a shared
        machine it is slow as well, so that a point is not stopped for that.
        """
        found = [list(case) for case in known] or [list[float]() for _ in calls.run]
        watched = [list[float]() for _ in calls.run]
        now = 0.0
        own, others = calls.cases, () if control is None else control.cases
        for _ in range(self.repeats):
            for case, timed in enumerate(own):
                if others:
                    watched[case].append(self._sample(*others[case]))
                found[case].append(self._sample(*timed))
                samples = tuple(map(tuple, found))
                now = rivals.bound(tuple(map(tuple, watched))) if others else now
                if rivals.beat(samples, now):
                    return Measured(samples, True, max(1.0, now / rivals.best))
        return Measured(tuple(map(tuple, found)), False, max(1.0, now / rivals.best))

    def _sample(self, call: Call, before: Call) -> float:
        """The next sample: the seconds of the fastest of some calls."""
        least, spent, calls = math.inf, 0.0, 0
        while spent < LONG_SAMPLE and (calls < SAMPLE_CALLS or spent < SAMPLE_SECONDS):
            before()
            start = self.clock()
            call()
            seconds = self.clock() - start
            least, spent, calls = min(least, seconds), spent + max(seconds, SHORTEST), calls + 1
        return max(least, SHORTEST)
