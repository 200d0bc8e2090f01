"""The hot loops of the stories as machine code, on models of processors that need not be here, beside Halide's.

Nothing is run: compilers say which instructions a loop has, and llvm-mca how many cycles they take on a processor.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.common.tables import RESULTS
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.machine_code import halide_loops
from benchmarks.machine_code.assembly import Loop
from benchmarks.machine_code.compiled_loops import Processor, Work
from benchmarks.machine_code.iterations import executed, shares, sizes
from benchmarks.machine_code.machines import MACHINES, Machine
from benchmarks.machine_code.mca import INSTALL, Estimate, Model, across_lines, estimate, program
from benchmarks.machine_code.page import changes, page, saved
from benchmarks.machine_code.stage_loops import loop_of, stage_loops
from tiramisu_py.ir import LoopFunction

NAME = "machine_code"


@dataclass(frozen=True)
class Part:
    """A loop of a program: how many of its iterations there are for a point of the result, and the estimate of one."""

    share: float
    loop: Loop
    estimate: Estimate

    @property
    def cycles(self) -> float:
        """The cycles that it adds to a point."""
        return self.share * self.estimate.cycles


@dataclass(frozen=True)
class Timed:
    """The loops of a program that take its time, the one that takes most first; `name` is that of the schedule."""

    name: str
    parts: tuple[Part, ...]

    @property
    def cycles(self) -> float:
        """The cycles of a point in all loops."""
        return sum(each.cycles for each in self.parts)

    @property
    def loop(self) -> Loop:
        """The hot loop."""
        return self.parts[0].loop

    @property
    def estimate(self) -> Estimate:
        """That of the hot loop."""
        return self.parts[0].estimate

    @property
    def points(self) -> float:
        """The points of the result for an iteration of the hot loop."""
        return 1 / self.parts[0].share

    def halves(self, size: int) -> int:
        """How many instructions of its loops work on vectors that are narrower than this."""
        return sum(len(each.loop.halves(size)) for each in self.parts)

    def spilled(self) -> int:
        """How many instructions of its loops keep a vector on the stack."""
        return sum(len(each.loop.spilled()) for each in self.parts)


@dataclass(frozen=True)
class Found:
    """What is known of a workload on a machine: our program, and the best one of Halide if that was asked."""

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


@functools.cache
def iterations(workload: str, processor: Processor) -> tuple[tuple[float, Work], ...]:
    """The loops of a story that take its time, each with its iterations for a point, at the size that is measured."""
    function, made = lowered(workload, processor), WORKLOADS[workload]
    size = made.sizes[0]
    points = max(math.prod(shape) for shape, _ in made.outputs(*size).values()) * max(made.steps, 1)
    return tuple(shares(executed(function, sizes(function, made.given(*size))), points))


def timed(name: str, loops: Iterable[tuple[float, Loop]], model: Model, lines: bool) -> Timed:
    """A program by its loops, each with its iterations for a point; there is one at least."""
    parts = [Part(share, loop, estimated(loop, model, lines)) for share, loop in loops]
    return Timed(name, tuple(sorted(parts, key=lambda each: -each.cycles)))


def ours(workload: str, machine: Machine, processor: Processor, lines: bool = False) -> Timed:
    """The loops of our schedule that take its time; raises `SystemExit` where one is not in the machine code."""
    loops, found = stage_loops(lowered(workload, processor), processor, WORKLOADS[workload].fast), []
    for share, work in iterations(workload, processor):
        loop = loop_of(loops, work)
        if loop is None:
            wanted = f"stores the {work.stored} bytes of an iteration of {', '.join(sorted(work.stages))}"
            raise SystemExit(f"{workload} for {machine.title}: no loop {wanted}")
        found.append((share, loop))
    return timed("tiramisu_py", found, machine.model, lines)


def forms(workload: str, model: Model, target: str, lines: bool = False) -> Iterator[Timed]:
    """Halide's schedules with code for a target, on a model."""
    for name, text in halide_loops.assemblies(workload, target):
        if loops := halide_loops.hot_loops(workload, name, text):
            yield timed(name, loops, model, lines)


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
