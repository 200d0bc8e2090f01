"""Reductions over any dimensions beside NumPy, PyTorch eager and compiled, and numba.

scripts/bench reductions [--save] [--threads 1,2] [--only "columns;12: all"] [--seconds S] [--rounds N]
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.common.rounds import Contender, least, turns
from benchmarks.common.tables import keep, milliseconds, report, table, versions
from benchmarks.common.workloads import asked_for, command
from benchmarks.cpu.limits import measured as limits
from benchmarks.reductions.peers import COMPILED, NUMBA, PEERS, missing
from benchmarks.reductions.worker import COPIES, OURS, contenders
from benchmarks.reductions.workloads import KINDS, PAST, SMALL, Workload, workloads

WORKER, TITLE = "reductions.worker", "Reductions beside libraries"
PROJECTS = ("tiramisu_py", "numpy", "torch", "numba")
RULES = f"""\
Sub-graphs are those of Zhao et al., Panamera (PACT 2022), table 2, at the paper's shapes and, with a longer first axis,
past 128 MB; forms are all, x (terms contiguous) and y (values contiguous), and the numbers are values and terms. One
process for each program, with its own copy of the same data (huge pages where the system gives them); the programs
take turns, and times are minima of all turns, in milliseconds. Before that the results of each are compared with those
in float64. Our kernels are C functions, called from C; the others are called from Python. Programs whose arrays have
at most {SMALL >> 20} MB are called many times in a row. `torch.compile` is PyTorch's compiler (Inductor) for the same
formula and these shapes; numba has the loops, with reassociation. For sub-graphs 1 and 2 the code that Inductor makes
here leaves out the rounding of the terms to float16 and adds the float32 values as they are; all others round. Our
sums have the same bits on any number of threads (the grade `everywhere`). Ratios are how many times as fast ours is:
above 1, ours is faster. The read limit is the rate at which the same machine reads an array of that size in a plain
loop of vectors (`limits.c`)."""
Least = Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """The least seconds of a call of each program, with a number of threads."""

    workload: Workload
    threads: int
    times: Least

    @property
    def rate(self) -> float:
        """The GB/s of our program."""
        return float(self.workload.program.read / self.times[OURS] / 1e9)

    def over(self, *peers: str) -> float:
        """How many times as fast ours is as the fastest of some; 0 if none was measured."""
        return min((self.times[peer] / self.times[OURS] for peer in peers if peer in self.times), default=0.0)


def measured(workload: Workload, threads: int, seconds: float, rounds: int, cut: int) -> Measured:
    """One workload with one number of threads."""
    arguments = ["--workload", workload.name, *(["--cut", str(cut)] if cut else [])]
    run = workload.cut(cut) if cut else workload
    with ExitStack() as stack:
        processes = []
        for name in contenders(workload, threads):
            processes.append(Contender(WORKER, name, arguments, threads))
            stack.callback(processes[-1].close)
        found = least(turns(processes, seconds, rounds))
    return Measured(run, threads, {name: time / run.repeat for name, time in found.items()})


def read_limits(found: Sequence[Measured], most: float = 300) -> dict[tuple[int, int], float]:
    """GB/s of a loop that reads as many bytes, for each size past the caches and number of threads."""
    made = {}
    for threads in {each.threads for each in found}:
        sizes = {each.workload.program.read for each in found if each.threads == threads}
        moves = [(1, 0, size) for size in sizes if size > PAST]
        for (_, _, size), rates in (limits(threads, moves, most).moved if moves else {}).items():
            made[threads, size] = max(rates)
    return made


def rows(found: Sequence[Measured], limit: Mapping[tuple[int, int], float]) -> Iterator[list[str]]:
    """A row for each workload."""
    for each in found:
        best = each.over(*PEERS)
        rate = limit.get((each.threads, each.workload.program.read))
        yield [
            each.workload.name, milliseconds(each.times[OURS]),
            *(milliseconds(each.times[name]) if name in each.times else "" for name in PEERS),
            f"{best:.2f}" if best else "", f"{each.rate:.1f}", f"{each.rate / rate:.2f}" if rate else "",
        ]  # fmt: skip


def mean(ratios: Sequence[float]) -> str:
    """The geometric mean, and the least."""
    measured = [ratio for ratio in ratios if ratio]
    return f"{statistics.geometric_mean(measured):.2f} (least {min(measured):.2f})" if measured else "not measured"


def summary(found: Sequence[Measured], kind: str) -> str:
    """The means of a section: over each peer, over the best that fuses, and over the best of all."""
    against = [f"{name} {mean([each.over(name) for each in found])}" for name in PEERS]
    fused = f"; over the best that fuses {mean([each.over(COMPILED, NUMBA) for each in found])}"
    best = f"over the best of all {mean([each.over(*PEERS) for each in found])}"
    return f"Geometric means: {best}{fused if kind != KINDS[0] else ''}; over {', '.join(against)}."


def grades(found: Sequence[Measured]) -> str:
    """The grade `everywhere` beside private copies of threads."""
    lines = [
        [each.workload.name, str(each.threads), milliseconds(each.times[OURS]), milliseconds(each.times[COPIES]),
         f"{each.over(COPIES):.2f}"]
        for each in found if COPIES in each.times
    ]  # fmt: skip
    return table(["reduction", "threads", "everywhere, ms", "private copies, ms", "times as fast"], lines)


def page(found: Sequence[Measured], limit: Mapping[tuple[int, int], float]) -> str:
    """The whole page."""
    absent = missing()
    parts = [f"{versions(PROJECTS)}.", *([f"Not installed here: {', '.join(absent)}."] if absent else []), RULES]
    head = ["reduction", "ours", *PEERS, "best / ours", "GB/s", "of the read limit"]
    for threads in dict.fromkeys(each.threads for each in found):
        for kind in KINDS:
            chosen = [each for each in found if each.threads == threads and each.workload.kind == kind]
            if chosen:
                parts += [f"## {kind}, threads: {threads}", table(head, list(rows(chosen, limit)))]
                parts += [summary(chosen, kind)]
    if any(COPIES in each.times for each in found):
        parts += ["## The same bits on any number of threads, and private copies", grades(found)]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the workloads asked for, print the page, and save it if asked."""
    options = command(__doc__, "reductions", "columns;12: all", 3)
    options.add_argument("--cut", type=int, default=0, help="extents of at most so much, to try the programs")
    given, wanted = asked_for(options, arguments, workloads())
    found = list[Measured]()
    for threads, each in wanted:
        found.append(measured(each, threads, given.seconds, given.rounds, given.cut))
        if given.save:
            keep("reductions", TITLE, page(found, {}), "scripts/bench reductions")
    report("reductions", TITLE, page(found, read_limits(found)), given.save)


if __name__ == "__main__":
    main()
