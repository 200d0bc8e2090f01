"""Timelines of the blur on a GPU, as in figures 5-1 and 5-2 of the thesis, drawn from traces of single calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tiramisu_py as tm
from benchmarks.thesis import programs

Traced = tuple[Callable[[], tm.Function], int]
#: The programs whose calls are drawn, and the rows of their pictures: few, so that each copy is visible.
TIMELINES: dict[str, Traced] = {
    "synchronous": (programs.synchronous, 8),
    "asynchronous": (programs.asynchronous, 8),
    "pipelined": (programs.pipelined, 6 * programs.CHUNK),
    "cooperative": (programs.cooperative, 8 * programs.CHUNK),
}


def traced(name: str, device: str, columns: int) -> tm.Trace:
    """The trace of the second call, which has no setup in it."""
    build, rows = TIMELINES[name]
    timing = "threads" if device == "simulator" else None
    kernel = build().compile(device=device, trace=True, timing=timing)
    image = tm.pinned_empty((rows + 2, columns + 2), np.float32, device=device)
    image[:] = np.random.default_rng(0).random(image.shape, dtype=np.float32)
    out = tm.pinned_empty((rows, columns), np.float32, device=device)
    given = {"G": rows // 2} if name == "cooperative" else {}
    for _ in range(2):
        kernel(image, by=out, **given)
    return kernel.trace


def overlaps(trace: tm.Trace) -> list[str]:
    """The percentage of the time of one kind of operation that overlaps with another."""
    pairs = [("upload", "kernel"), ("upload", "download"), ("kernel", "download"), ("kernel", "nest")]
    cells = []
    for one, other in pairs:
        busy = min(trace.busy(one), trace.busy(other))
        cells.append(f"{100 * trace.overlap(one, other) / busy:.0f} %" if busy else "")
    return cells


HEADER = ["program", "copies in, kernels", "copies in, copies out", "kernels, copies out", "kernels, cores"]
