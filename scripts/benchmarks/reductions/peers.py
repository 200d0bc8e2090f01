"""The others of `scripts/bench reductions`: NumPy, PyTorch eager and compiled, and numba, if installed."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.reductions.numba_loops import made
from benchmarks.reductions.workloads import Array, Arrays, Workload

Run = Callable[[], Sequence[Any]]
NUMPY, EAGER, COMPILED, NUMBA = "NumPy", "PyTorch", "torch.compile", "numba"
PACKAGES = {NUMPY: "numpy", EAGER: "torch", COMPILED: "torch", NUMBA: "numba"}


def by_numpy(workload: Workload, given: Arrays) -> Run:
    """Array by array; running sums go into an array that is there."""
    if getattr(workload.program, "operator", "") == "cumsum":
        out = np.empty_like(given[0])
        return lambda: [np.cumsum(given[0], out=out)]
    return lambda: workload.program.by_numpy(given)


def _torch() -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_grad_enabled(False)
    return torch


def by_torch(workload: Workload, given: Arrays) -> Run:
    """Array by array, over the same memory."""
    torch = _torch()
    run: Run = workload.program.eager(torch, [torch.from_numpy(each) for each in given])
    return run


def by_torch_compiled(workload: Workload, given: Arrays) -> Run:
    """The same formula, fused by PyTorch's compiler for these shapes."""
    torch = _torch()
    tensors = [torch.from_numpy(each) for each in given]

    def formula(*each: Any) -> Any:
        return workload.program.eager(torch, each)()

    fused = torch.compile(formula, dynamic=False)
    return lambda: fused(*tensors)  # type: ignore[no-any-return]


def by_numba(workload: Workload, given: Arrays) -> Run:
    """Loops over values and terms, with reassociation, so that they run in vectors; values on threads."""
    numba = importlib.import_module("numba")
    program, shape, axes = workload.program, workload.program.shape, workload.program.axes
    terms = math.prod(shape[axis] for axis in axes)
    outer, inner = math.prod(shape[: axes[0]]), math.prod(shape[axes[-1] + 1 :])
    flat = [each.reshape(outer, terms, inner) for each in given]
    loops = made(numba, program.formula, len(given), inner == 1, outer == 1)
    out = np.empty((outer, inner), np.float32)

    def run() -> Sequence[Array]:
        loops(flat[0], flat[-1], out)
        return [out]

    return run


PEERS: dict[str, Callable[[Workload, Arrays], Run]] = {
    NUMPY: by_numpy, EAGER: by_torch, COMPILED: by_torch_compiled, NUMBA: by_numba,
}  # fmt: skip


def missing() -> list[str]:
    """The programs that are not installed here."""
    return [name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None]


def peers(workload: Workload) -> list[str]:
    """The programs that are installed and have a workload; numba has sums and maxima in float32."""
    absent = missing()
    chosen = [name for name in PEERS if name not in absent]
    operator = getattr(workload.program, "operator", "sum")
    if operator == "cumsum":
        return [name for name in chosen if name in (NUMPY, EAGER)]
    if not workload.is_float or workload.program.sums > 1 or operator != "sum":
        return [name for name in chosen if name != NUMBA]
    return chosen
