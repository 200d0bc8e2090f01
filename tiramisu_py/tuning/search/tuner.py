"""The search itself: points are made, proven, compiled side by side, and measured one after another."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import field, replace
from typing import Any

from tiramisu_py import Function, Kernel
from tiramisu_py.errors import (
    ArgumentError,
    CommandError,
    KernelError,
    LegalityError,
    ToolchainError,
    UnsupportedError,
)
from tiramisu_py.queries import axes, emission, program_key, text_key
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.search.bench import Bench
from tiramisu_py.tuning.search.database import Label, Outcome, label_of
from tiramisu_py.tuning.search.proposals import EveryPoint, Proposals
from tiramisu_py.tuning.search.space import Point
from tiramisu_py.tuning.search.status_line import Progress
from tiramisu_py.tuning.search.stopwatch import Measured, Rivals, Samples, Stopwatch, TimedCalls
from tiramisu_py.tuning.search.tuned import TunedPoint, duration
from tiramisu_py.tuning.search.turns import Turns

_log = logging.getLogger(__name__)

#: Points of a turn for each compiler that runs, where all points are tried anyway.
LOTS = 4
#: Proposals for each point that may be measured: the rest may be refused.
PROPOSALS = 50
#: The points that are measured again in the end, if their times are within this factor of the best one.
FINALISTS, NEAR = 4, 1.1
#: How long the best ones are still measured again, as a multiple of the time limit.
OVERTIME = 1.1

#: What a legal program may meet on the way to its time.
_FAILURES = (ToolchainError, UnsupportedError, KernelError, MemoryError)


@dataclass(frozen=True)
class SearchLimits:
    """Where a search ends: after a number of compiled points, or of seconds (None: no limit)."""

    points: int
    seconds: float | None
    workers: int


@dataclass
class Attempt:
    """A point on its way: its function and keys, the compiler at work on it, and its outcome once that is known.

    `program` is the key of its text, or of its algorithm and commands if it has no text: if it is refused.
    """

    parameters: Point
    function: Function | None = None
    program: str = ""
    label: Label = field(default_factory=lambda: Label("", "", ""))
    outcome: Outcome | None = None
    reused: bool = False
    building: Future[Kernel] | None = None

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.label.function} with {named}"


class Tuner:
    """One search. `bench` makes the bench from the first function that `make` returns."""

    def __init__(
        self,
        make: Callable[..., object],
        proposals: Proposals,
        bench: Callable[[Function], Bench],
        turns: Turns,
        limits: SearchLimits,
        stopwatch: Stopwatch,
        progress: Progress,
        options: Mapping[str, Any],
        size: int | None,
    ) -> None:
        self._make = make
        self._proposals = proposals
        self._bench_of = bench
        self._bench: Bench | None = None
        self._turns = turns
        self._limits = limits
        self._stopwatch = stopwatch
        self._progress = progress
        self._options = options
        self._size = size
        self._start = time.monotonic()
        self._rivals = Rivals()
        self._programs: list[str] = []
        self._paces: list[float] = []
        self._controlled: tuple[str, TimedCalls] | None = None
        self.points: list[TunedPoint] = []
        self.name = ""
        self.complete = False

    @property
    def elapsed(self) -> float:
        """The seconds since the search began."""
        return time.monotonic() - self._start

    def run(self) -> None:
        """Tries points until there are no more, or a limit is reached; then measures the best ones again."""
        try:
            while not self._is_over() and (room := self._room()):
                batch = self._proposals.take(room)
                if not batch:
                    self.complete = True
                    break
                with self._turns.turn(self._is_over, lambda: self._show("waits for another search")) as mine:
                    if mine:
                        self._try(batch)
            self._repeat_the_best()
            self._show("done", last=True)
        finally:
            self._progress.close()
            if self._bench is not None:
                self._bench.database.close()

    def _room(self) -> int:
        """The number of points to take for the next turn."""
        workers = self._limits.workers
        if isinstance(self._proposals, EveryPoint):
            return workers * LOTS
        tried = sum(point.outcome != "pruned" for point in self.points)
        if len(self.points) >= self._limits.points * PROPOSALS:
            return 0
        return min(workers, self._limits.points - tried)

    def _is_over(self, factor: float = 1.0) -> bool:
        return self._limits.seconds is not None and self.elapsed >= factor * self._limits.seconds

    # -- a turn

    def _try(self, batch: Sequence[Point]) -> None:
        """Tries some points: all are proven; those whose outcome is not known, compiled together, and then measured."""
        with _Compilers(self._limits.workers) as compilers:
            candidates = [self._made(point) for point in batch]
            for candidate in candidates:
                if not self._is_over():
                    self._show("proves")
                    self._prepare(candidate, compilers)
            self._show("compiles")
            compilers.finish()
            for candidate in candidates:
                if candidate.outcome is None and (candidate.building is None or self._is_over()):
                    continue  # the time is over: nothing is known
                self._show(f"measures {_named(candidate.parameters)}")
                self._end(candidate)

    def _made(self, point: Point) -> Attempt:
        """The point with its function; or refused, if a command cannot be applied."""
        try:
            f = self._make(**point)
        except (CommandError, LegalityError) as error:
            return Attempt(point, outcome=Outcome("pruned", _said(error)))
        if not isinstance(f, Function):
            raise ArgumentError(f"make({_named(point)}) returned {f!r:.60}: let it return a scheduled tm.Function")
        if axes(f.program):
            raise ArgumentError(f"{f.name} runs on ranks, and tune measures in one process: tune the work of one rank")
        self.name = self.name or f.name
        commands = f.commands
        f = f.copy()  # make may change the same function again for the next point
        return Attempt(point, f, program_key(f.algorithm, commands), label_of(f.name, point, commands))

    def _prepare(self, candidate: Attempt, compilers: _Compilers) -> None:
        """Proves and emits the program, and finds its outcome in the database or begins to compile it."""
        f = candidate.function
        if f is None:
            return
        if self._bench is None:
            self._bench = self._bench_of(f)
        try:
            report = f.check()
            if not report.ok:
                raise LegalityError(report.violations)
            emitted = emission(f, **self._options)
            candidate.program = text_key(emitted.sources)
            candidate.outcome = self._bench.database.known(candidate.program)
            candidate.reused = candidate.outcome is not None
            if not candidate.reused:
                candidate.building = compilers.submit(emitted)
        except (CommandError, LegalityError) as error:
            candidate.outcome = Outcome("pruned", _said(error))
        except _FAILURES as error:
            candidate.outcome = Outcome("failed", _said(error))

    def _end(self, candidate: Attempt) -> None:
        """Measures a point if its outcome is not known, keeps the outcome, and tells it."""
        bench, f = self._bench, candidate.function
        if f is not None and bench is not None:
            if candidate.outcome is None:  # measured meanwhile, if another point makes the same program
                candidate.outcome = bench.database.known(candidate.program)
                candidate.reused = candidate.outcome is not None
            if candidate.outcome is None:
                candidate.outcome = self._measured(candidate, bench)
            if not candidate.reused:
                bench.database.keep(candidate.program, candidate.label, candidate.outcome)
            candidate.building = None
        outcome = candidate.outcome
        assert outcome is not None
        commands = () if f is None else f.commands
        samples = self._padded(outcome.samples)
        if outcome.kind == "measured":
            self._rivals.met(samples)
        self.points.append(
            TunedPoint(candidate.parameters, outcome.kind, outcome.reason, samples, commands, candidate.reused)
        )
        self._programs.append(candidate.program)
        self._paces.append(outcome.pace)
        self._proposals.tell(candidate.parameters, self._cost(outcome.kind, samples))

    def _measured(self, candidate: Attempt, bench: Bench) -> Outcome:
        """The times of a compiled point, or why it has none."""
        assert candidate.building is not None
        try:
            kernel = candidate.building.result()
            with bench.database.running(candidate.program, candidate.label):
                calls = bench.calls(kernel, str(candidate))
                found = self._stopwatch.measured(calls, self._rivals, control=self._control(bench))
        except _FAILURES as error:
            return Outcome("failed", _said(error))
        except ArgumentError as error:
            error.add_note(f"where tune calls {candidate}")
            raise
        return _outcome_of(found)

    def _control(self, bench: Bench) -> TimedCalls | None:
        """The calls of the best point so far, compiled again if it was not the best one before."""
        if not self.points or math.isinf(self._rivals.best):
            return None
        measured = [number for number, point in enumerate(self.points) if point.outcome == "measured"]
        best = min(measured, key=lambda number: self.points[number].seconds or math.inf)
        if self._controlled is None or self._controlled[0] != self._programs[best]:
            (candidate,) = self._compiled([best])
            self._controlled = (self._programs[best], self._calls(candidate, bench))
        return self._controlled[1]

    def _padded(self, samples: Samples) -> Samples:
        """Samples for all cases, none for those that were not reached."""
        return samples + ((),) * (len(self._bench.cases) - len(samples)) if samples and self._bench else samples

    def _cost(self, kind: str, samples: Samples) -> float | None:
        """The number that the search makes small: the logarithm of the time, or of what the time is at least."""
        if kind not in ("measured", "stopped"):
            return None
        return math.log(self._rivals.bound(samples))

    # -- the end

    def _repeat_the_best(self) -> None:
        """Measures the best points again, in turns, so that none of them is the best by chance."""
        with self._turns.turn(self._is_over, lambda: self._show("waits for another search")) as mine:
            bench = self._bench
            if not mine or bench is None or self._is_over(OVERTIME):
                return
            for number in [*self._stopped_too_early(), *self._finalists()]:
                known = bench.database.known(self._programs[number])
                if known is not None:
                    self._take(self._programs[number], known)
            try:
                self._go_on(self._stopped_too_early(), bench)
                chosen = self._finalists()
                lacking = [k for k in chosen if min(map(len, self.points[k].samples)) < 2 * self._stopwatch.repeats]
                if len(chosen) > 1 and lacking:
                    self._again(lacking, bench)
            except _FAILURES as error:  # all points have their times already
                _log.warning("%s: the best points were not measured again: %s", self.name, error)

    def _finalists(self) -> list[int]:
        """The numbers of the points that are nearly the best, or may be at the machine's usual pace, the best one
        first; each program once.
        """
        bounds = {
            number: self._rivals.bound(point.samples) / self._paces[number]
            for number, point in enumerate(self.points)
            if point.samples and self._programs.index(self._programs[number]) == number
        }
        near = [number for number, bound in bounds.items() if bound <= NEAR * self._rivals.best]
        return sorted(near, key=lambda number: bounds[number])[:FINALISTS]

    def _stopped_too_early(self) -> list[int]:
        """The numbers of the points that an earlier search has stopped, for a best one that this search has not."""
        stopped = [k for k, point in enumerate(self.points) if point.outcome == "stopped" and point.reused]
        early = [number for number in stopped if not self._rivals.beat(self.points[number].samples)]
        return sorted(early, key=lambda number: self._rivals.bound(self.points[number].samples))

    def _go_on(self, numbers: Sequence[int], bench: Bench) -> None:
        """Measures points on that have been stopped too early, the most promising ones first."""
        workers = self._limits.workers
        for start in range(0, len(numbers), workers):
            lot = numbers[start : start + workers]
            for number, candidate in zip(lot, self._compiled(lot), strict=True):
                known = self.points[number].samples
                if self._is_over() or self._rivals.beat(known):
                    continue
                self._show(f"measures on {_named(candidate.parameters)}")
                calls = self._calls(candidate, bench)
                found = self._stopwatch.measured(calls, self._rivals, known, self._control(bench))
                self._keep(candidate, _outcome_of(found), bench)

    def _compiled(self, numbers: Iterable[int]) -> list[Attempt]:
        """Some points, compiled again: mostly, the libraries are in the cache."""
        candidates = [self._made(self.points[number].parameters) for number in numbers]
        with _Compilers(self._limits.workers) as compilers:
            for candidate in candidates:
                assert candidate.function is not None
                emitted = emission(candidate.function, **self._options)
                candidate.program = text_key(emitted.sources)
                candidate.building = compilers.submit(emitted)
            compilers.finish()
        return candidates

    def _calls(self, candidate: Attempt, bench: Bench) -> TimedCalls:
        assert candidate.building is not None
        return bench.calls(candidate.building.result(), str(candidate))

    def _keep(self, candidate: Attempt, outcome: Outcome, bench: Bench) -> None:
        bench.database.keep(candidate.program, candidate.label, outcome)
        self._take(candidate.program, outcome)

    def _again(self, numbers: Sequence[int], bench: Bench) -> None:
        """More samples for some points, in turns."""
        candidates = self._compiled(numbers)
        calls = [(candidate, self._calls(candidate, bench)) for candidate in candidates]
        samples = {one.program: self.points[number].samples for number, one in zip(numbers, candidates, strict=True)}
        once = replace(self._stopwatch, repeats=1)
        for _ in range(self._stopwatch.repeats):
            for candidate, run in calls:
                self._show(f"measures the best again, {_named(candidate.parameters)}")
                if not self._is_over(OVERTIME):
                    samples[candidate.program] = once.measured(run, Rivals(), samples[candidate.program]).samples
        for candidate in candidates:
            found = samples[candidate.program]
            pace = self._paces[self._programs.index(candidate.program)]  # so that the next search chooses the same ones
            self._keep(candidate, Outcome("measured" if all(found) else "stopped", "", found, pace), bench)

    def _take(self, program: str, outcome: Outcome) -> None:
        """Let all points of a program have an outcome."""
        samples = self._padded(outcome.samples)
        if outcome.kind == "measured":
            self._rivals.met(samples)
        for number, point in enumerate(self.points):
            if self._programs[number] == program:
                self._paces[number] = outcome.pace
                self.points[number] = replace(point, outcome=outcome.kind, samples=samples)

    def _show(self, doing: str, last: bool = False) -> None:
        size = "" if self._size is None else f" of {self._size}"
        pruned = sum(point.outcome == "pruned" for point in self.points)
        failed = sum(point.outcome == "failed" for point in self.points)
        best = "" if math.isinf(self._rivals.best) else f", best {duration(self._rivals.best)}"
        name = self.name or "the space"
        self._progress.show(
            f"tune {name}: {len(self.points)}{size} points, {pruned} pruned, {failed} failed{best}, "
            f"{self.elapsed:.0f} s; {doing}",
            last,
        )


class _Compilers:
    """Compilers that run side by side; where the context is left early, those that have not begun do not begin."""

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="tune")
        self._begun: list[Future[Kernel]] = []

    def __enter__(self) -> _Compilers:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, build: Callable[[], Kernel]) -> Future[Kernel]:
        """Begins to compile, once a compiler is free."""
        future = self._pool.submit(build)
        self._begun.append(future)
        return future

    def finish(self) -> None:
        """Waits for all of them, so that none runs while something is measured."""
        wait(self._begun)


def _outcome_of(found: Measured) -> Outcome:
    return Outcome("stopped" if found.stopped else "measured", samples=found.samples, pace=found.pace)


def _named(point: Point) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in point.items())


def _said(error: BaseException) -> str:
    """The words of an error; the first reason of a refusal, with its command."""
    if isinstance(error, LegalityError) and error.violations:
        first = error.violations[0]
        return f"{first.kind}: {first.message}" + (f" (command: {first.command})" if first.command else "")
    return str(error) or type(error).__name__
