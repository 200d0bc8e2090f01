"""Run time of the stories in `examples/cpu` beside Halide, OpenCV, numba, Devito and what the machine can do at most.

scripts/bench cpu [--save] [--threads 1,2] [--only blur,...] [--sizes 1000x2000,8000x8000] [--seconds S]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.common import one_processor
from benchmarks.common.rounds import Contender, turns
from benchmarks.common.shared_arrays import folder
from benchmarks.common.tables import keep, report, save_pictures
from benchmarks.cpu import page
from benchmarks.cpu.cost import cost
from benchmarks.cpu.limits import measured, streams
from benchmarks.cpu.page import Measured
from benchmarks.cpu.worker import contenders, share
from benchmarks.cpu.workloads import WORKLOADS, Array, Size, Workload

WORKER = "cpu.worker"
BAND, SMALL_SIZE = 2**22, 2**23


def differs(found: Array, expected: Array, tolerance: tuple[float, float]) -> str:
    """How two arrays differ beyond the tolerance, or an empty text."""
    most, share_of_points = tolerance
    a, b, apart, worst = found.reshape(-1), expected.reshape(-1), 0, 0.0
    for first in range(0, a.size, BAND):
        x, y = a[first : first + BAND], b[first : first + BAND]
        if np.array_equal(x, y):
            continue
        distance = np.abs(x.astype(np.float64) - y.astype(np.float64))
        apart += int(np.count_nonzero(~(distance <= most)))
        worst = max(worst, float(np.nanmax(distance, initial=0)))
    return f"{apart} of {a.size} points, by up to {worst:g}" if apart > share_of_points * a.size else ""


def started(
    workload: Workload, size: Size, names: Sequence[str], place: Path, threads: int, calls: int
) -> list[Contender]:
    """The processes of all contenders, after each one's result has been compared with ours."""
    results, expected, processes = share(workload, *size, place), dict[str, Array](), list[Contender]()
    for name in names:
        for each in results:
            for result in each.values():
                result[:] = 0
        arguments = ["--workload", workload.name, "--size", *map(str, size), "--folder", str(place)]
        processes.append(Contender(WORKER, name, [*arguments, "--calls", str(calls)], threads))
        assert processes[-1].about is not None  # its result is there once it is ready
        expected = expected or {output: np.array(result) for output, result in results[0].items()}
        others = [each for each in results[1:] if any(not np.array_equal(each[o], results[0][o]) for o in each)]
        for output, result in (item for each in (results[0], *others) for item in each.items()):
            if difference := differs(result, expected[output], workload.tolerance(name)):
                raise SystemExit(f"{workload.name}, {size[1]} x {size[0]}: {name} differs in {difference}")
    return processes


def compared(workload: Workload, size: Size, threads: int, seconds: float, least: int) -> Measured:
    """One size of one workload."""
    names, _ = contenders(workload)
    calls = 1 if workload.steps else 3 if size[0] * size[1] > SMALL_SIZE else 20
    with ExitStack() as stack:
        place = Path(stack.enter_context(folder()))
        processes = started(workload, size, names, place, threads, calls)
        for process in processes:
            stack.callback(process.close)
        rounds = turns(processes, seconds, least)
        return Measured(workload, size, threads, rounds, {process.name: process.about for process in processes})


def asked_sizes(text: str | None) -> list[Size] | None:
    """The rows and columns of each picture in a list such as 1000x2000,8000x8000."""
    return (
        [(int(rows), int(columns)) for rows, columns in (one.split("x") for one in text.split(","))] if text else None
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the workloads asked for, print the page, and save it if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/cpu.md and its pictures")
    options.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    options.add_argument("--only", help=f"some of {','.join(WORKLOADS)}")
    options.add_argument("--sizes", help="rows x columns instead of each workload's own, such as 1000x2000,8000x8000")
    options.add_argument(
        "--seconds", type=float, default=8, help="for the rounds of a workload, a size and its threads"
    )
    options.add_argument("--rounds", type=int, default=5, help="at least so many")
    one_processor.options(options)
    given = options.parse_args(arguments)
    one_processor.apply(given)
    chosen = given.only.split(",") if given.only else list(WORKLOADS)
    if unknown := [name for name in chosen if name not in WORKLOADS]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(WORKLOADS)} are the workloads")
    workloads = [WORKLOADS[name] for name in chosen]
    sizes, threads = asked_sizes(given.sizes), [int(number) for number in given.threads.split(",")]

    moves = [streams(workload, size) for workload in workloads for size in sizes or workload.sizes]
    limits = {count: measured(count, moves, min(1e3, 125 * given.seconds)) for count in threads}
    costs = {workload.name: cost(workload, 3 if given.seconds else 1) for workload in workloads}
    found = list[Measured]()
    for workload in workloads:
        for size in sizes or workload.sizes:
            for count in threads:
                print(f"{workload.name}, {size[1]} x {size[0]}, {count} threads ...", file=sys.stderr, flush=True)
                found.append(compared(workload, size, count, given.seconds, given.rounds))
                if given.save:
                    keep("cpu", page.TITLE, page.page(found, limits, costs), "scripts/bench cpu")
    report("cpu", page.TITLE, page.page(found, limits, costs), given.save)
    if given.save:
        save_pictures(page.pictures(found, limits))


if __name__ == "__main__":
    main()
