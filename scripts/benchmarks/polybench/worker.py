"""The process of one contender of `scripts/bench polybench`: makes its program, checks it, then runs on demand."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from benchmarks.common.rounds import answers_apart, each_alignment
from benchmarks.common.shared_arrays import beside
from benchmarks.polybench.programs import Array, Bench, Program, all_kernels

#: A program that takes longer than so many seconds runs once in a turn.
SHORT, CALLS = 0.4, 3
#: Sums of many more terms than at the size of the check are rounded as much more often.
LARGER = 1000


def check_small(bench: Bench, contender: str, folder: Path) -> None:
    """Compare a program with NumPy at PolyBench's small size."""
    small = bench.story.SIZES["SMALL"]
    program = Program(bench, contender, small, folder)
    program.prepare()
    program.run()
    compare(bench, contender, program.results, bench.story.exact(bench.story.sample(small)), 1)


def compare(
    bench: Bench, contender: str, found: list[Array], expected: list[Array] | tuple[Array, ...], by: float
) -> None:
    """End this process unless results are as close to others as the kernel says, or `by` times that."""
    for result, right in zip(found, expected, strict=True):
        apart = np.abs(result.astype(np.float64) - right).max(initial=0)
        allowed = by * bench.story.CLOSE * max(float(np.abs(right).max(initial=0)), 1.0)
        if not apart <= allowed:
            raise SystemExit(f"{bench.name}: {contender} is {apart:g} away, more than {allowed:g}")


def check_large(bench: Bench, contender: str, program: Program, folder: Path) -> None:
    """Compare what a program found at the size that is measured with what the first one found."""
    files = [folder / f"{bench.name}_{number}.npy" for number in range(len(program.results))]
    if all(file.exists() for file in files):
        compare(bench, contender, program.results, [np.load(file) for file in files], LARGER)
        return
    for file, result in zip(files, program.results, strict=True):
        np.save(file, result)


def seconds(program: Program) -> float:
    """The time of one call, without that of bringing back its inputs."""
    program.prepare()
    start = time.perf_counter()
    program.run()
    return time.perf_counter() - start


def checked(bench: Bench, contender: str, size: str, folder: Path) -> tuple[Program, float]:
    """A program on arrays of its own, whose values are those of the first one, and the time of a call."""
    place = beside(folder)
    program = Program(bench, contender, bench.story.SIZES[size], place)
    once = seconds(program)
    check_large(bench, contender, program, place)
    return program, once


def serve(programs: Sequence[Program], about: float, answers: TextIO) -> None:
    """One turn for each line of input."""
    print(about, file=answers, flush=True)
    calls = CALLS if about < SHORT else 1
    for _ in sys.stdin:
        print(*(min(seconds(program) for _ in range(calls)) for program in programs), file=answers, flush=True)


def main() -> None:
    """Run as one contender."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--kernel", required=True)
    options.add_argument("--size", required=True)
    options.add_argument("--folder", type=Path, required=True, help="where results and libraries are")
    asked = options.parse_args()
    bench = all_kernels()[asked.kernel]
    check_small(bench, asked.contender, asked.folder)
    made = each_alignment(lambda: checked(bench, asked.contender, asked.size, asked.folder))
    serve([program for program, _ in made], max(once for _, once in made), answers)


if __name__ == "__main__":
    main()
