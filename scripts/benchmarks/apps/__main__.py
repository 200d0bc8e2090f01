"""Run time of the apps in `examples/apps` beside Halide with its own schedules, and beside OpenCV.

scripts/bench apps [--save] [--threads 1,2] [--only harris,...] [--size RxC] [--seconds S] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.apps.cost import Cost, cost
from benchmarks.apps.programs import HALIDE, OPENCV, OURS, App, all_apps, missing
from benchmarks.apps.worker import EXACT
from benchmarks.common import one_processor
from benchmarks.common.rounds import Contender, least, median_ratio, speedup, turns
from benchmarks.common.shared_arrays import folder
from benchmarks.common.tables import keep, milliseconds, report, table, versions

WORKER = "apps.worker"
TITLE = "The apps of examples/apps beside Halide and OpenCV"
PROJECTS = ("tiramisu_py", "numpy", "halide", "opencv-python-headless")
RULES = """\
One process for each program, with its own copy of the same data (huge pages where the system gives them); the
programs take turns, ours as a C function. Halide has the schedule for CPUs that comes with its app. Times are minima of
all turns; ratios are of these, and behind them in brackets the median of the ratios in each round: above 1, ours is
faster. Before that each program is compared with NumPy in a wider type, within the tolerance given below. Our kernels
are compiled with contraction into fused multiply-adds (`fast=("contract",)`), which Halide uses too."""
COSTS = """\
Lines are of code, with the helpers and names of the module that they use; the schedule's are those beyond the
algorithm's. Seconds are of processor time, once; compile is the C compiler's, emitted C is that of the program
itself."""


@dataclass(frozen=True)
class Measured:
    """The turns of all programs for one app and number of threads."""

    app: App
    size: tuple[int, ...]
    threads: int
    rounds: Sequence[Mapping[str, float]]

    @property
    def least(self) -> dict[str, float]:
        """Seconds of the fastest turn of each program."""
        return least(self.rounds)


def measured(app: App, size: tuple[int, ...], place: Path, threads: int, seconds: float, least: int) -> Measured:
    """One app with one number of threads; the exact values are in a folder."""
    arguments = ["--app", app.name, "--size", *map(str, size), "--folder", str(place)]
    with ExitStack() as stack:
        processes = []
        for name in app.contenders:
            processes.append(Contender(WORKER, name, arguments, threads))
            stack.callback(processes[-1].close)
        return Measured(app, size, threads, turns(processes, seconds, least))


def summary(found: Sequence[Measured]) -> str:
    """One row for each app and number of threads."""
    single = {each.app.name: each.least[OURS] for each in found if each.threads == 1}
    rows = []
    for each in found:
        times, name = each.least, each.app.name
        scaled = f"{single[name] / times[OURS]:.2f}" if each.threads > 1 and name in single else ""
        peers = [cell for peer in (HALIDE, OPENCV) for cell in (time_of(times, peer), over(each, peer))]
        shape = " x ".join(map(str, each.size[::-1] if len(each.size) == 2 else each.size))
        rows.append([name, shape, str(each.threads), milliseconds(times[OURS]), *peers, scaled])
    header = ["app", "size", "threads", "ours, ms", "Halide, ms", "as Halide", "OpenCV, ms", "as OpenCV"]
    return table([*header, "over 1 thread"], rows)


def time_of(times: Mapping[str, float], program: str) -> str:
    """The milliseconds of a program that was measured."""
    return milliseconds(times[program]) if program in times else ""


def over(each: Measured, program: str) -> str:
    """How many times as fast ours is."""
    return speedup(each.rounds, OURS, program)


def means(found: Sequence[Measured]) -> str:
    """The geometric means of the ratios to Halide, a line for each number of threads."""
    lines = []
    for threads in dict.fromkeys(each.threads for each in found):
        both = [each for each in found if each.threads == threads and HALIDE in each.least]
        if both:
            of_least = statistics.geometric_mean(each.least[HALIDE] / each.least[OURS] for each in both)
            of_median = statistics.geometric_mean(median_ratio(each.rounds, OURS, HALIDE) for each in both)
            lines.append(f"Threads: {threads}. Geometric mean over {len(both)} apps: {of_least:.2f} ({of_median:.2f}).")
    return "\n".join(lines) if lines else "Nothing was measured beside Halide."


def costs_of(costs: Mapping[str, Cost]) -> str:
    """The table of what the apps cost."""
    rows = [
        [name, *map(str, (each.algorithm, each.schedule)),
         *(f"{part:.2f}" for part in (each.check, each.emit, each.compile)), f"{each.size:.0f}"]
        for name, each in costs.items()
    ]  # fmt: skip
    header = ["app", "lines of algorithm", "of schedule", "check, s", "emit, s", "compile, s", "C, kB"]
    return table(header, rows)


def page(found: Sequence[Measured], costs: Mapping[str, Cost]) -> str:
    """The whole page."""
    apps = {each.app.name: each.app for each in found}
    named = "\n".join(f"- {name}: {app.title}. {tolerances(app)}" for name, app in apps.items())
    absent = missing()
    left_out = f"Left out, not installed here: {', '.join(absent)}.\n\n" if absent else ""
    return "\n\n".join([
        f"{versions(PROJECTS)}.", f"{left_out}{RULES}", named, "## Times", summary(found), means(found),
        "## What they cost", costs_of(costs), COSTS,
    ])  # fmt: skip


def tolerances(app: App) -> str:
    """How close the programs are to NumPy."""
    by_close = dict[float, list[str]]()
    for name in app.contenders:
        by_close.setdefault(app.close(name), []).append(name)
    texts = [f"{' and '.join(names)} within {close:g}" if close else f"{' and '.join(names)} exact"
             for close, names in by_close.items()]  # fmt: skip
    share = getattr(app.story, "APART", 0.0)
    return f"Values: {'; '.join(texts)}{f', but for a share of {share:g}' if share else ''}."


def exact_values(app: App, size: tuple[int, ...], place: Path) -> None:
    """Write the values that all programs are compared with."""
    np.save(place / EXACT, app.story.exact(app.story.sample(*size)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the apps asked for, print the page, and save it if asked."""
    apps = all_apps()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/apps.md")
    options.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    options.add_argument("--only", help=f"some of {','.join(apps)}")
    options.add_argument("--size", help="instead of each app's own, such as 1600x2560")
    options.add_argument("--seconds", type=float, default=4, help="for the rounds of an app and its threads")
    options.add_argument("--rounds", type=int, default=5, help="at least so many")
    one_processor.options(options)
    given = options.parse_args(arguments)
    one_processor.apply(given)
    chosen = given.only.split(",") if given.only else list(apps)
    if unknown := [name for name in chosen if name not in apps]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(apps)} are the apps")
    asked = tuple(int(part) for part in given.size.split("x")) if given.size else None
    found, costs = list[Measured](), dict[str, Cost]()
    for app in (apps[name] for name in chosen):
        size = asked or app.size
        with folder() as name:
            exact_values(app, size, Path(name))
            costs[app.name] = cost(app)
            for count in map(int, given.threads.split(",")):
                print(f"{app.name}, threads: {count} ...", file=sys.stderr, flush=True)
                found.append(measured(app, size, Path(name), count, given.seconds, given.rounds))
        if given.save:
            keep("apps", TITLE, page(found, costs), "scripts/bench apps")
    report("apps", TITLE, page(found, costs), given.save)


if __name__ == "__main__":
    main()
