"""The process of one contender of `scripts/bench apps`: makes its program, checks it once, then runs on demand."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.apps.programs import APPS, OURS, App, Array, Run, all_apps, peer
from benchmarks.common.rounds import answers_apart, each_alignment, holding, serve
from benchmarks.common.shared_arrays import own
from benchmarks.common.stories import imported
from tiramisu_py.toolchain.kernel import bound_call

EXACT, CALLS = "exact.npy", 5


@functools.cache
def compiled(name: str) -> tm.Kernel:
    """Our schedule of an app, compiled."""
    kernel: tm.Kernel = all_apps()[name].story.scheduled().compile(fast=imported(APPS, "story").FAST)
    return kernel


def ours(app: App, given: Mapping[str, Any], out: Array) -> Run:
    """Our program; calls leave out the checks of their arguments, which are the same each time."""
    kernel = compiled(app.name)
    (result,) = kernel.function.outputs
    return bound_call(kernel, {**given, result: out})


def checked(app: App, name: str, size: Sequence[int], folder: Path) -> Run:
    """A contender's program on arrays of its own, whose values are right."""
    given = {
        name: own(each, number) if isinstance(each, np.ndarray) else each
        for number, (name, each) in enumerate(app.story.sample(*size).items(), 1)
    }
    exact = np.load(folder / EXACT, mmap_mode="r")
    out = own(np.zeros(exact.shape, result_type(app)))
    run = ours(app, given, out) if name == OURS else peer(app, name, given, out, int(os.environ["OMP_NUM_THREADS"]))
    made = run()
    found = made if isinstance(made, np.ndarray) else out
    if difference := app.differs(found, exact, name):
        raise SystemExit(f"{app.name}: {name} differs from the exact values in {difference}")
    return holding(run, given, out)


def main() -> None:
    """Run as one contender."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--app", required=True)
    options.add_argument("--size", type=int, nargs="+", required=True)
    options.add_argument("--folder", type=Path, required=True, help="where the exact values are")
    asked = options.parse_args()
    app = all_apps()[asked.app]
    runs = each_alignment(lambda: [checked(app, asked.contender, asked.size, asked.folder)])
    serve(runs, CALLS, "", answers)


def result_type(app: App) -> Any:
    """The type of the result."""
    algorithm = app.story.algorithm().algorithm
    (name,) = algorithm.output_arrays
    return algorithm.computations[name].dtype.numpy


if __name__ == "__main__":
    main()
