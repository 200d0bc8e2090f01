"""The cost of our schedules of the workloads: commands, and the time to schedule, to prove and to emit."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

from benchmarks.cpu.worker import scheduling
from benchmarks.cpu.workloads import Workload


@dataclass(frozen=True)
class Cost:
    """The number of commands of a schedule, and its costs in milliseconds of processor time."""

    commands: int
    schedule: float
    check: float
    emit: float


def cost(workload: Workload, rounds: int) -> Cost:
    """The least cost over `rounds` rounds."""
    module, options = workload.module(), scheduling(workload)
    found, count = [], 0
    for _ in range(rounds):
        moments = [time.process_time()]
        module.algorithm(*options)
        moments.append(time.process_time())
        f = module.scheduled(*options)
        moments.append(time.process_time())
        if not f.check().ok:
            raise SystemExit(f"{f.name} is refused: {f.check()}")
        moments.append(time.process_time())
        f.source()
        moments.append(time.process_time())
        found.append([1e3 * (after - before) for before, after in itertools.pairwise(moments)])
        count = len(f.commands)
    declare, both, check, emit = (min(column) for column in zip(*found, strict=True))
    return Cost(count, max(both - declare, 0.0), check, emit)
