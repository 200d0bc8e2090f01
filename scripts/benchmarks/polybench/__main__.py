"""Run time of PolyBench's kernels: ours plain, automatic and by hand beside C, plain and as Pluto transforms it.

scripts/bench polybench [--save] [--threads 1,2] [--only lu,...] [--contenders gcc,hand,...] [--size LARGE]
                        [--seconds S] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import one_processor
from benchmarks.common.pictures import bars
from benchmarks.common.rounds import Contender, least, turns
from benchmarks.common.shared_arrays import folder
from benchmarks.common.tables import drawn, keep, milliseconds, report, save_pictures, table, versions
from benchmarks.polybench.programs import AUTO, CLANG, GCC, HAND, IN_C, OURS, PLAIN, PLUTO, Bench, all_kernels

WORKER = "polybench.worker"
TITLE = "PolyBench's kernels beside C and Pluto's transformations"
NAMES = {GCC: "gcc", CLANG: "clang", PLUTO: "Pluto", PLAIN: "plain", AUTO: "auto", HAND: "by hand"}
SLOW = 2  # rounds of kernels that take longer than the time for all rounds
RULES = """\
gcc and clang compile plain loops in PolyBench's order with `-O3` for the processor; Pluto is C that we wrote by its
published rules (tiles of 32, skewed time, pipelined wavefronts on threads), compiled by gcc with the same flags and
OpenMP. Plain, auto and by hand are ours: the algorithm as declared, `f.auto_schedule()`, and the schedule of the
example, compiled with contraction into fused multiply-adds (`fast=("contract",)`), which the C compilers use, too. One
process for each program, with its own copy of the same data; the programs take turns. Times are minima of all turns, in
milliseconds; inputs that a program changes are brought back before each call, outside of the time. Each program is
compared with NumPy at the size SMALL, and with the others at the size measured."""


@dataclass(frozen=True)
class Measured:
    """The turns of all programs for one kernel and number of threads."""

    bench: Bench
    threads: int
    rounds: Sequence[Mapping[str, float]]

    @property
    def least(self) -> dict[str, float]:
        """Seconds of the fastest turn of each program."""
        return least(self.rounds)

    def over(self, ours: str, peer: str) -> float | None:
        """How many times as fast one program is as another, if both were measured."""
        times = self.least
        return times[peer] / times[ours] if ours in times and peer in times else None


def measured(
    bench: Bench, contenders: Sequence[str], size: str, place: Path, threads: int, seconds: float, rounds: int
) -> Measured:
    """One kernel with one number of threads. Programs are made one after another: the first has the results."""
    arguments = ["--kernel", bench.name, "--size", size, "--folder", str(place)]
    with ExitStack() as stack:
        processes, once = [], 0.0
        for name in contenders:
            processes.append(Contender(WORKER, name, arguments, threads))
            stack.callback(processes[-1].close)
            once += float(processes[-1].about)
        return Measured(bench, threads, turns(processes, seconds, SLOW if once > seconds else rounds))


def of_threads(found: Sequence[Measured]) -> Iterator[tuple[int, list[Measured]]]:
    """The kernels by numbers of threads."""
    for threads in dict.fromkeys(each.threads for each in found):
        yield threads, [each for each in found if each.threads == threads]


def times(found: Sequence[Measured]) -> str:
    """The milliseconds of each program, a row for each kernel."""
    shown = [name for name in NAMES if any(name in each.least for each in found)]
    rows = [
        [each.bench.name, *(milliseconds(each.least[n]) if n in each.least else "" for n in shown)] for each in found
    ]
    return table(["kernel", *(NAMES[name] for name in shown)], rows)


def ratios(found: Sequence[Measured]) -> str:
    """How many times as fast our programs are as those in C, and as each other; the last row has geometric means."""
    pairs = [(ours, peer) for ours in reversed(OURS) for peer in IN_C] + [(AUTO, HAND)]
    shown = [pair for pair in pairs if any(each.over(*pair) for each in found)]
    rows = [[each.bench.name, *(written(each.over(*pair)) for pair in shown)] for each in found]
    means = [written(mean([each.over(*pair) for each in found])) for pair in shown]
    return table(
        ["kernel", *(f"{NAMES[ours]} / {NAMES[peer]}" for ours, peer in shown)], [*rows, ["geometric mean", *means]]
    )


def mean(values: Sequence[float | None]) -> float | None:
    """The geometric mean of those that were measured."""
    known = [value for value in values if value is not None]
    return statistics.geometric_mean(known) if known else None


def written(value: float | None) -> str:
    """A ratio with two digits behind the point."""
    return "" if value is None else f"{value:.2f}"


def pictures(found: Sequence[Measured]) -> dict[str, str]:
    """For each number of threads, how many times as fast as plain C by gcc the other programs are."""
    made = {}
    for threads, kernels in of_threads(found):
        shown = [n for n in (PLUTO, *OURS) if any(each.over(n, GCC) for each in kernels)]
        series = {NAMES[name]: [each.over(name, GCC) for each in kernels] for name in shown}
        title = f"Times as fast as plain C by gcc -O3, threads: {threads}"
        made[f"polybench_{threads}"] = bars(title, [each.bench.name for each in kernels], series, "times")
    return made


def page(found: Sequence[Measured], size: str) -> str:
    """The whole page."""
    parts = [f"{versions(('tiramisu_py', 'numpy'))}. Sizes: {size}.", RULES]
    for threads, kernels in of_threads(found):
        head, file = f"## Threads: {threads}", drawn(f"polybench_{threads}")
        picture = f"![Times as fast as plain C](pictures/{file}.svg)"
        parts += [head, times(kernels), "Times as fast:", ratios(kernels), picture]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the kernels asked for, print the page, and save it with its pictures if asked."""
    kernels = all_kernels()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/polybench.md")
    options.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    options.add_argument("--only", help=f"some of {','.join(kernels)}")
    options.add_argument("--contenders", help=f"some of {','.join(NAMES)}")
    options.add_argument("--size", default="LARGE", choices=["MINI", "SMALL", "LARGE"])
    options.add_argument("--seconds", type=float, default=6, help="for the rounds of a kernel and its threads")
    options.add_argument("--rounds", type=int, default=5, help="at least so many, but two of slow kernels")
    one_processor.options(options)
    given = options.parse_args(arguments)
    one_processor.apply(given)
    chosen = given.only.split(",") if given.only else list(kernels)
    if unknown := [name for name in chosen if name not in kernels]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(kernels)} are the kernels")
    found = list[Measured]()
    for bench in (kernels[name] for name in chosen):
        asked = given.contenders.split(",") if given.contenders else bench.contenders
        for count in map(int, given.threads.split(",")):
            print(f"{bench.name}, threads: {count} ...", file=sys.stderr, flush=True)
            with folder() as place:
                found.append(measured(bench, asked, given.size, Path(place), count, given.seconds, given.rounds))
        if given.save:
            keep("polybench", TITLE, page(found, given.size), "scripts/bench polybench")
    if given.save:
        save_pictures(pictures(found))
    report("polybench", TITLE, page(found, given.size), given.save)


if __name__ == "__main__":
    main()
