"""The process of one contender of `scripts/bench cpu`: makes its program, computes once, then runs on demand."""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib.util
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.one_processor import alignments
from benchmarks.common.rounds import HOPELESS, answers_apart, each_alignment, holding, serve
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
#: So many of a peer's forms, those that are fastest when it is made, run in each of its turns, and the fastest counts:
#: other work on the machine may have disturbed the choice.
BEST = 3


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


@functools.cache
def compiled(workload: str, name: str) -> tm.Kernel:
    """One of our schedules of a workload, compiled."""
    story = WORKLOADS[workload]
    kernel: tm.Kernel = variants(story)[name](*scheduling(story)).compile(fast=story.fast)
    return kernel


def ours(name: str, workload: Workload, given: Mapping[str, Any], out: Mapping[str, Array]) -> Run:
    """One of our programs; after one checked call, its C function is called directly."""
    kernel = compiled(workload.name, name)
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


def fastest(found: Programs, calls: int, count: int = BEST) -> dict[str, Run]:
    """The fastest of several programs by a few calls of each, the best first.

    After a third of the calls those are out that take longer than `HOPELESS` times the best.
    """
    made = {name: make() for name, make in found.items()}
    if len(made) == 1:
        return made
    few = -(-calls // 3)
    times = {name: least(run, few) for name, run in made.items()}
    hopeful = [name for name, time in times.items() if time <= HOPELESS * min(times.values())]
    for name in hopeful if calls > few else ():
        times[name] = min(times[name], least(made[name], calls - few))
    return {name: made[name] for name in sorted(hopeful, key=lambda each: times[each])[:count]}


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


def programs(asked: argparse.Namespace, workload: Workload, forms: Sequence[str]) -> dict[str, Run]:
    """A contender's forms by name, on arrays of their own; `forms` of them, or those that are fastest. The results of
    the first are kept for the comparison.
    """
    results = all_mapped(beside(asked.folder), workload.outputs(*asked.size))
    arrays = {**shared(asked.folder), **results}
    copies = {
        name: own(each, number) if isinstance(each, np.ndarray) else each
        for number, (name, each) in enumerate(arrays.items())
    }
    given = {name: each for name, each in copies.items() if name not in results}
    out = {name: copies[name] for name in results}
    if asked.contender in PEERS:
        every = PEERS[asked.contender](workload.name, given, out)
        found = fastest({name: every[name] for name in forms or every}, asked.calls)
    else:
        found = {asked.contender: ours(asked.contender, workload, given, out)}
    next(iter(found.values()))()
    for name, result in results.items():
        result[...] = out[name]
    return {name: holding(run, copies) for name, run in found.items()}


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
    workload, forms = WORKLOADS[asked.workload], dict[str, str]()

    def made() -> list[Run]:
        found = programs(asked, workload, list(forms))
        forms.update(dict.fromkeys(found, asked.contender))
        return list(found.values())

    runs = each_alignment(made)
    serve(runs, asked.calls, next(iter(forms)) if asked.contender in PEERS else "", answers)


if __name__ == "__main__":
    main()
