"""The workloads of `scripts/bench linear`: the stories of `examples/linear`, their sizes and how much they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported

Array = np.ndarray[Any, np.dtype[Any]]
Size = tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """A story to measure at one size; `work` counts floating-point operations, or bytes read and written."""

    name: str
    title: str
    story: str
    size: Size
    work: Callable[[Size], int]
    unit: str = "Gflop/s"
    options: dict[str, Any] = field(default_factory=dict)
    calls: int = 10
    result: str = ""

    def module(self) -> Any:
        """The story."""
        return imported(EXAMPLES / "linear", self.story)

    def scheduled(self) -> tm.Function:
        """The story's program with its schedule."""
        made: tm.Function = self.module().scheduled(**self.options)
        return made

    def given(self) -> dict[str, Array]:
        """The arguments of all programs, the same in each process."""
        named: dict[str, Array] = self.module().sample(*self.size, **self.options)
        return named

    def prepared(self, given: dict[str, Array]) -> dict[str, Array]:
        """The arguments of the story's program, where an inspector makes them once of what all programs are given."""
        prepare = getattr(self.module(), "prepared", None)
        made: dict[str, Array] = given if prepare is None else prepare(given, **self.options)
        return made

    def exact(self, given: dict[str, Array]) -> tuple[Array, Array]:
        """The values in a wider type, and the rounding error that each may have."""
        options = {"kind": self.options["kind"]} if "kind" in self.options else {}
        values, bound = self.module().exact(given, **options)
        return values, bound

    def differs(self, found: Array, exact: tuple[Array, Array]) -> str:
        """How a result is further from exact values than rounding allows, or an empty text."""
        values, bound = exact
        apart = np.abs(found.astype(np.float64) - values.astype(np.float64))
        wrong = int(np.count_nonzero(~(apart <= bound)))
        return f"{wrong} of {values.size} values, by up to {float(apart.max()):g}" if wrong else ""

    def rate(self, seconds: float) -> str:
        """The rate of a call."""
        return f"{self.work(self.size) / seconds / 1e9:.1f} {self.unit}"


def product(size: Size) -> int:
    """The operations of a product of matrices."""
    return 2 * size[0] * size[1] * size[2]


def small(side: int, count: int) -> Workload:
    """Products of one small size, in at most 8 MB."""
    return Workload(
        f"batched {side}", f"{count} products of {side} x {side}, float32", "batched", (count,),
        lambda size: 2 * size[0] * side**3, options={"size": side}, calls=50,
    )  # fmt: skip


def rows(story: str, title: str, kind: str = "") -> Workload:
    """A story that reads a matrix, and writes another if it does not sum."""
    streams = 1 if kind else 2
    return Workload(
        f"{story} {kind}".strip(), title, story, (4096, 4096), lambda size: 4 * streams * size[0] * size[1], "GB/s",
        {"kind": kind} if kind else {}, calls=5,
    )  # fmt: skip


def sparse(kind: str, columns: str) -> Workload:
    """A sparse matrix of 16 entries in a row times a vector; `work` reads each entry once."""
    return Workload(
        f"spmv {columns} {kind}", f"sparse matrix times vector, {columns} columns, by {kind}, float32", "spmv",
        (1_000_000,), lambda size: 8 * 16 * size[0], "GB/s", {"kind": kind, "columns": columns},
    )  # fmt: skip


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("sgemm 1024", "product of 1024 x 1024, float32", "matmul", (1024, 1024, 1024), product),
        Workload("sgemm 1060", "product of 1060 x 1060, float32", "matmul", (1060, 1060, 1060), product),
        Workload(
            "dgemm 1024", "product of 1024 x 1024, float64", "matmul", (1024, 1024, 1024), product,
            options={"dtype": tm.float64}, calls=5,
        ),
        Workload(
            "skinny", "product of 64 x 16384 by 16384 x 64, float32", "skinny", (16384,),
            lambda size: 2 * 64 * 64 * size[0], calls=30,
        ),
        small(16, 2048), small(24, 1024), small(32, 512), small(64, 128),
        Workload(
            "convolution", "convolution 3 x 3 of 8 pictures 56 x 56 with 64 channels, bias, ReLU, NHWC, float32",
            "convolution", (8, 56, 56, 64, 64),
            lambda size: 2 * 9 * size[0] * size[1] * size[2] * size[3] * size[4], calls=5,
        ),
        rows("softmax", "softmax of rows of 4096 x 4096, float32"),
        rows("layer_norm", "layer normalisation of rows of 4096 x 4096, float32"),
        rows("sums", "sums of the rows of 4096 x 4096, float32", "rows"),
        rows("sums", "sum of all of 4096 x 4096, float32", "all"),
        rows("sums", "sums of the columns of 4096 x 4096, float32", "columns"),
        sparse("slices", "banded"), sparse("rows", "banded"), sparse("slices", "random"), sparse("rows", "random"),
        Workload(
            "spmm", "sparse matrix times 64 columns, banded, float32", "spmm", (100_000,),
            lambda size: 2 * 16 * 64 * size[0], calls=5,
        ),
        Workload(
            "int8 1024",
            "product of 1024 x 1024, uint8 by int8 in int32, ours with the second packed before; MKL has AMX",
            "int8_product", (1024, 1024, 1024), product, "Gop/s", calls=30, result="int32",
        ),
        Workload(
            "int8 tiles 1024", "the same in tiles of matrix registers, where the processor has AMX",
            "byte_tiles", (1024, 1024, 1024), product, "Gop/s", calls=30, result="int32",
        ),
        Workload(
            "convolution planes", "the same with channels as planes, NCHW", "convolution_nchw", (8, 56, 56, 64, 64),
            lambda size: 2 * 9 * size[0] * size[1] * size[2] * size[3] * size[4], calls=5,
        ),
        Workload(
            "depthwise", "depthwise convolution 3 x 3 of 8 pictures 56 x 56 with 64 channels, bias, ReLU, float32",
            "depthwise", (8, 56, 56, 64), lambda size: 2 * 4 * size[0] * size[1] * size[2] * size[3], "GB/s", calls=20,
        ),
    )
}  # fmt: skip
