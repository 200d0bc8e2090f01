"""The process of one form of a story of `scripts/bench auto`: makes it, checks it, then runs on demand."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

import tiramisu_py as tm
from benchmarks.auto.programs import APART, FAST, Array, Program, all_programs, several, threads_here
from benchmarks.common.rounds import Run, answers_apart, each_alignment, holding
from benchmarks.common.shared_arrays import own
from tiramisu_py.toolchain.kernel import bound_call

#: A program that takes longer than so many seconds runs once in a turn.
SHORT, CALLS = 0.4, 5


def check_small(program: Program, kernel: tm.Kernel, form: str) -> None:
    """Compare a form with the reference of the story at small sizes."""
    for size in program.small:
        given = program.story.sample(*size)
        for found, right in zip(several(kernel(**given)), program.expected(given), strict=True):
            if difference := program.differs(found, right):
                raise SystemExit(f"{program.name}: {form} at {size} differs from the reference in {difference}")


def check_large(program: Program, form: str, results: list[Array], folder: Path) -> None:
    """Compare results at the size that is measured with those of the first form."""
    files = [folder / f"{number}.npy" for number in range(len(results))]
    for file, found in zip(files, results, strict=True):
        if not file.exists():
            np.save(file, found)
        elif difference := program.differs(found, np.load(file), APART):
            raise SystemExit(f"{program.name}: {form} differs from the first form in {difference}")


def seconds(run: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def serve(runs: Sequence[Run], once: float, about: str, answers: TextIO) -> None:
    """One turn for each line of input."""
    print(about, file=answers, flush=True)
    calls = CALLS if once < SHORT else 1
    for _ in sys.stdin:
        print(*(min(seconds(run) for _ in range(calls)) for run in runs), file=answers, flush=True)


def checked(program: Program, kernel: tm.Kernel, form: str, size: Sequence[int], folder: Path) -> Run:
    """A form on arrays of its own, whose values are those of the first form."""
    given = {
        name: own(each, number) if isinstance(each, np.ndarray) else each
        for number, (name, each) in enumerate(program.story.sample(*size).items(), 1)
    }
    results = [own(np.zeros_like(each), len(given) + n) for n, each in enumerate(several(kernel(**given)), 1)]
    run = bound_call(kernel, {**given, **dict(zip(kernel.function.outputs, results, strict=True))})
    run()
    check_large(program, form, results, folder)
    return holding(run, given, results)


def main() -> None:
    """Run as one form of one story."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--story", required=True)
    options.add_argument("--size", type=int, nargs="*", default=())
    options.add_argument("--folder", type=Path, required=True, help="where the results of the first form are")
    asked = options.parse_args()
    program, threads = all_programs()[asked.story], threads_here()
    f, scheduling = program.function(asked.contender, threads)
    kernel = f.compile(fast=FAST, threads=threads)
    check_small(program, kernel, asked.contender)
    size = tuple(asked.size) or program.size
    runs = each_alignment(lambda: checked(program, kernel, asked.contender, size, asked.folder))
    once = max(map(seconds, runs))
    about = json.dumps({"scheduling": scheduling, "once": once, "commands": len(f.commands), "size": size})
    serve(runs, once, about, answers)


if __name__ == "__main__":
    main()
