"""The twelve sub-graphs of Zhao et al., Panamera (PACT 2022), table 2: elementwise operators, then one or two sums.

Each is one formula, which NumPy and PyTorch compute array by array, and a compiled function without arrays between.
Sums of halves are accumulated in float32, as PyTorch's are. `scripts/bench reductions` measures them at the paper's
shapes; here they are compared with NumPy at smaller ones, or at those with `--full`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tiramisu_py as tm

Array = np.ndarray[Any, Any]
#: A formula gets a function that converts to a type by its name, and the arrays; it gives the terms of each sum.
Formula = Callable[..., Sequence[Any]]
SHAPE, JOINED = tm.iters("a b c d"), tm.iters("row column")


@dataclass(frozen=True)
class SubGraph:
    """Sums over some axes of what a formula makes of arrays of one type and shape."""

    number: int
    dtype: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    formula: Formula
    arrays: int = 1
    sums: int = 1
    total: str = "float32"
    #: Whether the arrays are seen as rows of terms first.
    reshaped: bool = False

    @property
    def form(self) -> str:
        """Which of the paper's three forms the loops have: all, x (a sum of each row) or y (of each column)."""
        if len(self.axes) == len(self.shape):
            return "all"
        return "y" if 0 in self.axes else "x"

    @property
    def name(self) -> str:
        """Number, form and extents, as the paper has them: those of the values, then those of the terms."""
        terms = math.prod(self.shape[axis] for axis in self.axes)
        return f"{self.number}: {self.form}, {math.prod(self.shape) // terms}, {terms}"

    @property
    def read(self) -> int:
        """The bytes of the arrays."""
        return self.arrays * math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def cut(self, most: int) -> SubGraph:
        """The same with smaller extents."""
        return replace(self, shape=tuple(min(extent, most) for extent in self.shape))

    def longer(self, times: int) -> SubGraph:
        """The same with a longer first axis."""
        return replace(self, shape=(times * self.shape[0], *self.shape[1:]))

    def algorithm(self) -> tuple[tm.Function, list[tm.Reduction]]:
        """The formula, and the sums to schedule: of halves those in float32."""
        f = tm.Function(f"sub_graph_{self.number}", params=[])
        given: list[Any] = [f.input(f"x{k}", getattr(tm, self.dtype), list(self.shape)) for k in range(self.arrays)]
        names, shape, axes = SHAPE[: len(self.shape)], self.shape, self.axes
        if self.reshaped:
            terms = math.prod(shape[axis] for axis in axes)
            shape, axes = (terms, math.prod(shape) // terms), (0,)
            given, names = [x.reshape(list(shape)) for x in given], JOINED
        over = {names[axis]: shape[axis] for axis in axes}
        values = {name: extent for name, extent in zip(names, shape, strict=True) if name not in over}
        terms = self.formula(lambda x, name: tm.cast(getattr(tm, name), x), *(x[names] for x in given))
        wide = {} if self.total == "float32" else {"accumulate": tm.float32}
        results = [f.reduction(f"s{k}", values, over, tm.sum, term, **wide) for k, term in enumerate(terms)]
        f.outputs(*results)
        return f, [f[f"s{k}_float32"] if wide else result for k, result in enumerate(results)]

    def scheduled(self, cores: int | None = None) -> tm.Function:
        """By the recipe, for all cores of this machine or for so many."""
        f, sums = self.algorithm()
        cpu = tm.target()
        tm.recipes.reduction(*sums, cpu=cpu if cores is None else replace(cpu, cores=cores))
        return f

    def sample(self) -> list[Array]:
        """Random arrays."""
        random = np.random.default_rng(self.number)
        return [random.random(self.shape, dtype=np.float32).astype(self.dtype) for _ in range(self.arrays)]

    def by_numpy(self, given: Sequence[Array]) -> list[Array]:
        """The sums by NumPy, each elementwise operator an array; sums of halves are converted, too."""
        terms = self.formula(lambda x, name: x.astype(name), *given)
        return [term.sum(self.axes, dtype=np.float32).astype(self.total, copy=False) for term in terms]

    def exact(self, given: Sequence[Array]) -> list[Array]:
        """The sums in float64."""
        terms = self.formula(lambda x, name: x.astype(name), *given)
        return [term.sum(self.axes, dtype=np.float64) for term in terms]

    def eager(self, library: Any, given: Sequence[Any]) -> Callable[[], list[Any]]:
        """The same array by array in PyTorch."""

        def run() -> list[Any]:
            terms = self.formula(lambda x, name: x.to(getattr(library, name)), *given)
            return [term.sum(self.axes) for term in terms]

        return run


def casts(to: Any, x: Any) -> Sequence[Any]:
    """To halves, back, and to halves again."""
    return (to(to(to(x, "float16"), "float32"), "float16"),)


def widened(to: Any, x: Any) -> Sequence[Any]:
    """Halves in float32."""
    return (to(x, "float32"),)


SUB_GRAPHS = (
    SubGraph(1, "float32", (64, 2), (0,), casts, total="float16"),
    SubGraph(2, "float32", (1280, 21128), (0,), lambda to, x: (to(x, "float16"),), total="float16"),
    SubGraph(3, "float16", (64, 768), (0,), widened),
    SubGraph(4, "float32", (1280, 21128), (1,), lambda to, x, y: (x * y,), arrays=2),
    SubGraph(5, "float32", (1280,), (0,), lambda to, x, y: (-x * y,), arrays=2),
    SubGraph(6, "float32", (3072,), (0,), lambda to, x, y: (x * y * y,), arrays=2),
    SubGraph(7, "float32", (64, 128, 768), (0,), lambda to, x, y: ((x + y) * y,), arrays=2),
    SubGraph(8, "float32", (64, 128, 768), (0, 1), lambda to, x, y: ((x + y) * x, (x + y) * y), arrays=2, sums=2),
    SubGraph(9, "float32", (8192, 768), (0,), lambda to, x, y: (x, y), arrays=2, sums=2),
    SubGraph(10, "float16", (64, 128, 12, 64), (0, 1), widened, reshaped=True),
    SubGraph(11, "float16", (64, 128, 768), (0, 1), widened, reshaped=True),
    SubGraph(12, "float16", (64, 20), (0, 1), lambda to, x: (x,), total="float16", reshaped=True),
)


def compare(graph: SubGraph, kernel: tm.Kernel, given: Sequence[Array]) -> None:
    """Raise unless the sums are as close to those in float64 as rounding in any order allows; terms are positive."""
    found = kernel(*given)
    for one, exact in zip(found if graph.sums > 1 else [found], graph.exact(given), strict=True):
        terms = math.prod(graph.shape[axis] for axis in graph.axes)
        room = (terms + 4) * 2.0**-24 + (2.0**-11 if graph.total == "float16" else 0)
        np.testing.assert_allclose(one.astype(np.float64), exact.reshape(one.shape), rtol=room, err_msg=graph.name)


def main() -> None:
    """Compare all twelve with NumPy."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--full", action="store_true", help="at the paper's shapes")
    full = options.parse_args().full
    for graph in SUB_GRAPHS:
        for smaller in (graph,) if full else (graph.cut(67), graph.cut(1)):
            f = smaller.scheduled()
            print(smaller.name, f.check(), sep=": ")
            compare(smaller, f.compile(threads=2), smaller.sample())
    print(f"right: the sums of {len(SUB_GRAPHS)} sub-graphs are as close to float64 as rounding allows")


if __name__ == "__main__":
    main()
