"""The workloads of `scripts/bench reductions`: single operators, and the sub-graphs of `examples/reductions`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Sequence[Array]
SINGLE, GRAPHS, LONGER = "Single operators", "Sub-graphs", "Sub-graphs past 128 MB"
KINDS = (SINGLE, GRAPHS, LONGER)
PAST = 128 << 20
#: The bytes up to which one call is shorter than a call from Python: many calls are timed together.
SMALL, MANY = 1 << 20, 500
NAMES = tm.iters("a b c d")
OPERATORS = {"sum": tm.sum, "max": tm.max}
#: PyTorch's names, where they are not NumPy's.
IN_TORCH = {"max": "amax"}


def element(to: Any, x: Any) -> Sequence[Any]:
    """The terms of a single operator: the elements."""
    return (x,)


@dataclass(frozen=True)
class Single:
    """One operator over some axes of one array; "cumsum" has all prefixes of an array of one dimension."""

    operator: str
    dtype: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    arrays: int = 1
    sums: int = 1
    formula: Callable[..., Sequence[Any]] = element

    @property
    def read(self) -> int:
        """The bytes that are read, and written where the results are as many."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize * (2 if self.operator == "cumsum" else 1)

    @property
    def has_copies(self) -> bool:
        """Whether private copies of threads are another schedule: for one sum, or sums of columns."""
        return self.operator == "sum" and self.axes == (0,)

    def scheduled(self, private: bool = False, cores: int | None = None) -> tm.Function:
        """By the recipe, for so many cores, or with private copies of threads; prefixes as the example has them."""
        if self.operator == "cumsum":
            made: tm.Function = imported(EXAMPLES / "reductions", "prefixes").in_one_piece()
            return made
        f, names = tm.Function("reduced", params=[]), NAMES[: len(self.shape)]
        a = f.input("x0", getattr(tm, self.dtype), list(self.shape))
        over = {names[axis]: self.shape[axis] for axis in self.axes}
        values = {name: extent for name, extent in zip(names, self.shape, strict=True) if name not in over}
        total = f.reduction("s0", values, over, OPERATORS[self.operator], a[names])
        f.outputs(total)
        if private:
            by_copies(total, list(values), list(over))
        else:
            cpu = tm.target()
            tm.recipes.reduction(total, cpu=cpu if cores is None else replace(cpu, cores=cores))
        return f

    def sample(self) -> list[Array]:
        """A random array."""
        random = np.random.default_rng(0)
        if self.dtype.startswith("int"):
            return [random.integers(-(2**20), 2**20, self.shape).astype(self.dtype)]
        return [random.random(self.shape, dtype=np.float32).astype(self.dtype)]

    def exact(self, given: Arrays) -> list[Array]:
        """The values in a wide type."""
        (x,) = given
        if self.operator == "max":
            return [np.asarray(x.max(self.axes))]
        if self.operator == "cumsum":
            return [np.cumsum(x, dtype=np.float64)]
        return [np.asarray(x.sum(self.axes, dtype=x.dtype if x.dtype.kind == "i" else np.float64))]

    def by_numpy(self, given: Arrays) -> list[Array]:
        """By NumPy; a sum of whole numbers in their type, as ours is."""
        (x,) = given
        if self.operator == "cumsum":
            return [np.cumsum(x)]
        wide = {"dtype": x.dtype} if self.operator == "sum" else {}
        return [np.asarray(getattr(np, self.operator)(x, axis=self.axes, **wide))]

    def eager(self, library: Any, given: Sequence[Any]) -> Callable[[], list[Any]]:
        """By PyTorch."""
        (x,) = given
        if self.operator == "cumsum":
            return lambda: [library.cumsum(x, 0)]
        operator = getattr(library, IN_TORCH.get(self.operator, self.operator))
        wide = {"dtype": x.dtype} if self.operator == "sum" else {}
        return lambda: [operator(x, self.axes, **wide)]


