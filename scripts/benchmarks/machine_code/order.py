"""Whether models of processors order programs as this machine does: each story beside every schedule of Halide.

scripts/bench machine_code.order [--save] [--only blur,...] [--rounds N] [--processor=x86-64-v3]
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import one_processor
from benchmarks.common.rounds import THREADS
from benchmarks.common.shared_arrays import own
from benchmarks.common.tables import report, table
from benchmarks.cpu import halide
from benchmarks.cpu.worker import OURS, least, ours
from benchmarks.cpu.workloads import SMALL, WORKLOADS, Workload
from benchmarks.machine_code import __main__ as models
from benchmarks.machine_code.machines import Machine
from benchmarks.machine_code.mca import INSTALL, Model, program

TITLE = "The order of programs by models, and measured"
#: Times that differ by less have no order.
NEAR = 1.03
CALLS = 5
RULES = """\
Ours is the story's schedule, a form is one of the schedules of Halide that `scripts/bench cpu` tries. The ratio by the
model is that of the cycles a point of their loops, on LLVM's model of this processor with all data in the
first-level cache; loads of vectors that begin anywhere count once more for each line that they cross into. Measured is
that of the times of a call with one thread, at {size}, minima of turns in one process. Above 1, ours is faster. Forms
whose times are within {near} % of ours have no order, and count for nothing."""


@dataclass(frozen=True)
class Pair:
    """Ours and a form of a peer: how many times as fast ours is, by the model and measured."""

    workload: str
    form: str
    modelled: float
    measured: float

    @property
    def has_order(self) -> bool:
        """Whether one is faster by more than noise."""
        return not 1 / NEAR < self.measured < NEAR

    @property
    def agrees(self) -> bool:
        """Whether the model says which is faster."""
        return (self.modelled > 1) == (self.measured > 1)


def here() -> Machine:
    """This machine by LLVM's name of its processor; code is made as for this machine, or for a part of it."""
    said = subprocess.run([program()[0], "--version"], capture_output=True, text=True, check=True).stdout
    name = re.search(r"Host CPU: (\S+)", said)
    assert name is not None
    return Machine(name[1], Model(platform.machine(), name[1]), ("native",))


def halide_target() -> str:
    """What Halide makes code for, as `scripts/bench cpu` has it made."""
    import halide as hl  # noqa: PLC0415 (an optional peer)

    return os.environ.get("HL_TARGET") or str(hl.get_host_target())


def modelled(workload: str, machine: Machine) -> dict[str, float]:
    """Cycles a point of ours and of each form."""
    assert machine.processor is not None
    found = {each.name: each.cycles for each in models.forms(workload, machine.model, halide_target(), lines=True)}
    return {OURS: models.ours(workload, machine, machine.processor, lines=True).cycles, **found}


def measured(workload: Workload, rounds: int) -> dict[str, float]:
    """Seconds of ours and of each form, by turns."""
    given = workload.given(*SMALL)
    placed = {
        name: own(each, k) if isinstance(each, np.ndarray) else each for k, (name, each) in enumerate(given.items())
    }
    out = {
        name: own(np.zeros(shape, dtype), 8 + k)
        for k, (name, (shape, dtype)) in enumerate(workload.outputs(*SMALL).items())
    }
    makers: Mapping[str, Callable[[], Any]] = halide.programs(workload.name, placed, out)
    runs = {OURS: ours(OURS, workload, placed, out), **{name: make() for name, make in makers.items()}}
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            times[name] = min(times[name], least(run, CALLS))
    return times


def pairs(workload: str, machine: Machine, rounds: int) -> list[Pair]:
    """Ours beside each form of Halide."""
    return beside(workload, modelled(workload, machine), measured(WORKLOADS[workload], rounds))


def beside(workload: str, cycles: Mapping[str, float], seconds: Mapping[str, float]) -> list[Pair]:
    """Ours beside each form that was timed; one whose loops are not known ends the program: none is left out."""
    if unknown := [form for form in seconds if form not in cycles]:
        raise SystemExit(f"{workload}: timed, but no loop is known of {'; '.join(unknown)}")
    return [
        Pair(workload, form, cycles[form] / cycles[OURS], seconds[form] / seconds[OURS])
        for form in seconds
        if form != OURS
    ]


def page(found: Sequence[Pair], machine: Machine) -> str:
    """The count, and the pairs that the model orders otherwise."""
    ordered = [each for each in found if each.has_order]
    right = [each for each in ordered if each.agrees]
    share = f"{len(right) / len(ordered):.0%}" if ordered else "none"
    rows = []
    for name in dict.fromkeys(each.workload for each in found):
        own_pairs = [each for each in found if each.workload == name]
        counted = [each for each in own_pairs if each.has_order]
        rows.append([name, str(len(own_pairs)), str(len(counted)), str(sum(each.agrees for each in counted))])
    wrong = [
        [each.workload, each.form, f"{each.modelled:.2f}", f"{each.measured:.2f}"]
        for each in ordered
        if not each.agrees
    ]
    parts = [
        f"{program()[1]}, model {machine.model.processor}.",
        RULES.format(size=" x ".join(map(str, SMALL[::-1])), near=f"{100 * (NEAR - 1):.0f}"),
        f"**{len(right)} of {len(ordered)} pairs agree: {share}.**",
        table(["workload", "forms", "with an order", "agree"], rows),
        "## All pairs",
        table(
            ["workload", "form", "by the model", "measured"],
            [[each.workload, each.form, f"{each.modelled:.2f}", f"{each.measured:.2f}"] for each in found],
        ),
    ]
    if wrong:
        parts[4:4] = ["## Otherwise by the model", table(["workload", "form", "by the model", "measured"], wrong)]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, print the page, and save it if asked."""
    workloads = [name for name in WORKLOADS if name != "heat"]  # its steps are calls, so that its loop is in none
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/machine_code_order.md")
    options.add_argument("--only", default=",".join(workloads), help="workloads, separated by commas")
    options.add_argument("--rounds", type=int, default=10, help="turns of each program")
    one_processor.options(options)
    options.set_defaults(arrays="64")
    asked = options.parse_args(arguments)
    one_processor.apply(asked)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if not program()[0]:
        raise SystemExit(INSTALL)
    machine, found = here(), list[Pair]()
    for name in asked.only.split(","):
        print(f"{name} ...", file=sys.stderr, flush=True)
        found += pairs(name, machine, asked.rounds)
    report("machine_code_order", TITLE, page(found, machine), asked.save, "scripts/bench machine_code.order")


if __name__ == "__main__":
    main()
