"""The hot loops of the stories as machine code, on models of processors that need not be here, beside Halide's.

Nothing is run: compilers say which instructions a loop has, and llvm-mca how many cycles they take on a processor.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.common.tables import RESULTS
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.machine_code import halide_loops
from benchmarks.machine_code.assembly import Loop
from benchmarks.machine_code.compiled_loops import Processor, assembly, hot_loop, work
from benchmarks.machine_code.machines import MACHINES, Machine
from benchmarks.machine_code.mca import INSTALL, Estimate, Model, across_lines, estimate, program
from benchmarks.machine_code.page import changes, page, saved
from tiramisu_py.ir import LoopFunction

NAME = "machine_code"


@dataclass(frozen=True)
class Timed:
    """A loop with its estimate, and the points that an iteration computes; `name` is that of the schedule.

    `others` are the cycles a point of the other loops of a program whose stages have a loop each.
    """

    name: str
    loop: Loop
    estimate: Estimate
    points: float
    others: float = 0.0

    @property
    def cycles(self) -> float:
        """The cycles of a point."""
        return self.estimate.cycles / self.points + self.others


@dataclass(frozen=True)
class Found:
    """What is known of a workload on a machine: our hot loop, and the best one of Halide if that was asked."""

    workload: str
    machine: Machine
    ours: Timed
    halide: Timed | None = None


@functools.cache
def lowered(workload: str, processor: Processor) -> LoopFunction:
    """The loops of a story as it is scheduled for a processor."""
    loops: LoopFunction = WORKLOADS[workload].scheduled(processor.cpu).show("lowered", processor.vector_bytes)
    return loops


def estimated(loop: Loop, model: Model, lines: bool) -> Estimate:
    """The estimate of a loop; with `lines`, loads of vectors that cross a line of the cache count twice."""
    return estimate(across_lines(loop.usual, loop.is_of_stack) if lines else loop.usual, model)


def ours(workload: str, machine: Machine, processor: Processor, lines: bool = False) -> Timed:
    """The hot loop of our schedule."""
    function = lowered(workload, processor)
    done = work(function)
    loop = hot_loop(assembly(function, processor, fast=WORKLOADS[workload].fast), done.stored)
    if loop is None:
        raise SystemExit(f"{workload} for {machine.title}: no loop stores the {done.stored} bytes of an iteration")
    return Timed("tiramisu_py", loop, estimated(loop, machine.model, lines), done.points)


def forms(workload: str, model: Model, target: str, lines: bool = False) -> Iterator[Timed]:
    """Halide's schedules with code for a target, on a model: the longest loop of each, and what the others take."""
    for name, text in halide_loops.assemblies(workload, target):
        loops = halide_loops.hot_loops(workload, name, text)
        made = [(share, loop, estimated(loop, model, lines)) for share, loop in loops]
        if made:
            share, loop, longest = max(made, key=lambda each: each[0] * each[2].cycles)
            every = sum(share * cost.cycles for share, _, cost in made)
            yield Timed(name, loop, longest, 1 / share, every - share * longest.cycles)


def halide(workload: str, machine: Machine) -> Timed | None:
    """The schedule of Halide with the fewest cycles a point."""
    model = machine.model
    found = forms(workload, model, halide_loops.TARGETS[model.processor])
    return min(found, key=lambda each: each.cycles, default=None)


def found(workloads: Sequence[str], machines: Sequence[Machine], peers: bool) -> Iterator[Found]:
    """What is known of each workload on each machine that code can be made for here."""
    for workload in workloads:
        for machine in machines:
            if machine.processor is None:
                continue
            print(f"{workload}, {machine.title}", file=sys.stderr, flush=True)
            beside = halide(workload, machine) if peers and workload != "heat" else None
            yield Found(workload, machine, ours(workload, machine, machine.processor), beside)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or what has changed since it was saved."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--save", action="store_true", help=f"keep the page in docs/results/{NAME}.md")
    options.add_argument("--compare", action="store_true", help="print what has changed since the page was saved")
    options.add_argument("--only", default=",".join(WORKLOADS), help="workloads, separated by commas")
    options.add_argument("--processors", default=",".join(each.title for each in MACHINES), help="as in the table")
    asked = options.parse_args(arguments)
    some = any(getattr(asked, name) != options.get_default(name) for name in ("only", "processors"))
    if asked.save and some:
        options.error("--save keeps the rows of all workloads and processors: leave --only and --processors out")
    if not program()[0]:
        raise SystemExit(INSTALL)
    machines = [each for each in MACHINES if each.title in asked.processors.split(",")]
    peers = importlib.util.find_spec("halide") is not None
    rows = list(found(asked.only.split(","), machines, peers))
    place = RESULTS / f"{NAME}.md"
    before = place.read_text() if place.exists() else ""
    if asked.compare:
        print(changes(saved(before), rows))
        return
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    text = page(rows, f"{program()[1]}; {compiler}", before)
    print(text)
    if asked.save:
        place.write_text(text)
        print(f"saved: {place}")


if __name__ == "__main__":
    main()
