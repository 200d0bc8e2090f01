"""The process of one contender of `scripts/bench blocks`: makes its program, checks it once, then runs on demand."""

from __future__ import annotations

import argparse
import ctypes
import functools
import re
from collections.abc import Mapping

import numpy as np

import tiramisu_py as tm
from benchmarks.blocks.workloads import Array, Run, Workload, workloads
from benchmarks.common.rounds import answers_apart, each_alignment, holding, serve
from benchmarks.common.shared_arrays import own

FAST = ("contract",)


@functools.cache
def compiled(workload: str, contender: str) -> tuple[list[str], tm.Kernel]:
    """One of our programs, compiled, and the names of the arrays that it reads."""
    f = workloads()[workload].made[contender]()
    return [name for name, each in f.algorithm.inputs.items() if not each.scalar], f.compile(fast=FAST)


def ours(
    inputs: list[str], kernel: tm.Kernel, given: Mapping[str, Array], scalars: Mapping[str, float]
) -> tuple[Run, Array]:
    """The C function of a kernel, called directly, after one checked call; and the first array that it fills."""
    named = dict(zip(inputs, given.values(), strict=True))
    packed = {name: kernel.pack(name, named[name]) for name in kernel.arguments.packing.functions}
    found = kernel(**{**named, **packed}, **scalars)
    results = [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]
    out = {name: own(each, 7 + k) for k, (name, each) in enumerate(zip(kernel.function.outputs, results, strict=True))}
    arrays = {**named, **out}
    for each in packed.values():
        arrays |= each.arrays
    sizes = kernel.arguments.bind((), {**named, **packed, **out, **scalars}).params
    passed: dict[str, object] = {name: ctypes.c_int64(n) for name, n in sizes.items()}
    passed |= {name: array.ctypes.data_as(ctypes.c_void_p) for name, array in arrays.items()}  # which keeps the array
    passed |= {name: ctypes.c_float(value) for name, value in scalars.items()}
    entry = ctypes.CDLL(str(kernel.library))[kernel.name]
    order = [passed[name] for name in re.findall(r"(\w+)(?=[,)])", kernel.signature)]
    return lambda: (entry(*order), arrays), next(iter(out.values()))


def checked(workload: Workload, contender: str) -> Run:
    """A contender's program on arrays of its own, whose values are right."""
    given = {name: own(each, number) for number, (name, each) in enumerate(workload.given().items(), 1)}
    if contender in workload.made:
        run, found = ours(*compiled(workload.name, contender), given, workload.scalars)
        run()
    else:
        run = workload.others[contender](given)
        found = np.squeeze(np.asarray(run()))
    wanted = workload.wanted(given)
    if not np.allclose(found, wanted, rtol=2e-3, atol=2e-3 * float(np.abs(wanted).max())):
        raise SystemExit(f"{workload.name}: {contender} differs from the exact values")
    return holding(run, given, found)


def main() -> None:
    """Run as one contender."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--workload", choices=workloads(), required=True)
    asked = options.parse_args()
    workload = workloads()[asked.workload]
    serve(each_alignment(lambda: [checked(workload, asked.contender)]), 3, "", answers)


if __name__ == "__main__":
    main()
