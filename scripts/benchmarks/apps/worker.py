"""The process of one contender of `scripts/bench apps`: makes its program, checks it once, then runs on demand."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apps.programs import APPS, OURS, App, Array, Run, all_apps, peer
from benchmarks.common.rounds import answers_apart, serve
from benchmarks.common.shared_arrays import own
from benchmarks.common.stories import imported
from tiramisu_py.toolchain.kernel import bound_call

EXACT, CALLS = "exact.npy", 5


def ours(app: App, given: Mapping[str, Any], out: Array) -> Run:
    """Our schedule, compiled; calls leave out the checks of their arguments, which are the same each time."""
    kernel = app.story.scheduled().compile(fast=imported(APPS, "story").FAST)
    (result,) = kernel.function.outputs
    return bound_call(kernel, {**given, result: out})


def main() -> None:
    """Run as one contender."""
    answers = answers_apart()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--app", required=True)
    options.add_argument("--size", type=int, nargs="+", required=True)
    options.add_argument("--folder", type=Path, required=True, help="where the exact values are")
    asked = options.parse_args()
    app, threads = all_apps()[asked.app], int(os.environ["OMP_NUM_THREADS"])
    given = {
        name: own(each, number) if isinstance(each, np.ndarray) else each
        for number, (name, each) in enumerate(app.story.sample(*asked.size).items(), 1)
    }
    exact = np.load(asked.folder / EXACT, mmap_mode="r")
    out = own(np.zeros(exact.shape, result_type(app)))
    name = asked.contender
    run = ours(app, given, out) if name == OURS else peer(app, name, given, out, threads)
    made = run()
    found = made if isinstance(made, np.ndarray) else out
    if difference := app.differs(found, exact, name):
        raise SystemExit(f"{app.name}: {name} differs from the exact values in {difference}")
    serve(run, CALLS, "", answers)


def result_type(app: App) -> Any:
    """The type of the result."""
    algorithm = app.story.algorithm().algorithm
    (name,) = algorithm.output_arrays
    return algorithm.computations[name].dtype.numpy


if __name__ == "__main__":
    main()
