"""The process of one contender of `scripts/bench reductions`: makes its program, checks it once, then runs on demand.

Our kernels are C functions that C code calls: small ones many times in a row, so that no call from Python is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tiramisu_py as tm
from benchmarks.common.rounds import Run, answers_apart, each_alignment, holding, serve
from benchmarks.common.shared_arrays import own
from benchmarks.reductions.peers import PEERS, peers
from benchmarks.reductions.workloads import Arrays, Single, Workload, workloads

OURS, COPIES, FAST = "tiramisu_py", "tiramisu_py, private copies", ("contract",)
#: A loop in C over calls of a kernel, whose arguments are all passed as 64 bits.
LOOP = """\
#include <stdint.h>
extern int KERNEL(TYPES);
int many(int64_t calls, const int64_t *given) {
  int failed = 0;
  for (int64_t k = 0; k < calls; k++) failed |= KERNEL(VALUES);
  return failed;
}
"""


def contenders(workload: Workload, threads: int) -> list[str]:
    """The programs that take part in a workload, ours first; with several threads also our private copies."""
    copies = threads > 1 and isinstance(workload.program, Single) and workload.program.has_copies
    return [OURS, *([COPIES] if copies else []), *peers(workload)]


@functools.cache
def compiled(workload: Workload, private: bool) -> tuple[tm.Function, tm.Kernel]:
    """Our schedule of a workload, with private copies of threads or without, and its kernel."""
    program = workload.program
    f = program.scheduled(private=True) if private else program.scheduled(cores=int(os.environ["OMP_NUM_THREADS"]))
    return f, f.compile(fast=FAST)


def ours(f: tm.Function, kernel: tm.Kernel, given: Arrays, repeat: int) -> tuple[Run, Arrays]:
    """A run of the kernel, many calls of it from C, and the arrays that it fills."""
    found = kernel(*given)
    out = [own(np.asarray(each), 7 + k) for k, each in enumerate(found if isinstance(found, tuple) else (found,))]
    named = {**dict(zip(f.algorithm.inputs, given, strict=True)), **dict(zip(f.algorithm.outputs, out, strict=True))}
    sizes = kernel.arguments.bind((), named).params
    order = re.findall(r"(\w+)(?=[,)])", kernel.signature)
    values = [sizes[name] if name in sizes else named[name].ctypes.data for name in order]
    many = loop(kernel, len(values))
    passed = (ctypes.c_int64 * len(values))(*values)
    return lambda: (many(ctypes.c_int64(repeat), passed), named), out


def loop(kernel: tm.Kernel, arguments: int) -> Callable[..., int]:
    """The loop over calls, compiled for the kernel's library."""
    with tempfile.TemporaryDirectory() as place:
        source, made = Path(place) / "loop.c", Path(place) / "loop.so"
        text = LOOP.replace("KERNEL", kernel.name).replace("TYPES", ", ".join(["int64_t"] * arguments))
        source.write_text(text.replace("VALUES", ", ".join(f"given[{k}]" for k in range(arguments))))
        library = str(kernel.library)
        compiler = [os.environ.get("CC", "gcc"), "-O2", "-shared", "-fPIC", str(source), "-o", str(made), library]
        subprocess.run(compiler, check=True)
        return ctypes.CDLL(str(made)).many  # type: ignore[no-any-return]


def again(run: Callable[[], object], times: int) -> Callable[[], None]:
    """Many calls from Python."""

    def every() -> None:
        for _ in range(times):
            run()

    return every


def checked(workload: Workload, contender: str) -> Run:
    """A contender's program on arrays of its own, whose values are right."""
    program = workload.program
    given = [own(each, number) for number, each in enumerate(program.sample(), 1)]
    if contender in (OURS, COPIES):
        run, found = ours(*compiled(workload, contender == COPIES), given, workload.repeat)
    else:
        once = PEERS[contender](workload, given)
        found, run = [np.asarray(each) for each in once()], again(once, workload.repeat)
    run()
    if difference := workload.differs(found, program.exact(given)):
        raise SystemExit(f"{workload.name}: {contender} differs from the exact values in {difference}")
    return holding(run, given, found)


def main() -> None:
    """Run as one contender."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--workload", choices=workloads(), required=True)
    options.add_argument("--cut", type=int, default=0, help="extents of at most so much")
    asked = options.parse_args()
    workload = workloads()[asked.workload]
    if asked.cut:
        workload = workload.cut(asked.cut)
    serve(each_alignment(lambda: [checked(workload, asked.contender)]), 3, "", answers)


if __name__ == "__main__":
    main()
