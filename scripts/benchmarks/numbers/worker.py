"""The process of one story of `scripts/bench tune --numbers`: it goes through the numbers of its schedule, one after
another, and keeps what it finds in a file after each point.

A point is compiled and measured by turns with the schedule as it is derived: processor time of the thread, so that
other work on the machine counts as little as possible. One that is clearly slower is dropped after its first turn.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.auto.programs import APART, FAST, Array, Program, all_programs, several
from benchmarks.common.rounds import Run, each_alignment
from benchmarks.common.shared_arrays import own
from benchmarks.common.tables import commit
from benchmarks.numbers.spaces import SPACES, Point, told
from tiramisu_py.toolchain.kernel import bound_call

#: A point that is so many times slower after the first turn is dropped; one that is so much faster is the new start.
DROPPED, BETTER = 1.3, 1.02
#: Turns of a point that is not dropped, the seconds of one form in a turn, and how often all numbers are gone through.
TURNS, TURN_SECONDS, PASSES = 8, 0.03, 2


@dataclass(frozen=True)
class Result:
    """A point beside the derived schedule: milliseconds of each, with the slower arrays; or why it has none."""

    point: Point
    own: float = 0.0
    derived: float = 0.0
    dropped: bool = False
    refused: str = ""

    @property
    def ratio(self) -> float:
        """How many times as fast the point is as the derived schedule."""
        return self.derived / self.own if self.own else 0.0


@dataclass
class Found:
    """What is known of a story: the key of its text as it is scheduled, its size, and the points that were tried."""

    key: str = ""
    size: tuple[int, ...] = ()
    results: list[Result] = field(default_factory=list)
    complete: bool = False
    commit: str = ""

    @classmethod
    def read(cls, file: Path) -> Found:
        """What an earlier run has kept, or nothing."""
        if not file.exists():
            return cls()
        values = json.loads(file.read_text())
        results = [Result(**each) for each in values["results"]]
        return cls(values["key"], tuple(values["size"]), results, values["complete"], values["commit"])

    def keep(self, file: Path) -> None:
        """Write it."""
        file.write_text(json.dumps(asdict(self), indent=1))

    def known(self, point: Point) -> Result | None:
        """The result of a point that was tried before."""
        wanted = json.dumps(point, sort_keys=True)
        return next((each for each in self.results if json.dumps(each.point, sort_keys=True) == wanted), None)

    @property
    def best(self) -> Result | None:
        """The fastest point, none of which the results differ."""
        measured = [each for each in self.results if each.own and not each.dropped]
        return max(measured, key=lambda each: each.ratio, default=None)


@dataclass(frozen=True)
class Form:
    """A schedule that is compiled, on arrays of each alignment, which all forms share."""

    runs: Sequence[Run]

    def turn(self) -> list[float]:
        """The least processor time of some calls with arrays of each alignment, in seconds."""
        return [_least(run) for run in self.runs]


def _least(run: Run) -> float:
    least, spent = float("inf"), 0.0
    while spent < TURN_SECONDS or not spent:
        start = time.thread_time()
        run()
        seconds = max(time.thread_time() - start, 1e-7)
        least, spent = min(least, seconds), spent + seconds
    return least


def compiled(program: Program, point: Point) -> tm.Kernel:
    """The kernel of a point."""
    f: tm.Function = program.story.scheduled(**point)
    return f.compile(fast=FAST, threads=1)


class Bench:
    """The arrays of a story at one size, and the values that all of its schedules have."""

    def __init__(self, program: Program, size: Sequence[int]) -> None:
        self.program = program
        kernel = compiled(program, {})
        self.source = kernel.source
        self.small = [(given, several(kernel(**given))) for given in map(self._sample, program.small)]
        given = self._sample(size)
        self.right = several(kernel(**given))
        self.arrays = each_alignment(lambda: self._arrays(given))
        self.derived = self._form(kernel)

    def _sample(self, size: Sequence[int]) -> dict[str, Any]:
        found: dict[str, Any] = self.program.story.sample(*size)
        return found

    def _arrays(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Array]]:
        inputs = {
            name: own(each, number) if isinstance(each, np.ndarray) else each
            for number, (name, each) in enumerate(given.items(), 1)
        }
        return inputs, [own(np.zeros_like(each), len(inputs) + n) for n, each in enumerate(self.right, 1)]

    def _form(self, kernel: tm.Kernel) -> Form:
        outputs = kernel.function.outputs
        return Form(
            [bound_call(kernel, {**given, **dict(zip(outputs, out, strict=True))}) for given, out in self.arrays]
        )

    def require_right(self, kernel: tm.Kernel, point: Point) -> None:
        """End the program if a schedule has other values than the derived one."""
        pairs = [*self.small, *((given, self.right) for given, _ in self.arrays[:1])]
        for given, right in pairs:
            for found, expected in zip(several(kernel(**given)), right, strict=True):
                if difference := self.program.differs(found, expected, APART):
                    raise SystemExit(f"{self.program.name} with {told(point)} differs in {difference}")

    def result(self, point: Point) -> Result:
        """A point, measured by turns with the derived schedule."""
        try:
            kernel = compiled(self.program, point)
        except (tm.CommandError, tm.LegalityError, tm.ToolchainError, tm.UnsupportedError) as error:
            return Result(point, refused=str(error).partition("\n")[0])
        if kernel.source == self.source:
            return Result(point, refused="the same as derived")
        self.require_right(kernel, point)
        form = self._form(kernel)
        least = [[float("inf")] * len(self.arrays) for _ in range(2)]
        for _ in range(TURNS):
            for number, each in enumerate((self.derived, form)):
                least[number] = list(map(min, least[number], each.turn()))
            derived, mine = (max(times) * 1e3 for times in least)
            if mine > DROPPED * derived:
                return Result(point, mine, derived, dropped=True)
        return Result(point, mine, derived)


def searched(space: Mapping[str, Sequence[Any]], result: Callable[[Point], Result]) -> None:
    """Go through the numbers of a space one after another, each from the best point so far, until none is better."""
    start, faster = Point(), 1.0
    for _ in range(PASSES):
        before = start
        for name, values in space.items():
            tried = [result({**start, name: value}) for value in values if start.get(name) != value]
            best = max(tried, key=lambda each: each.ratio, default=None)
            if best is not None and not best.dropped and best.ratio > BETTER * faster:
                start, faster = best.point, best.ratio
        if start == before:
            return


def key_of(program: Program) -> str:
    """What a result depends on: the text of the story, and the code that its schedule becomes."""
    code = compiled(program, {}).source
    return hashlib.sha256(inspect.getsource(program.story).encode() + repr(sorted(code.items())).encode()).hexdigest()


def search(program: Program, size: Sequence[int], file: Path, seconds: float) -> None:
    """Search the space of a story, from where an earlier run has stopped; no point begins after so many seconds."""
    end = time.monotonic() + seconds
    found, key = Found.read(file), key_of(program)
    if (found.key, found.size) != (key, tuple(size)):
        found = Found(key, tuple(size), commit=commit())
    bench: list[Bench] = []

    derived = {each.name: each.default for each in inspect.signature(program.story.scheduled).parameters.values()}

    def result(point: Point) -> Result:
        point = {name: value for name, value in point.items() if name not in derived or derived[name] != value}
        if not point:
            return Result(point, 1.0, 1.0)
        if (known := found.known(point)) is not None:
            return known
        if time.monotonic() > end:
            raise TimeoutError
        if not bench:
            bench.append(Bench(program, size))
        made = bench[0].result(point)
        found.results.append(made)
        found.keep(file)
        words = made.refused or f"{made.own:.3f} ms, {made.ratio:.2f}"
        print(f"{program.name}: {told(point)}: {words}", flush=True)
        return made

    try:
        searched(SPACES[program.name], result)
        found.complete = True
    except TimeoutError:
        print(f"{program.name}: {len(found.results)} points so far; a further run goes on", flush=True)
    found.keep(file)


def main() -> None:
    """Search one story."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--story", required=True)
    options.add_argument("--size", type=int, nargs="+", required=True)
    options.add_argument("--file", type=Path, required=True)
    options.add_argument("--seconds", type=float, default=float("inf"))
    asked = options.parse_args()
    search(all_programs()[asked.story], asked.size, asked.file, asked.seconds)


if __name__ == "__main__":
    main()
