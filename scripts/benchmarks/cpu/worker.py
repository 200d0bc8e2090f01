"""The process of one contender of `scripts/bench cpu`: makes its program, computes once, then runs on demand."""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.one_processor import alignments
from benchmarks.common.rounds import answers_apart, serve
from benchmarks.common.shared_arrays import all_mapped, beside, own
from benchmarks.cpu import grids, halide, opencv
from benchmarks.cpu.workloads import WORKLOADS, Array, Workload

Run = Callable[[], object]
Programs = dict[str, Callable[[], Run]]
Maker = Callable[[str, Mapping[str, Any], Mapping[str, Array]], Programs]
PACKAGES = {"Halide": "halide", "OpenCV": "cv2", "numba": "numba", "Devito": "devito"}
PEERS: dict[str, Maker] = {
    "Halide, usual": lambda *each: dict(list(halide.programs(*each).items())[:1]),
    "Halide, best": halide.programs,
    "OpenCV": opencv.programs,
    "numba": grids.in_numba,
    "Devito": grids.in_devito,
}
OURS, GIVEN = "tiramisu_py", "given.json"


def variants(workload: Workload) -> dict[str, Any]:
    """Our schedules of a workload by the name of the contender: the story's main schedule, and its other ones."""
    module = workload.module()
    others = getattr(module, "VARIANTS", {})
    return {OURS: module.scheduled, **{f"{OURS}, {name}": build for name, build in others.items()}}


def contenders(workload: Workload) -> tuple[list[str], list[str]]:
    """The programs that take part in a workload, ours first, and the packages that are missing."""
    missing = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None]
    of_grids = {"numba", "Devito"} if workload.steps else {"OpenCV"}
    peers = [name for name in PEERS if name.split(",")[0] in {"Halide"} | of_grids]
    present = [name for name in peers if name.split(",")[0] not in missing]
    return [*variants(workload), *present], missing


def ours(name: str, workload: Workload, given: Mapping[str, Any], out: Mapping[str, Array]) -> Run:
    """One of our schedules, compiled; after one checked call, its C function is called directly."""
    kernel = variants(workload)[name](*scheduling(workload)).compile(fast=workload.fast)
    kernel(**given, **out)
    arrays = {name: each for name, each in {**given, **out}.items() if isinstance(each, np.ndarray)}
    sizes = kernel.arguments.bind((), {**given, **out}).params
    passed: dict[str, Any] = {name: ctypes.c_int64(size) for name, size in sizes.items()}
    passed |= {name: ctypes.c_void_p(array.ctypes.data) for name, array in arrays.items()}
    entry = ctypes.CDLL(str(kernel.library))[kernel.name]
    order = [passed[name] for name in re.findall(r"(\w+)(?=[,)])", kernel.signature)]
    return lambda: entry(*order)


def scheduling(workload: Workload) -> tuple[Any, ...]:
    """The arguments of a story's `algorithm` and `scheduled`, without the number of steps."""
    return () if workload.steps else workload.options


def fastest(found: Programs, calls: int) -> tuple[str, Run]:
    """The fastest of several programs: each gets a few calls, and the best three of them some more."""
    made = {name: make() for name, make in found.items()}
    times = {name: least(run, calls) for name, run in made.items()}
    for name in sorted(times, key=lambda each: times[each])[:3] if len(made) > 1 else ():
        times[name] = min(times[name], least(made[name], 2 * calls))
    name = min(times, key=lambda each: times[each])
    return name, made[name]


def least(run: Run, calls: int) -> float:
    """The time in seconds of the fastest of `calls` calls, after one to warm up."""
    run()
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def share(workload: Workload, rows: int, columns: int, folder: Path) -> list[dict[str, Array]]:
    """Write the arguments of all contenders to the folder, and return the arrays for the results of each alignment."""
    named = workload.given(rows, columns)
    arrays = {name: each for name, each in named.items() if isinstance(each, np.ndarray)}
    numbers = {name: each for name, each in named.items() if name not in arrays}
    shapes = {name: (each.shape, each.dtype.name) for name, each in arrays.items()}
    (folder / GIVEN).write_text(json.dumps({"shapes": shapes, "numbers": numbers}))
    for name, shared in all_mapped(folder, shapes).items():
        shared[:] = arrays[name]
    outputs = workload.outputs(rows, columns)
    return [all_mapped(beside(folder, alignment), outputs) for alignment in alignments()]


def shared(folder: Path) -> dict[str, Any]:
    """The arguments that `share` has written."""
    named = json.loads((folder / GIVEN).read_text())
    return {**named["numbers"], **all_mapped(folder, named["shapes"])}


def main() -> None:
    """Run as one contender."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--workload", choices=WORKLOADS, required=True)
    options.add_argument("--size", type=int, nargs=2, required=True)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--calls", type=int, default=3)
    asked = options.parse_args()
    workload = WORKLOADS[asked.workload]
    results = all_mapped(beside(asked.folder), workload.outputs(*asked.size))
    arrays = {**shared(asked.folder), **results}
    copies = {
        name: own(each, number) if isinstance(each, np.ndarray) else each
        for number, (name, each) in enumerate(arrays.items())
    }
    given = {name: each for name, each in copies.items() if name not in results}
    out = {name: copies[name] for name in results}
    about = ""
    if asked.contender in PEERS:
        about, run = fastest(PEERS[asked.contender](workload.name, given, out), asked.calls)
    else:
        run = ours(asked.contender, workload, given, out)
    run()
    for name, result in results.items():
        result[...] = out[name]
    serve(run, asked.calls, about, answers)


if __name__ == "__main__":
    main()
