"""The process of one contender of `scripts/bench gradients`: makes a step, checks it, then runs it on demand."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.rounds import Run, answers_apart, each_alignment, holding, serve
from benchmarks.common.shared_arrays import own
from benchmarks.gradients.halide_adjoints import halide_step
from benchmarks.gradients.peers import jax_step, torch_step
from benchmarks.gradients.programs import PROGRAMS, Differentiated
from tiramisu_py.toolchain.kernel import bound_call

OURS, ALONE, JAX, EAGER, COMPILED, HALIDE = (
    "tiramisu_py", "f alone", "JAX", "PyTorch", "torch.compile", "Halide"
)  # fmt: skip
FAST = ("contract",)
#: How far single precision may be apart, relative to the largest element.
APART = 3e-3


def listed(found: Any) -> list[Any]:
    """What a function returns, as a list."""
    return list(found) if isinstance(found, tuple) else [found]


def ours(program: Differentiated, arguments: dict[str, Any], weight: Any, threads: int) -> tuple[Any, ...]:
    """Our step, scheduled automatically: its calls, its results, and the number of commands."""
    step = tm.vjp(program.make(), wrt=program.wrt).step
    program.schedule(step, threads)
    (name,) = [each for each in step.algorithm.inputs if each not in program.make().algorithm.inputs]
    return (*called(step, {**arguments, name: weight}, threads), len(step.commands))


def called(f: tm.Function, arguments: dict[str, Any], threads: int) -> tuple[list[list[Run]], list[Any]]:
    """Calls of a compiled function without checks of its arguments, with arrays of each alignment, and its results."""
    kernel = f.compile(fast=FAST, threads=threads)

    def made() -> tuple[Run, list[Any]]:
        placed = {name: own(each, k) if isinstance(each, np.ndarray) else each for k, (name, each) in
                  enumerate(arguments.items(), 1)}  # fmt: skip
        results = [own(np.zeros_like(each), len(placed) + k) for k, each in enumerate(listed(kernel(**placed)), 1)]
        run = bound_call(kernel, {**placed, **dict(zip(kernel.function.outputs, results, strict=True))})
        run()
        return holding(run, placed, results), results

    found = each_alignment(made)
    return [[run] for run, _ in found], found[0][1]


def contender(name: str, program: Differentiated, arguments: dict[str, Any], weight: Any, threads: int) -> Any:
    """What runs, its results, and the number of commands."""
    if name == OURS:
        return ours(program, arguments, weight, threads)
    if name == ALONE:
        f = program.make()
        program.schedule(f, threads)
        return (*called(f, arguments, threads), len(f.commands))
    if name == JAX:
        run = jax_step(program.name, arguments, program.wrt, weight)
    elif name == HALIDE:
        run = halide_step(program.name, arguments, program.wrt, weight, threads)
    else:
        importlib.import_module("torch").set_num_threads(threads)
        run = torch_step(program.name, arguments, program.wrt, weight, compiled=name == COMPILED)
    return [[run]], [np.asarray(each) for each in run()], 0


def check(name: str, program: Differentiated, results: list[Any], folder: Path) -> None:
    """Compare results with those of the first contender."""
    for number, found in enumerate(results):
        file = folder / f"{number}.npy"
        if not file.exists():
            np.save(file, found)
            continue
        right = np.load(file)
        scale = max(float(np.abs(right).max()), 1e-30)
        if found.shape != right.shape or float(np.abs(found - right).max()) > APART * scale:
            raise SystemExit(f"{program.name}: result {number} of {name} differs from that of the first program")


def main() -> None:
    """Run as one contender of one program."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--program", required=True)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--small", action="store_true")
    asked = options.parse_args()
    program, threads = PROGRAMS[asked.program], int(os.environ["OMP_NUM_THREADS"])
    sizes = program.small if asked.small else program.large
    arguments = program.arguments(sizes)
    f = program.make()
    shape = np.load(asked.folder / "shape.npy") if (asked.folder / "shape.npy").exists() else None
    if shape is None:
        (found,) = listed(f.compile(threads=threads)(**arguments))
        shape = np.array(found.shape)
        np.save(asked.folder / "shape.npy", shape)
    weight = np.random.default_rng(1).standard_normal(tuple(shape)).astype(np.float32)
    start = time.perf_counter()
    runs, results, commands = contender(asked.contender, program, arguments, weight, threads)
    check(asked.contender, program, results, asked.folder)
    about = json.dumps({"ready": time.perf_counter() - start, "commands": commands})
    serve(runs, about=about, answers=answers)


if __name__ == "__main__":
    main()
