"""The process of one contender of `scripts/bench linear`: makes its program, checks it once, then runs on demand."""

from __future__ import annotations

import argparse
import ctypes
import functools
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import tiramisu_py as tm
from benchmarks.common.rounds import answers_apart, each_alignment, holding, serve
from benchmarks.common.shared_arrays import own
from benchmarks.cpu.worker import Run
from benchmarks.linear.peers import peers
from benchmarks.linear.workloads import WORKLOADS, Array, Workload

OURS, FAST = "tiramisu_py", ("contract",)


def contenders(workload: Workload) -> list[str]:
    """The programs that take part in a workload, ours first."""
    return [OURS, *peers(workload.story, workload.options.get("kind", ""))]


@functools.cache
def compiled(name: str) -> tm.Kernel:
    """Our schedule of a workload, compiled."""
    return WORKLOADS[name].scheduled().compile(fast=FAST)


def ours(workload: Workload, given: Mapping[str, Array], out: Array) -> Run:
    """Our program; after one checked call, its C function is called directly."""
    kernel = compiled(workload.name)
    (result,) = kernel.function.outputs
    prepared = workload.prepared(dict(given))
    packed = {name: kernel.pack(name, prepared[name]) for name in kernel.arguments.packing.functions}
    named = {**prepared, **packed, result: out}
    kernel(**named)
    arrays = {**prepared, result: out}
    for each in packed.values():
        arrays |= each.arrays
    sizes = kernel.arguments.bind((), named).params
    passed: dict[str, ctypes.c_int64 | ctypes.c_void_p] = {name: ctypes.c_int64(n) for name, n in sizes.items()}
    passed |= {name: array.ctypes.data_as(ctypes.c_void_p) for name, array in arrays.items()}  # which keeps the array
    entry = ctypes.CDLL(str(kernel.library))[kernel.name]
    order = [passed[name] for name in re.findall(r"(\w+)(?=[,)])", kernel.signature)]
    return lambda: (entry(*order), arrays)  # what is packed here lives as long as the call


def checked(workload: Workload, contender: str, exact: Path) -> Run:
    """A contender's program on arrays of its own, whose values are right."""
    given = {name: own(each, number) for number, (name, each) in enumerate(workload.given().items(), 1)}
    with np.load(exact) as kept:
        right = kept["values"], kept["bound"]
    out = own(np.zeros(right[0].shape, workload.result or next(iter(given.values())).dtype))
    if contender == OURS:
        run = ours(workload, given, out)
    else:
        run = peers(workload.story, workload.options.get("kind", ""))[contender](given, out)
    run()
    if difference := workload.differs(out, right):
        raise SystemExit(f"{workload.name}: {contender} differs from the exact values in {difference}")
    return holding(run, given, out)


def main() -> None:
    """Run as one contender."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--workload", choices=WORKLOADS, required=True)
    options.add_argument("--exact", type=Path, required=True, help="the file of the exact values")
    asked = options.parse_args()
    workload = WORKLOADS[asked.workload]
    serve(each_alignment(lambda: [checked(workload, asked.contender, asked.exact)]), workload.calls, "", answers)


if __name__ == "__main__":
    main()
