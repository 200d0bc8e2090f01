"""PolyBench's kernels of `examples/polybench`, and the programs that `scripts/bench polybench` compares.

Ours are `plain` (as declared), `auto` (scheduled by the compiler) and `hand`. C is in `examples/polybench/c`: the plain
loops by two compilers, and Pluto's transformation of them. A C function has the arguments of our plain one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.apps.programs import imported
from benchmarks.common.one_processor import march
from benchmarks.common.shared_arrays import own
from tiramisu_py.toolchain.kernel import bound_call

KERNELS = Path(__file__).resolve().parents[3] / "examples" / "polybench"
STORY = "kernel_story"
PLAIN, AUTO, HAND = OURS = ("plain", "auto", "hand")
GCC, CLANG, PLUTO = "gcc", "clang", "Pluto"
#: The compiler and the function of each C program.
IN_C = {GCC: ("gcc", "plain"), CLANG: ("clang", "plain"), PLUTO: ("gcc", "pluto")}
FLAGS = ("-O3", "-shared", "-fPIC")
SCALARS = {"int64_t": ctypes.c_int64, "double": ctypes.c_double, "float": ctypes.c_float}
Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], object]


@dataclass(frozen=True)
class Argument:
    """An argument of a C function: its type, its name, and whether it is an array and whether that is written."""

    type: str
    name: str
    array: bool
    written: bool


@dataclass(frozen=True)
class Bench:
    """A kernel of PolyBench by the name of its file."""

    name: str

    @cached_property
    def story(self) -> Any:
        """The module of the example."""
        return imported(KERNELS, self.name)

    @property
    def contenders(self) -> list[str]:
        """The programs that take part: those in C for which there is a compiler, then ours."""
        in_c = [name for name, (compiler, _) in IN_C.items() if shutil.which(compiler) and self.file.exists()]
        return [*in_c, *OURS]

    @property
    def file(self) -> Path:
        """The C functions."""
        return KERNELS / "c" / f"{self.name}.c"

    def function(self, form: str) -> tm.Function:
        """The kernel in one of our forms, for the threads of this process."""
        threads = int(os.environ.get("OMP_NUM_THREADS", "0")) or None
        made: tm.Function = imported(KERNELS, STORY).made(form, self.story.algorithm, self.story.scheduled, threads)
        return made

    def kernel(self, form: str) -> tm.Kernel:
        """The same, compiled once in a process."""
        return compiled(self.name, form)


@functools.cache
def compiled(name: str, form: str) -> tm.Kernel:
    """A kernel in one of our forms, compiled."""
    return all_kernels()[name].function(form).compile(fast=imported(KERNELS, STORY).FAST)


def all_kernels() -> dict[str, Bench]:
    """The kernels by name."""
    return {file.stem: Bench(file.stem) for file in sorted(KERNELS.glob("*.py")) if file.stem != STORY}


class Program:
    """A program of a kernel with arrays of its own at one size: `prepare`, which brings back what a call may change,
    then `run`, then `results`.
    """

    def __init__(self, bench: Bench, contender: str, sizes: Mapping[str, int], folder: Path) -> None:
        given = bench.story.sample(sizes)
        self.before = {name: each for name, each in given.items() if isinstance(each, np.ndarray)}
        self.arrays = {name: own(each, number) for number, (name, each) in enumerate(self.before.items(), 1)}
        kernel = bench.kernel(contender if contender in OURS else PLAIN)
        outputs = kernel.function.outputs
        for number, name in enumerate((each for each in outputs if each not in self.arrays), len(self.arrays) + 1):
            self.arrays[name] = own(np.zeros_like(kernel.empty(name, **sizes)), number)
        self.results = [self.arrays[name] for name in outputs]
        signature = arguments_of(kernel.signature, kernel.name)
        self.changed = [each.name for each in signature if each.written and each.name in self.before]
        values = {**sizes, **given, **self.arrays}
        if contender in OURS:
            self.run: Run = bound_call(kernel, {name: values[name] for name in {**given, **self.arrays}})
        else:
            self.run = in_c(bench, contender, folder, signature, values)

    def prepare(self) -> None:
        """Bring back the inputs that a call changes."""
        for name in self.changed:
            self.arrays[name][...] = self.before[name]


def arguments_of(text: str, function: str) -> list[Argument]:
    """The arguments in the declaration of a C function."""
    found = re.search(rf"\b{function}\(([^)]*)\)", text)
    assert found, f"{function} is not declared"
    arguments = []
    for part in found.group(1).split(","):
        words = part.replace("*", " * ").replace("restrict", " ").split()
        array, plain = "*" in words, [word for word in words if word not in ("const", "*")]
        arguments.append(Argument(plain[0], plain[1], array, array and "const" not in words))
    return arguments


def in_c(bench: Bench, contender: str, folder: Path, signature: list[Argument], values: Mapping[str, Any]) -> Run:
    """A call of a C function, which has the arguments of our plain one."""
    compiler, form = IN_C[contender]
    name, library = f"{bench.name}_{form}", folder / f"{bench.name}_{contender}.so"
    found = arguments_of(bench.file.read_text(), name)
    kinds = [(each.type, each.array) for each in signature]
    if [(each.type, each.array) for each in found] != kinds:
        raise SystemExit(f"{name} has other arguments than {bench.name}: {found}")
    threads = ["-fopenmp"] if form == "pluto" else []
    subprocess.run([compiler, *FLAGS, march(), *threads, "-o", str(library), str(bench.file), "-lm"], check=True)
    call = ctypes.CDLL(str(library))[name]
    given = [
        values[each.name].ctypes.data_as(ctypes.c_void_p) if each.array else SCALARS[each.type](values[each.name])
        for each in signature
    ]
    return lambda: call(*given)
