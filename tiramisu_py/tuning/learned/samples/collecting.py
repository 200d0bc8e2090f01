"""collect(): samples are drawn, those that are not known are measured, and each is kept as soon as it is."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from tiramisu_py.records import dataclass
from tiramisu_py.tuning.learned.samples.clocks import SampleClock
from tiramisu_py.tuning.learned.samples.ranges import written
from tiramisu_py.tuning.learned.samples.sample_store import Sampled, SampleStore, plain_point
from tiramisu_py.tuning.learned.samples.sampling import DrawnSample, Sampler
from tiramisu_py.tuning.search.status_line import Progress
from tiramisu_py.tuning.search.tuned import duration

#: Samples that are drawn at once, and the kernels that are compiled together for each compiler that runs.
LOT, TOGETHER = 64, 2

#: A context in which no other search uses the machine; false if the time was over first.
Turn = Callable[[], AbstractContextManager[bool]]


@dataclass(frozen=True)
class Collected:
    """The findings of `collect`: `samples` with a time, `new` ones among them, of so many `points` and `shapes`.

    `rejected` counts by reason what was refused: points, or draws where a reason depends on sizes; `examples` has a
    message for each reason that has one. `failed` counts the samples without a time by reason. `accepted` are the
    shares of draws that were accepted: of uniform ones, by the filters alone, and of those of the naive Bayes model, by
    filters and proof. `complete` tells
    that no limit of time ended it.
    """

    name: str
    samples: int
    new: int
    points: int
    shapes: int
    compiled: int
    rejected: Mapping[str, int]
    examples: Mapping[str, str]
    failed: Mapping[str, int]
    accepted: tuple[float, float]
    elapsed: float
    complete: bool

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.samples} samples, {self.new} of them new, of {self.points} points and {self.shapes} "
            f"shapes in {duration(self.elapsed)}; {self.compiled} kernels compiled"
        ]
        uniform, learned = self.accepted
        lines.append(
            f"  accepted: {uniform:.1%} of uniform draws by the filters, {learned:.1%} of samples by filters and proof"
        )
        for reason, count in sorted(self.rejected.items(), key=lambda item: -item[1]):
            example = self.examples.get(reason, "").partition("\n")[0]
            lines.append(f"  {count} refused by {reason}" + (f", such as: {example}" if example else ""))
        lines += [f"  {count} without a time: {reason}" for reason, count in self.failed.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class CollectLimits:
    """Where collecting ends: after a number of samples, or of seconds (None: no limit)."""

    samples: int | None
    seconds: float | None
    workers: int
    compile_only: bool = False


class Collector:
    """One call of `collect`."""

    def __init__(
        self,
        name: str,
        sampler: Sampler,
        clock: SampleClock,
        store: SampleStore,
        turn: Turn,
        limits: CollectLimits,
        progress: Progress,
    ) -> None:
        self._name = name
        self._sampler, self._clock, self._store = sampler, clock, store
        self._turn, self._limits, self._progress = turn, limits, progress
        self._start = time.monotonic()
        self._count = self._new = 0
        self._points: set[str] = set()
        self._shapes: set[str] = set()
        self._failed: Counter[str] = Counter()
        self._compiled = clock.compiled

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        seconds = self._limits.seconds
        return seconds is not None and time.monotonic() - self._start >= seconds

    def run(self) -> Collected:
        """Draws and measures until a limit is reached, or no new sample is met."""
        wanted = math.inf if self._limits.samples is None else self._limits.samples
        drawn = 0
        complete = True
        try:
            while drawn < wanted:
                if self.is_over:
                    complete = False
                    break
                lot: list[DrawnSample] = []
                while len(lot) < min(LOT, wanted - drawn) and (each := self._sampler.draw()) is not None:
                    lot.append(each)
                if not lot:
                    break
                drawn += len(lot)
                complete = self._taken(lot) and complete
            self._show("done", last=True)
        finally:
            self._progress.close()
        return self._found(complete)

    def _taken(self, lot: list[DrawnSample]) -> bool:
        """Takes note of known samples and measures the others; false if the time was over first."""
        texts = [self._clock.text(each.candidate, self._store) for each in lot]
        kernels = [
            self._store.kernel(text, self._name, plain_point(each.candidate.point))
            for each, text in zip(lot, texts, strict=True)
        ]
        lacking = []
        for number, each in enumerate(lot):
            known = self._store.sampled(kernels[number], each.sizes)
            if known is None:
                lacking.append(number)
            else:
                self._count_sample(texts[number], each, known)
        if not self._clock.measures:
            self._say(lot, texts, kernels, lacking)
            return True
        distinct = [*dict.fromkeys(texts[number] for number in lacking)]
        together = TOGETHER * self._limits.workers
        for start in range(0, len(distinct), together):
            chosen = distinct[start : start + together]
            # the samples of a kernel follow one another: its code stays in the caches
            mine = sorted((number for number in lacking if texts[number] in chosen), key=lambda number: texts[number])
            if not self._measured([(lot[number], texts[number], kernels[number]) for number in mine]):
                return False
        return True

    def _measured(self, some: list[tuple[DrawnSample, str, int]]) -> bool:
        """Compiles the kernels of some samples together, and measures them; false if the time was over first."""
        if self.is_over:
            return False
        if self._limits.compile_only:
            self._prepare([each for each, _, _ in some])
            return True
        with self._turn() as mine:
            if not mine:
                return False
            self._prepare([each for each, _, _ in some])
            for each, text, kernel in some:
                if self.is_over:
                    return False
                self._measure(each, text, kernel)
        return True

    def _prepare(self, some: list[DrawnSample]) -> None:
        self._show("compiles")
        self._clock.prepare([each.candidate for each in some], self._store, self._limits.workers)

    def _measure(self, each: DrawnSample, text: str, kernel: int) -> None:
        self._show("measures")
        with self._store.running(kernel, each.sizes):
            found = self._clock.time(each.candidate, text, each.sizes)
        self._store.keep({(kernel, written(each.sizes)): found})
        self._new += found.seconds is not None
        self._count_sample(text, each, found)

    def _say(self, lot: list[DrawnSample], texts: list[str], kernels: list[int], lacking: list[int]) -> None:
        """Keeps the pretended times of a lot at once."""
        kept = {}
        for number in lacking:
            each = lot[number]
            found = self._clock.time(each.candidate, texts[number], each.sizes)
            kept[kernels[number], written(each.sizes)] = found
            self._count_sample(texts[number], each, found)
        self._store.keep(kept)
        self._new += len(kept)

    def _count_sample(self, text: str, each: DrawnSample, found: Sampled) -> None:
        if found.seconds is None:
            self._failed[found.reason.partition("\n")[0]] += 1
            return
        self._count += 1
        self._points.add(text)
        self._shapes.add(written(each.sizes))

    def _found(self, complete: bool) -> Collected:
        shares = [
            accepted / draws if draws else 1.0
            for accepted, draws in zip(self._sampler.accepted, self._sampler.draws, strict=True)
        ]
        rejections = self._sampler.rejections
        return Collected(
            self._name, self._count, self._new, len(self._points), len(self._shapes),
            self._clock.compiled - self._compiled, rejections.counts, dict(rejections.examples), dict(self._failed),
            (shares[0], shares[1]), time.monotonic() - self._start, complete,
        )  # fmt: skip

    def _show(self, doing: str, last: bool = False) -> None:
        self._progress.show(
            f"collect {self._name}: {self._count} samples, {self._new} new, {len(self._points)} points, "
            f"{time.monotonic() - self._start:.0f} s; {doing}",
            last,
        )
