"""The time of a kernel's calls at some sizes, with arguments that are made for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from tiramisu_py import Kernel
from tiramisu_py.errors import KernelError, ToolchainError, UnsupportedError
from tiramisu_py.queries import SMALL, Algorithm, shape_value
from tiramisu_py.queries import drawn_arguments as arguments
from tiramisu_py.tuning.learned.samples.ranges import Sizes
from tiramisu_py.tuning.learned.samples.sample_store import Sampled
from tiramisu_py.tuning.learned.samples.timing_process import answer
from tiramisu_py.tuning.search.bench import Workbench
from tiramisu_py.tuning.search.reference import Reference
from tiramisu_py.tuning.search.stopwatch import Rivals, Stopwatch
from tiramisu_py.tuning.search.workload import Case

#: A call that takes longer is measured once, not `repeats` times.
LONG = 0.1
#: Two samples agree within this factor; for it there are so many times the samples that were asked for, at most.
AGREED, MOST = 1.1, 2
#: The elements that are drawn of each type: longer arrays repeat them.
DRAWN = 2**18
#: What a legal program may meet on the way to its time.
FAILURES = (ToolchainError, UnsupportedError, KernelError, MemoryError)


def timed(kernel: Kernel, sizes: Sizes, inputs: Mapping[str, Any], repeats: int) -> Sampled:
    """The time of calls with some inputs: the least of so many samples, or of more until the machine has settled."""
    case = Case(kernel.arguments.algorithm, sizes, inputs)
    calls = Workbench([case], Reference(False, [case], {})).calls(kernel, kernel.name)
    found = Stopwatch(1).measured(calls, Rivals())
    while min(found.samples[0]) < LONG and not settled(found.samples[0], repeats):
        found = Stopwatch(1).measured(calls, Rivals(), found.samples)
    (samples,) = found.samples
    return Sampled(min(samples), max(samples) / min(samples))


def settled(samples: Sequence[float], repeats: int) -> bool:
    """Whether so many samples are enough: the two least agree, or there are several times as many as asked for."""
    if len(samples) < repeats:
        return False
    least = sorted(samples)[:2]
    return least[-1] <= AGREED * least[0] or len(samples) >= MOST * repeats


def timed_at(kernel: Kernel, sizes: Sizes, repeats: int) -> Sampled:
    """The time of calls with inputs of some sizes."""
    return timed(kernel, sizes, arrays_for(kernel.arguments.algorithm, sizes), repeats)


def arrays_for(algorithm: Algorithm, sizes: Sizes) -> dict[str, Any]:
    """Inputs of given sizes: a few random values over and over, which takes no longer than a copy; inputs with declared
    facts are drawn.
    """
    plain = {}
    for name, declared in algorithm.inputs.items():
        if not (declared.scalar or declared.values is not None or declared.monotone or declared.permutation):
            shape = shape_value(declared.passed_shape, sizes)
            plain[name] = np.resize(_values(declared.dtype.numpy), shape)
    return arguments(algorithm, plain, sizes, 0)


@cache
def _values(kind: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    random = np.random.default_rng(0)
    drawn = random.integers(0, SMALL, DRAWN) if np.dtype(kind).kind in "iub" else random.random(DRAWN)
    return drawn.astype(kind)


def serve() -> None:
    """What the process of `TimingProcess` does; whatever else writes to the standard output writes to the error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    repeats = int(sys.argv[1])
    answer(sys.stdin.buffer, answers, lambda kernel, sizes: timed_at(kernel, sizes, repeats), FAILURES)
