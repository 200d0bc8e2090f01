"""Run time of the stories in `examples/linear` beside NumPy, SciPy, MKL, PyTorch and numba.

scripts/bench linear [--save] [--threads 1,2] [--only "sgemm 1024,skinny,..."] [--seconds S] [--rounds N]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import one_processor
from benchmarks.common.rounds import Contender, least, speedup, turns
from benchmarks.common.shared_arrays import folder
from benchmarks.common.tables import keep, milliseconds, report, table, versions
from benchmarks.linear.peers import missing
from benchmarks.linear.worker import OURS, contenders
from benchmarks.linear.workloads import WORKLOADS, Workload

WORKER = "linear.worker"
TITLE = "The stories of examples/linear beside libraries"
PROJECTS = ("tiramisu_py", "numpy", "scipy", "mkl", "torch", "numba")
RULES = """\
One process for each program, with its own copy of the same data (huge pages where the system gives them); the
programs take turns, ours as a C function. Times are minima of all turns; ratios are of these, and behind them in
brackets the median of the ratios in each round: above 1, ours is faster. Before that each program is compared with the
same in a wider type: each value is within the error that rounding in any order can make. Our kernels are compiled with
contraction into fused multiply-adds (`fast=("contract",)`), which the libraries use too; they sum in other orders than
one after another, as ours do where a schedule says so. NumPy's products are those of its OpenBLAS; PyTorch's
convolution is oneDNN's, to which we give weights in its format; ours copies them in each call. "PyTorch, fused" applies
ReLU in the same primitive, has packed its weights before, and returns an array of its own. PyTorch's layer
normalisation allocates its result, in memory that the process keeps."""


@dataclass(frozen=True)
class Measured:
    """The turns of all programs for one workload and number of threads."""

    workload: Workload
    threads: int
    rounds: Sequence[Mapping[str, float]]

    @property
    def least(self) -> dict[str, float]:
        """Seconds of the fastest turn of each program."""
        return least(self.rounds)

    def over(self, program: str) -> str:
        """The speedup of our program over another, and the median over the rounds; nothing if it was not measured."""
        return speedup(self.rounds, OURS, program)


def exact_values(workload: Workload, place: Path) -> Path:
    """The file of the exact values of a workload, with the error that each may have; made once."""
    file = place / f"{workload.name}.npz"
    if not file.exists():
        values, bound = workload.exact(workload.given())
        np.savez(file, values=values, bound=bound)
    return file


def measured(workload: Workload, threads: int, seconds: float, least: int, place: Path) -> Measured:
    """One workload with one number of threads; its exact values are in a folder."""
    arguments = ["--workload", workload.name, "--exact", str(exact_values(workload, place))]
    with ExitStack() as stack:
        processes = []
        for name in contenders(workload):
            processes.append(Contender(WORKER, name, arguments, threads))
            stack.callback(processes[-1].close)
        return Measured(workload, threads, turns(processes, seconds, least))


def summary(found: Sequence[Measured]) -> str:
    """One row for each workload and number of threads: ours and the best of the others."""
    single = {each.workload.name: each.least[OURS] for each in found if each.threads == 1}
    rows = []
    for each in found:
        ours, name = each.least[OURS], each.workload.name
        others = {other: time for other, time in each.least.items() if other != OURS}
        best = min(others, key=lambda other: others[other])
        scaled = f"{single[name] / ours:.2f}" if each.threads > 1 and name in single else ""
        rows.append([
            name, str(each.threads), milliseconds(ours), each.workload.rate(ours), best, milliseconds(others[best]),
            each.over(best), each.over("NumPy" if "NumPy" in others else "SciPy"), scaled,
        ])  # fmt: skip
    times = ["ours, ms", "rate", "best peer", "its ms", "times as fast", "as NumPy or SciPy", "over 1 thread"]
    header = ["workload", "threads", *times]
    return table(header, rows)


def programs(found: Sequence[Measured]) -> str:
    """One row for every program."""
    rows = [
        [each.workload.name, str(each.threads), name, milliseconds(time), each.workload.rate(time), each.over(name)]
        for each in found
        for name, time in each.least.items()
    ]
    return table(["workload", "threads", "program", "ms", "rate", "ours is faster by"], rows)


def page(found: Sequence[Measured]) -> str:
    """The whole page."""
    named = "\n".join(
        f"- {name}: {title}" for name, title in {e.workload.name: e.workload.title for e in found}.items()
    )
    absent = missing()
    left_out = f"Left out, not installed here: {', '.join(absent)}.\n\n" if absent else ""
    return "\n\n".join([
        f"{versions(PROJECTS)}.", f"{left_out}{RULES}", named, "## Ours and the best of the others", summary(found),
        "## All programs", programs(found),
    ])  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the workloads asked for, print the page, and save it if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/linear.md")
    options.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    options.add_argument("--only", help=f"some of {','.join(WORKLOADS)}")
    options.add_argument("--seconds", type=float, default=4, help="for the rounds of a workload and its threads")
    options.add_argument("--rounds", type=int, default=5, help="at least so many")
    one_processor.options(options)
    given = options.parse_args(arguments)
    one_processor.apply(given)
    chosen = given.only.split(",") if given.only else list(WORKLOADS)
    if unknown := [name for name in chosen if name not in WORKLOADS]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(WORKLOADS)} are the workloads")
    asked = [(name, int(number)) for name in chosen for number in given.threads.split(",")]
    found = list[Measured]()
    with folder() as place:
        for position, (name, count) in enumerate(asked, 1):
            print(f"{position} of {len(asked)}: {name}, threads: {count} ...", file=sys.stderr, flush=True)
            found.append(measured(WORKLOADS[name], count, given.seconds, given.rounds, Path(place)))
            if given.save:
                keep("linear", TITLE, page(found), "scripts/bench linear")
    report("linear", TITLE, page(found), given.save)


if __name__ == "__main__":
    main()
