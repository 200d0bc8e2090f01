"""The workloads of `scripts/bench cpu`: the stories of `examples/cpu`, their sizes, memory traffic and tolerances."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported

STEPS = 50
Array = np.ndarray[Any, np.dtype[Any]]
Size = tuple[int, int]
LARGE, SMALL, PLATE = (8000, 8000), (1000, 2000), (4096, 4096)


@dataclass(frozen=True)
class Workload:
    """A story to measure.

    `reads` and `writes` count streams, and `scale` is the bytes of one stream for each point. `close` gives tolerances
    by a word that a program's name begins with ("" for all): the largest difference from our values, and the share of
    the points that may differ more (the edges of a picture).
    """

    name: str
    title: str
    story: str
    outputs: Callable[[int, int], dict[str, tuple[tuple[int, ...], Any]]]
    reads: int
    writes: int
    scale: int
    sizes: tuple[Size, ...] = (SMALL, LARGE)
    options: tuple[Any, ...] = ()
    fast: tuple[str, ...] = ()
    close: dict[str, tuple[float, float]] = field(default_factory=dict)
    steps: int = 0
    operations: int = 0
    ignored: int = 0

    def module(self) -> Any:
        """The story."""
        return imported(EXAMPLES / "cpu", self.story)

    def scheduled(self, cpu: tm.Target) -> tm.Function:
        """The story's schedule for a processor; the same for all if it does not ask for one."""
        build = self.module().scheduled
        asked = {"cpu": cpu} if "cpu" in inspect.signature(build).parameters else {}
        made: tm.Function = build(*(() if self.steps else self.options), **asked)
        return made

    def given(self, rows: int, columns: int) -> dict[str, Any]:
        """The arguments of all programs: arrays and numbers."""
        named: dict[str, Any] = self.module().sample(rows, columns, *self.options)
        return named

    def bytes_moved(self, rows: int, columns: int) -> int:
        """The bytes that a perfect program reads and writes in one call, or in one step."""
        return (self.reads + self.writes) * self.scale * rows * columns

    def rate(self, rows: int, columns: int, seconds: float) -> tuple[float, str]:
        """The rate of a call, in gigabytes or in points per second."""
        if self.steps:
            return rows * columns * self.steps / seconds / 1e9, "Gpt/s"
        return self.bytes_moved(rows, columns) / seconds / 1e9, "GB/s"

    def tolerance(self, program: str) -> tuple[float, float]:
        """The largest difference of a program's values from ours, and the share of the points that may differ more."""
        return next((close for word, close in self.close.items() if program.startswith(word)), (0.0, 0.0))


def plane(name: str, dtype: Any) -> Callable[[int, int], dict[str, tuple[tuple[int, ...], Any]]]:
    """One output of the size of the picture."""
    return lambda rows, columns: {name: ((rows, columns), dtype)}


ROUNDED, BORDER = {"": (1e-5, 0.0)}, 0.01
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "blur", "box blur 3 x 3, float32", "blur", plane("by", np.float32), 1, 1, 4,
            fast=("contract",), close=ROUNDED,
        ),
        Workload(
            "gauss", "Gaussian 5 x 5, float32", "gauss", plane("smooth", np.float32), 1, 1, 4,
            fast=("contract",), close=ROUNDED,
        ),
        Workload(
            "grey", "colour to grey, bytes", "grey",
            lambda rows, columns: {"brightness": ((rows * columns,), np.uint8)}, 3, 1, 1, close={"OpenCV": (1.0, 0.0)},
        ),
        Workload("edge", "edges, bytes", "edge", plane("edges", np.uint8), 1, 1, 1, close={"OpenCV": (2.0, 0.0)}),
        Workload(
            "negative", "negative and brighter, bytes of three colours", "negative",
            lambda rows, columns: dict.fromkeys(("inverse", "brighter"), ((rows * columns * 3,), np.uint8)), 1, 2, 3,
            close={"OpenCV": (1.0, 0.0)},
        ),
        Workload(
            "warp", "affine warp, bilinear, float32", "warp", plane("warped", np.float32), 1, 1, 4,
            options=(tm.float32,), fast=("contract",), close={"OpenCV": (1.0, BORDER), "": (0.02, BORDER)},
        ),
        Workload(
            "warp8", "affine warp, bilinear, bytes", "warp", plane("warped", np.uint8), 1, 1, 1,
            options=(tm.uint8,), fast=("contract",), close={"OpenCV": (2.0, BORDER), "": (1.0, BORDER)},
        ),
        Workload(
            "heat", f"heat in a plate, {STEPS} steps, float32", "heat", plane("heat_out", np.float32), 1, 1, 4,
            sizes=(PLATE,), options=(STEPS,), fast=("contract",), close=ROUNDED, steps=STEPS, operations=5,
        ),
    )
}  # fmt: skip
