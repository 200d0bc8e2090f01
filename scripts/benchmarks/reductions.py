"""Reductions by `tm.recipes.reduction`, one thread, beside NumPy and, where they are installed, PyTorch.

Sums of whole arrays, rows and columns, and sub-graphs of Zhao et al., Panamera (PACT 2022), table 2, in float32.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import milliseconds, report, table

ITERATORS = tm.iters("a b c")
OURS = "tiramisu_py"


@dataclass(frozen=True)
class Workload:
    """A reduction of one or two arrays of a shape over some axes; two are multiplied and added before."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    arrays: int = 1

    def function(self) -> tm.Function:
        """Our program."""
        f, names = tm.Function("reduced", params=[]), ITERATORS[: len(self.shape)]
        extents = dict(zip(names, self.shape, strict=True))
        given = [f.input(f"x{k}", tm.float32, list(self.shape)) for k in range(self.arrays)]
        term = given[0][names] if self.arrays == 1 else (given[0][names] + given[1][names]) * given[1][names]
        over = {names[axis]: self.shape[axis] for axis in self.axes}
        total = f.reduction("total", {n: e for n, e in extents.items() if n not in over}, over, tm.sum, term)
        f.outputs(total)
        tm.recipes.reduction(total)
        assert f.check().ok
        return f

    def eager(self, library: Any, given: list[Any], **options: Any) -> Callable[[], Any]:
        """The same by a library of whole arrays."""
        if self.arrays == 1:
            return lambda: library.sum(given[0], self.axes, **options)
        return lambda: library.sum((given[0] + given[1]) * given[1], self.axes, **options)


WORKLOADS = (
    Workload("all, 16 M", (1 << 24,), (0,)),
    Workload("rows, 4096 x 4096", (4096, 4096), (1,)),
    Workload("columns, 4096 x 4096", (4096, 4096), (0,)),
    Workload("all of three, 64 x 512 x 512", (64, 512, 512), (0, 1, 2)),
    Workload("inner two, 256 x 256 x 64", (256, 256, 64), (1, 2)),
    Workload("2: y, 21128, 1280", (1280, 21128), (0,)),
    Workload("4: x, 1280, 21128", (1280, 21128), (1,), 2),
    Workload("6: all, 3072", (3072,), (0,), 2),
    Workload("7: y, 98304, 64", (64, 128, 768), (0,), 2),
    Workload("8: y, 768, 8192", (64, 128, 768), (0, 1), 2),
    Workload("9: y, 768, 8192", (8192, 768), (0,)),
)


def contenders(workload: Workload, given: list[Any]) -> dict[str, Callable[[], Any]]:
    """Our kernel, bound once, and the peers."""
    kernel = workload.function().compile(threads=1, fast=("contract",))
    found: dict[str, Callable[[], Any]] = {OURS: kernel.bound(*given), "NumPy": workload.eager(np, given)}
    if find_spec("torch") is None:
        return found
    torch = import_module("torch")
    torch.set_num_threads(1)
    return {**found, "PyTorch": workload.eager(torch, [torch.from_numpy(each) for each in given])}


def turns(programs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The least time of each program, in turns for so long; all answers are the same but for rounding."""
    right, *others = (np.asarray(run(), np.float64) for run in programs.values())
    for other in others:
        np.testing.assert_allclose(other, right, rtol=1e-3)
    found, end = dict.fromkeys(programs, float("inf")), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in programs.items():
            start = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def measured(workload: Workload, seconds: float) -> list[str]:
    """A row of the table: least times, and the ratio to the fastest peer."""
    random = np.random.default_rng(0)
    given = [random.random(workload.shape, dtype=np.float32) for _ in range(workload.arrays)]
    times = turns(contenders(workload, given), seconds)
    best = min(time for name, time in times.items() if name != OURS)
    ours = times[OURS]
    size = sum(each.nbytes for each in given) / ours / 1e9
    peers = [milliseconds(times[name]) if name in times else "" for name in ("NumPy", "PyTorch")]
    return [workload.name, milliseconds(ours), *peers, f"{best / ours:.2f}", f"{size:.1f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="scripts/bench reductions", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/reductions.md")
    parser.add_argument("--only", default="", help="workloads whose names contain this")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each workload")
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = [measured(each, chosen.seconds) for each in WORKLOADS if chosen.only in each.name]
    header = ["reduction", "ours, ms", "NumPy", "PyTorch", "best peer / ours", "GB/s"]
    report("reductions", "Reductions on one core", table(header, rows), chosen.save)


if __name__ == "__main__":
    main()