def by_copies(total: tm.Reduction, values: Sequence[tm.Iter], terms: Sequence[tm.Iter]) -> None:
    """The grade `run_to_run`: each thread adds its static share of the terms to a copy of its own, in vectors."""
    block, row, strip, lane = tm.iters("block row strip lane")
    total.update.split(terms[0], 8 if values else 1 << 14, block, row)
    if values:
        total.update.split(values[-1], 16, strip, lane)
        total.update.reorder(block, strip, row, lane)
        total.update.unroll(row, remainder="specialize").vectorize(lane, 16, remainder="mask")
    else:
        total.update.vectorize(row, 64, combine=tm.PRIVATE)
    total.update.parallelize(block, combine=tm.PRIVATE)


@dataclass(frozen=True)
class Workload:
    """A program at one size."""

    name: str
    kind: str
    program: Any

    @property
    def repeat(self) -> int:
        """How many calls are timed together."""
        return MANY if self.program.read <= SMALL else 1

    @property
    def is_float(self) -> bool:
        """Whether all arithmetic is in float32, which numba's vectors have."""
        return self.program.dtype == "float32" and getattr(self.program, "total", "float32") == "float32"

    def differs(self, found: Arrays, exact: Arrays) -> str:
        """How results are further from exact values than rounding of positive terms allows, or an empty text."""
        terms = math.prod(self.program.shape[axis] for axis in self.program.axes)
        half = getattr(self.program, "total", "") == "float16"
        room = (terms + 4) * 2.0**-24 + (2.0**-10 if half else 0)
        for one, right in zip(found, exact, strict=True):
            apart = np.abs(np.asarray(one, np.float64).ravel() - np.asarray(right, np.float64).ravel())
            wrong = int(np.count_nonzero(~(apart <= room * np.abs(np.ravel(right)))))
            if wrong:
                return f"{wrong} of {apart.size} values, by up to {float(apart.max()):g}"
        return ""

    def cut(self, most: int) -> Workload:
        """The same with extents of at most so much."""
        return replace(self, program=replace(self.program, shape=tuple(min(n, most) for n in self.program.shape)))


def singles() -> list[Workload]:
    """Sums and maxima of everything, of rows, of columns and between, in and past the caches."""
    return [
        Workload(name, SINGLE, Single(operator, dtype, shape, axes))
        for name, operator, dtype, shape, axes in (
            ("sum of all, 64 MB", "sum", "float32", (1 << 24,), (0,)),
            ("sum of all, 256 MB", "sum", "float32", (1 << 26,), (0,)),
            ("sum of rows, 64 MB", "sum", "float32", (4096, 4096), (1,)),
            ("sum of rows, 256 MB", "sum", "float32", (8192, 8192), (1,)),
            ("sum of columns, 64 MB", "sum", "float32", (4096, 4096), (0,)),
            ("sum of columns, 256 MB", "sum", "float32", (8192, 8192), (0,)),
            ("sum of columns, 1 MB", "sum", "float32", (512, 512), (0,)),
            ("maximum of all, 64 MB", "max", "float32", (1 << 24,), (0,)),
            ("maximum of rows, 64 MB", "max", "float32", (4096, 4096), (1,)),
            ("maximum of columns, 64 MB", "max", "float32", (4096, 4096), (0,)),
            ("sum of all, int32, 64 MB", "sum", "int32", (1 << 24,), (0,)),
            ("sum of all of three, 64 MB", "sum", "float32", (64, 512, 512), (0, 1, 2)),
            ("sum of the inner two of three, 16 MB", "sum", "float32", (256, 256, 64), (1, 2)),
            ("sum of the middle of three, 64 MB", "sum", "float32", (64, 512, 512), (1,)),
            ("running sum, 64 MB", "cumsum", "float32", (1 << 24,), (0,)),
        )
    ]


@cache
def workloads() -> Mapping[str, Workload]:
    """All of them by name."""
    graphs = imported(EXAMPLES / "reductions", "subgraphs").SUB_GRAPHS
    found = singles() + [Workload(graph.name, GRAPHS, graph) for graph in graphs]
    for graph in graphs:
        if graph.read > SMALL and graph.number != 4:
            longer = graph.longer(PAST // graph.read + 1)
            found.append(Workload(f"{longer.name}, {longer.read >> 20} MB", LONGER, longer))
    return {each.name: each for each in found}
