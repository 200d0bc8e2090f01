"""Values and gradients of ten programs in one step, beside JAX and PyTorch; what compiling a step costs.

scripts/bench gradients [--save] [--threads 1,2] [--only heat,...] [--peers JAX,PyTorch,torch.compile,Halide]
                        [--seconds S]
                        [--small] [--costs]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import one_processor
from benchmarks.common.rounds import Contender, least, turns
from benchmarks.common.shared_arrays import folder
from benchmarks.common.tables import keep, milliseconds, report, table, versions
from benchmarks.gradients.compiling import Compiling, compiling
from benchmarks.gradients.halide_adjoints import PROGRAMS as IN_HALIDE
from benchmarks.gradients.programs import PROGRAMS, Differentiated
from benchmarks.gradients.worker import ALONE, COMPILED, EAGER, HALIDE, JAX, OURS

WORKER = "gradients.worker"
TITLE = "Gradients"
PACKAGES = {JAX: "jax", EAGER: "torch", COMPILED: "torch", HALIDE: "halide"}
RULES = """\
A step is `tm.vjp(f).step` with `auto_schedule()`, after 22 commands by hand for conv2d (of its sums, out and d_image
are in tiles of registers) and 6 to 9 for heat and wave (each 7th or 14th level of u is kept, and those between are
computed again), compiled with contraction into fused multiply-adds (`fast=("contract",)`): the outputs of f,
and the gradients of their weighted sum. f alone is f scheduled in the same way.
Numbers are from 0.1 to 0.25, those of wave from 0.4 to 0.49: with small ones a field that spreads has many denormal
numbers (in 8 % of the vectors of u), which slow a core down that is not told to take them as 0; JAX tells it so.
JAX runs `jax.vjp` under `jax.jit`, PyTorch `torch.autograd.grad`, eager and with the program under `torch.compile`.
Halide runs the output and the gradients of `propagate_adjoints` as one pipeline, with the schedule of its autoscheduler
Mullapudi2016 (for unsharp Adams2019), where it has the program. All are in float32, with the same data, and results are
compared. One process each, in turns, on as many cores as threads; times are minima of all turns, in milliseconds.
Ratios are how many times as fast the step is as the others."""
COSTS = """\
Seconds of processor time in a fresh process: `check()` of f and of its step, unscheduled; `source()` and gcc for the
step as it is scheduled for times, at `-O3`; and characters of C, those of the step and of f."""


@dataclass(frozen=True)
class Measured:
    """The least seconds of each contender for a program with a number of threads."""

    name: str
    threads: int
    times: Mapping[str, float]
    commands: int

    @property
    def best(self) -> float:
        """How many times as fast the step is as the fastest peer."""
        return min(self.times[name] for name in PACKAGES if name in self.times) / self.times[OURS]


def measured(program: Differentiated, peers: Sequence[str], threads: int, seconds: float, *, small: bool) -> Measured:
    """One program with one number of threads."""
    with folder() as place, ExitStack() as stack:
        stack.enter_context(cores(threads))
        arguments = ["--program", program.name, "--folder", place, *(["--small"] if small else [])]
        processes, about = [], {}
        for name in (OURS, ALONE, *(peer for peer in peers if peer != HALIDE or program.name in IN_HALIDE)):
            own = [*arguments]
            if name == ALONE:  # it has no gradients, whose results would be compared
                own[3] = str(Path(place) / "alone")
                Path(own[3]).mkdir()
            processes.append(Contender(WORKER, name, own, threads))
            stack.callback(processes[-1].close)
            about[name] = json.loads(processes[-1].about)
        found = turns(processes, seconds)
    return Measured(program.name, threads, least(found), int(about[OURS]["commands"]))


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Let processes that are started meanwhile run on so many cores only: XLA asks for nothing but these."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def rows(found: Sequence[Measured], peers: Sequence[str]) -> Iterator[list[str]]:
    """A row for each program, and the geometric means over the programs that a peer has."""
    for each in found:
        times = [milliseconds(each.times[name]) if name in each.times else "" for name in (OURS, ALONE, *peers)]
        ratios = [f"{each.times[name] / each.times[OURS]:.2f}" if name in each.times else "" for name in peers]
        step = f"{each.times[OURS] / each.times[ALONE]:.2f}"
        yield [each.name, *times, step, *ratios, f"{each.best:.2f}" if peers else "", str(each.commands)]
    means = [
        statistics.geometric_mean(each.times[name] / each.times[OURS] for each in found if name in each.times)
        for name in peers
    ]
    best = f"{statistics.geometric_mean(each.best for each in found):.2f}" if peers else ""
    yield ["geometric mean", *[""] * (3 + len(peers)), *(f"{mean:.2f}" for mean in means), best, ""]


def costs(found: Sequence[Compiling]) -> str:
    """The table of what compiling costs."""
    head = ["program", "check f", "check step", "ratio", "source", "gcc", "text of f", "text of step", "ratio"]
    lines = [
        [each.name, f"{each.check_f:.2f}", f"{each.check_step:.2f}", f"{each.check_step / each.check_f:.1f}",
         f"{each.source:.2f}", f"{each.gcc:.2f}", str(each.text_f), str(each.text_step),
         f"{each.text_step / each.text_f:.1f}"]
        for each in found
    ]  # fmt: skip
    return table(head, lines)


def page(found: Sequence[Measured], compiled: Sequence[Compiling], peers: Sequence[str], note: str) -> str:
    """The whole page."""
    sizes = "; ".join(
        f"{name}: {', '.join(f'{key} = {value}' for key, value in each.large.items())}"
        for name, each in PROGRAMS.items()
    )
    parts = [f"{versions(('tiramisu_py', 'numpy', 'jax', 'torch'))}.", *([note] if note else []), RULES]
    parts += [f"Sizes are {sizes}."]
    for threads in dict.fromkeys(each.threads for each in found):
        own = [each for each in found if each.threads == threads]
        there = [name for name in peers if any(name in each.times for each in own)]
        ratios = [f"step / {ALONE}", *(f"{name} / step" for name in there), "best peer / step"]
        head = ["program", "step", ALONE, *there, *ratios, "commands"]
        parts += [f"## Threads: {threads}", table(head, list(rows(own, there)))]
    if compiled:
        parts += ["## What compiling costs", COSTS, costs(compiled)]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the programs asked for, print the page, and save it if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/gradients.md")
    options.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    options.add_argument("--only", help=f"some of {','.join(PROGRAMS)}")
    options.add_argument("--peers", help=f"some of {','.join(PACKAGES)}; by default those that are installed")
    options.add_argument("--seconds", type=float, default=4, help="for the rounds of a program and its threads")
    options.add_argument("--small", action="store_true", help="at small sizes, to see that it runs")
    options.add_argument("--costs", action="store_true", help="what compiling costs, and no times")
    options.add_argument("--note", default="", help="a sentence about the conditions, for the page")
    one_processor.options(options)
    given = options.parse_args(arguments)
    one_processor.apply(given)
    chosen = given.only.split(",") if given.only else list(PROGRAMS)
    if unknown := [name for name in chosen if name not in PROGRAMS]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(PROGRAMS)} are the programs")
    installed = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]
    peers = given.peers.split(",") if given.peers else installed
    if absent := [name for name in peers if name not in installed]:
        options.error(f"not installed, or no peer: {', '.join(absent)}; pip install 'tiramisu_py[interop]'")
    compiled = [compiling(PROGRAMS[name]) for name in chosen]
    found = list[Measured]()
    for name in [] if given.costs else chosen:
        for threads in map(int, given.threads.split(",")):
            print(f"{name}, threads: {threads} ...", file=sys.stderr, flush=True)
            found.append(measured(PROGRAMS[name], peers, threads, given.seconds, small=given.small))
        if given.save:
            keep("gradients", TITLE, page(found, compiled, peers, given.note), "scripts/bench gradients")
    report("gradients", TITLE, page(found, compiled, peers, given.note), given.save)


if __name__ == "__main__":
    main()
