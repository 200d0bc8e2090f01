"""The choice of the next point and its sizes: as a naive Bayes model of what is accepted says, after uniform draws.

Given that a sample is accepted, its parameters and sizes count as independent, so that each has a probability of its
own: its number among accepted draws, all numbers begun at 100. What filters accept is found out by uniform draws
beforehand, of which nothing is proven; what the proof accepts, by the first samples. Filters apply as before.

Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random

from tiramisu_py.records import dataclass
from tiramisu_py.tuning.filters import Filter
from tiramisu_py.tuning.learned.samples.candidates import Candidates, JudgedPoint
from tiramisu_py.tuning.learned.samples.ranges import Octaves, Ranges, Sizes
from tiramisu_py.tuning.search.space import Point, Space

#: Uniform draws beforehand, at most, and the accepted ones among them after which there are enough; samples that are
#: counted as well; and the number with which each count begins.
UNIFORM, ENOUGH, COUNTED, BEGUN = 40_000, 3000, 1000, 100
#: Draws for one sample, those of them that were drawn before, and points refused in a row while none is legal: after so
#: many there are none left that could be met.
DRAWS, REPEATED, REFUSED = 50_000, 1000, 200


@dataclass(frozen=True)
class DrawnSample:
    """A sample to be taken: a legal point, at sizes."""

    candidate: JudgedPoint
    sizes: Sizes


class Rejections:
    """Refusals, counted by reason: points once each, and draws where a reason depends on sizes."""

    def __init__(self) -> None:
        self._points: dict[str, set[int]] = {}
        self._draws: dict[str, int] = {}
        #: The first message of each reason that has one.
        self.examples: dict[str, str] = {}

    def point(self, reason: str, number: int, message: str = "") -> None:
        """A point is refused, for all sizes."""
        self._points.setdefault(reason, set()).add(number)
        if message:
            self.examples.setdefault(reason, message)

    def draw(self, reason: str) -> None:
        """A point is refused at some sizes."""
        self._draws[reason] = self._draws.get(reason, 0) + 1

    @property
    def counts(self) -> dict[str, int]:
        """The number of each reason, points before draws."""
        return {**{reason: len(numbers) for reason, numbers in self._points.items()}, **self._draws}


class Sampler:
    """Draws samples, each once; equal seeds draw equal ones. `limits` have a name, an amount of sizes, and its most.

    With `points` or `shapes`, the samples have at most so many different points, and combinations of sizes.
    """

    def __init__(
        self,
        candidates: Candidates,
        filters: Sequence[Filter],
        ranges: Ranges,
        limits: Sequence[tuple[str, Callable[[Sizes], float], float]],
        *,
        points: int | None,
        shapes: int | None,
        seed: int,
    ) -> None:
        self.rejections = Rejections()
        #: The draws, and the accepted ones among them: uniform ones beforehand, by the filters, and those of samples.
        self.draws, self.accepted = [0, 0], [0, 0]
        self._candidates, self._space = candidates, candidates.space
        self._filters = filters
        self._limits = limits
        self._points, self._shapes = points, shapes
        self._random = Random(seed)
        self._octaves = {name: Octaves(*ends) for name, ends in ranges.items()}
        self._bayes = NaiveBayes(self._space, self._octaves)
        self._seen: set[tuple[int, tuple[int, ...]]] = set()
        self._chosen: dict[int, Point] = {}
        self._sized: dict[tuple[int, ...], Sizes] = {}
        self._ended = False

    def draw(self) -> DrawnSample | None:
        """The next sample; None if there is none left that is met. Raises `ArgumentError` if no point is legal."""
        if not sum(self.draws):
            self._learn_filters()
        found = None if self._ended else self._next()
        if found is None and not self._candidates.proven:
            self._candidates.any()  # says why there is none
        self._ended = found is None
        return found

    def _learn_filters(self) -> None:
        """Counts what the filters accept of uniform draws."""
        if not (self._space.where or self._filters or self._limits):
            return
        while self.draws[0] < UNIFORM and self.accepted[0] < ENOUGH:
            self.draws[0] += 1
            indices, octaves, sizes = self._drawn(learned=False)
            if self._passes(self._space.at(indices), sizes):
                self.accepted[0] += 1
                self._bayes.count(indices, octaves)

    def _next(self) -> DrawnSample | None:
        refused = repeated = 0
        for _ in range(DRAWS):
            self.draws[1] += 1
            point, octaves, sizes = self._proposed()
            candidate = self._judged(point, sizes)
            if candidate is None:
                continue
            if candidate.function is None:
                refused += 1
                if refused >= REFUSED and not self._candidates.proven:
                    return None
                continue
            self.accepted[1] += 1
            if self.accepted[1] <= COUNTED:
                self._bayes.count(self._space.indices(point), octaves)
            key = self._space.number(point), tuple(sizes.values())
            if key not in self._seen:
                self._seen.add(key)
                self._chosen[key[0]], self._sized[key[1]] = point, sizes
                return DrawnSample(candidate, sizes)
            repeated += 1
            if repeated >= REPEATED:
                return None
        return None

    def _drawn(self, *, learned: bool) -> tuple[dict[str, int], dict[str, int], Sizes]:
        """Indices of values, octaves, and sizes in them."""
        random = self._random
        indices, octaves = self._bayes.drawn(random, learned)
        return indices, octaves, {name: each.draw(octaves[name], random) for name, each in self._octaves.items()}

    def _proposed(self) -> tuple[Point, Mapping[str, int], Sizes]:
        random = self._random
        indices, octaves, sizes = self._drawn(learned=True)
        point = self._space.at(indices)
        if self._points is not None and len(self._chosen) >= self._points:
            point = random.choice([*self._chosen.values()])
        if self._shapes is not None and len(self._sized) >= self._shapes:
            sizes = random.choice([*self._sized.values()])
        return point, octaves, sizes

    def _judged(self, point: Point, sizes: Sizes) -> JudgedPoint | None:
        """The candidate of a point that all filters let pass, the proof last; None for others."""
        if not self._passes(point, sizes):
            return None
        candidate = self._candidates.at(point)
        if candidate.function is None:
            self.rejections.point(candidate.reason, self._space.number(point), candidate.message)
        return candidate

    def _passes(self, point: Point, sizes: Sizes) -> bool:
        """Whether all filters let a point pass, the cheapest ones first; the first one that does not is counted."""
        if not self._space.allows(point):
            self.rejections.point("where", self._space.number(point))
            return False
        for each in self._filters:
            if not each.allows(point, sizes):
                if each.sizes:
                    self.rejections.draw(each.name)
                else:
                    self.rejections.point(each.name, self._space.number(point))
                return False
        for name, amount, most in self._limits:
            if amount(sizes) > most:
                self.rejections.draw(name)
                return False
        return True


class NaiveBayes:
    """The probability of each value of a parameter, and of each octave of a size, among accepted samples."""

    def __init__(self, space: Space, octaves: Mapping[str, Octaves]) -> None:
        self._values = {name: [BEGUN] * len(values) for name, values in space.values.items()}
        self._octaves = {name: [0] * len(each.shares) for name, each in octaves.items()}
        self._shares = {name: each.shares for name, each in octaves.items()}

    def count(self, indices: Mapping[str, int], octaves: Mapping[str, int]) -> None:
        """Takes note of an accepted sample."""
        for name, index in indices.items():
            self._values[name][index] += 1
        for name, octave in octaves.items():
            self._octaves[name][octave] += 1

    def drawn(self, random: Random, learned: bool) -> tuple[dict[str, int], dict[str, int]]:
        """The index of a value of each parameter, and of an octave of each size; uniform unless `learned`."""
        indices = {
            name: _drawn(random, counts if learned else [1] * len(counts)) for name, counts in self._values.items()
        }
        return indices, {name: _drawn(random, self.weights(name, learned)) for name in self._octaves}

    def weights(self, size: str, learned: bool) -> list[float]:
        """The weights of the octaves of a size: they begin at 100 for each whole octave, less for a part of one."""
        shares, counts = self._shares[size], self._octaves[size]
        begun = [BEGUN * len(shares) * share for share in shares]
        return [a + b for a, b in zip(begun, counts, strict=True)] if learned else shares


def _drawn(random: Random, weights: Sequence[float]) -> int:
    return random.choices(range(len(weights)), cum_weights=[*accumulate(weights)])[0]
