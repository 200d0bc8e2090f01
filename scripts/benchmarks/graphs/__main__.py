"""Typed products over the edges of graphs, and layers, beside loops over types in NumPy and in PyTorch.

scripts/bench graphs [--threads 1,2] [--only aifb,...] [--models rgcn,...] [--convolutions GCNConv,...]
                    [--sums] [--dgl PYTHON] [--files FOLDER] [--seconds S] [--rounds N] [--save]
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import milliseconds, report, table, versions
from benchmarks.graphs.convolutions import (
    COMPILED,
    PYG,
    ConvolutionTimes,
    has_pyg,
    measured_convolution,
    names_of,
    rows_of_convolutions,
)
from benchmarks.graphs.files import graphs_of
from benchmarks.graphs.layers import (
    GROUPED,
    TORCH,
    WEIGHTS,
    LayerTimes,
    has_grouped,
    has_torch,
    least_times,
    measured_layer,
)
from benchmarks.graphs.shapes import SHAPES, Shape, edges, whole_graph
from benchmarks.graphs.sums import RULES as RULES_OF_SUMS
from benchmarks.graphs.sums import SumTimes, measured_sums, rows_of_sums

N, E, R = tm.params("N E R")
r, p, d, k = tm.iters("r p d k")
WIDE = 64
OURS, NUMPY, DENSE = "tiramisu_py", "NumPy", "dense"
RULES = """\
The product of each edge, `x[src[p]] @ W[type of p]`, with features of 64 numbers in float32; edges are sorted by type.
Ours is `recipes.typed_matmul`, compiled with `fast=("contract",)`. The others gather the rows of a type and multiply
them by its matrix, type by type, into one array; "grouped" is PyTorch's `grouped_mm` of all gathered rows. All in one
process, in turns; times are minima, in milliseconds. Results are compared. Ratios are how many times as fast ours is.
"dense" is our own product of as many rows, in order, by one matrix, `recipes.matmul`: its ratio is the part of its rate
that ours has. The graphs have the numbers of nodes, edges and types of Hector's table 3.3, and types whose sizes fall
as 1 / rank."""
RULES_OF_LAYERS = """\
Layers of `examples/graphs/models.py`, 64 wide, one head, float32: the result, and the result with its gradients by all
that the layer is given ("step"). The peer is what a careful user writes in PyTorch, eager: edges and nodes sorted by
type once, rows of a type times its matrix, type by type (`split`, `unbind`, `cat`), `index_add`, and autograd. It is
measured with `grouped_mm` in place of the loop, too, but for its gradients, which take longer than the loop's in
float32. Ratios are to the best of these. `torch.compile` is not among them: it refuses `grouped_mm` in float32, and
unrolls the loop. Pairs are those of a source and a type of edges, as a part of the edges; fb15k has the printed ratio.
Results and gradients are compared."""

RULES_OF_CONVOLUTIONS = """\
Convolutions of PyTorch Geometric 2.8, 64 wide, float32, as they are and after `graphs.compile`, called as modules of
PyTorch: the result without gradients, and a step with those by features and all weights. Dense products of nodes are
PyTorch's in both. Where PyG copies the weights of types for each edge, the largest graphs are left out."""


def typed_product() -> tm.Function:
    """One product for each edge, by the matrix of its type."""
    f = tm.Function("typed_product", params=[N, E, R])
    types = f.segments("types", R, of=E)
    src = f.input("src", tm.int32, [E], values=(0, N))
    x, w = f.input("x", tm.float32, [N, WIDE]), f.input("w", tm.float32, [R, WIDE, WIDE])
    sums = f.reduction("sums", {r: R, p: types[r], d: WIDE}, {k: WIDE}, tm.sum, x[src[p], k] * w[r, k, d])
    out = f.computation("out", {r: R, p: types[r], d: WIDE}, sums[r, p, d])
    f.outputs(out)
    tm.recipes.typed_matmul(out)
    return f


def dense_product() -> tm.Function:
    """As many rows, in order, by one matrix."""
    f = tm.Function("dense_product", params=[E])
    x, w = f.input("x", tm.float32, [E, WIDE]), f.input("w", tm.float32, [WIDE, WIDE])
    sums = f.reduction("sums", {p: E, d: WIDE}, {k: WIDE}, tm.sum, x[p, k] * w[k, d])
    out = f.computation("out", {p: E, d: WIDE}, sums[p, d])
    f.outputs(out)
    tm.recipes.matmul(out)
    return f


def contenders(given: dict[str, Any], threads: int) -> dict[str, Callable[[], Any]]:
    """What computes the products, by name: each returns an array."""
    frozen = {name: tm.frozen(value) if value.dtype == np.int32 else value for name, value in given.items()}
    kernel = typed_product().compile(threads=threads, fast=("contract",))
    begin, src, x, w = (given[name] for name in ("types", "src", "x", "w"))
    parts = [slice(int(a), int(b)) for a, b in pairwise(begin) if a < b]
    kinds = np.flatnonzero(np.diff(begin))
    found: dict[str, Callable[[], Any]] = {OURS: lambda: kernel(**frozen)}

    def loop() -> Any:
        out = np.empty((len(src), WIDE), np.float32)
        for kind, part in zip(kinds, parts, strict=True):
            np.matmul(x[src[part]], w[kind], out=out[part])
        return out

    found[NUMPY] = loop
    if has_torch():
        found |= _in_torch(given, parts, kinds, threads)
    return found


def _in_torch(given: dict[str, Any], parts: Sequence[slice], kinds: Any, threads: int) -> dict[str, Callable[[], Any]]:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(threads)
    src, x, w = (torch.from_numpy(given[name]) for name in ("src", "x", "w"))

    def loop() -> Any:
        out = torch.empty((len(src), WIDE))
        for kind, part in zip(kinds, parts, strict=True):
            torch.mm(x[src[part]], w[kind], out=out[part])
        return out.numpy()

    def grouped() -> Any:
        return torch.nn.functional.grouped_mm(x.index_select(0, src), w, offs=ends).numpy()

    ends = torch.from_numpy(given["types"][1:])
    return {TORCH: loop, GROUPED: grouped} if has_grouped(torch) else {TORCH: loop}


def measured(shape: Shape, threads: int, rounds: int) -> dict[str, float]:
    """The least seconds of each contender for a graph, whose results agree."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((shape.nodes, WIDE), np.float32)
    given = {**edges(shape), "x": features, "w": draw.standard_normal((shape.types, WIDE, WIDE), np.float32) / 8}
    runs = contenders(given, threads)
    right = runs[NUMPY]()
    gathered, dense = features[given["src"]], dense_product().compile(threads=threads, fast=("contract",))
    runs[DENSE] = lambda: dense(x=gathered, w=given["w"][0])
    times = {name: float("inf") for name in runs}
    for number in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            got = run()
            times[name] = min(times[name], time.perf_counter() - began)
            if number == 0 and name != DENSE:
                np.testing.assert_allclose(got, right, rtol=1e-3, atol=1e-3)
    return times


def rows(found: Sequence[tuple[Shape, dict[str, float]]]) -> Iterator[list[str]]:
    """A row for each graph, and the geometric means."""
    names = list(found[0][1])
    for shape, times in found:
        rate = 2 * shape.edges * WIDE * WIDE / times[OURS] / 1e9
        ratios = [f"{times[name] / times[OURS]:.2f}" for name in names[1:]]
        yield [shape.name, *(milliseconds(times[name]) for name in names), f"{rate:.0f}", *ratios]
    means = [statistics.geometric_mean(times[name] / times[OURS] for _, times in found) for name in names[1:]]
    yield ["geometric mean", *("" for _ in names), "", *(f"{mean:.2f}" for mean in means)]


def rows_of_layers(found: Sequence[LayerTimes]) -> Iterator[list[str]]:
    """A row for each model and graph, and the geometric means of the ratios to the best of the others."""
    sides = [list(found[0].forward), _names_of_steps(found)]
    ratios: list[list[float]] = [[], []]
    for each in found:
        row = [each.model, each.graph, f"{each.ratio:.2f}"]
        of_row = [_best(side) / side[OURS] if len(side) > 1 else 0.0 for side in (each.forward, each.step)]
        for side, names in zip((each.forward, each.step), sides, strict=True):
            row += [milliseconds(side[name]) if name in side else "" for name in names]
        yield [*row, *(f"{ratio:.2f}" if ratio else "" for ratio in of_row)][: len(_heads_of_layers(found))]
        for kept, ratio in zip(ratios, of_row, strict=True):
            kept.extend([ratio] if ratio else [])
    means = [f"{statistics.geometric_mean(side):.2f}" if side else "" for side in ratios]
    if any(means):
        yield ["geometric mean", "", "", *("" for names in sides for _ in names), *means]


def _names_of_steps(found: Sequence[LayerTimes]) -> list[str]:
    return max((list(each.step) for each in found), key=len)


def _heads_of_layers(found: Sequence[LayerTimes]) -> list[str]:
    heads = ["layer", "graph", "pairs", *found[0].forward, *(f"{name}, step" for name in _names_of_steps(found))]
    return [*heads, "ratio", "of steps"] if len(found[0].forward) > 1 else heads


def _best(times: Mapping[str, float]) -> float:
    return min(time for name, time in times.items() if name != OURS)


@dataclass
class Measured:
    """What has been measured with so many threads: products by graph, and layers."""

    threads: int
    products: list[tuple[Shape, dict[str, float]]] = field(default_factory=list)
    layers: list[LayerTimes] = field(default_factory=list)
    convolutions: list[ConvolutionTimes] = field(default_factory=list)
    sums: list[SumTimes] = field(default_factory=list)

    @property
    def number(self) -> str:
        """In words."""
        return f"{self.threads} thread{'s' if self.threads > 1 else ''}"

    def of_products(self) -> str:
        """The table of products."""
        names = list(self.products[0][1])
        heads = ["graph", *names, "GFlop/s", *(f"of {name}" for name in names[1:])]
        return f"### Products, {self.number}\n\n{table(heads, list(rows(self.products)))}"

    def of_layers(self) -> str:
        """The table of layers."""
        return f"### Layers, {self.number}\n\n{table(_heads_of_layers(self.layers), list(rows_of_layers(self.layers)))}"

    def of_sums(self) -> str:
        """The table of sums over edges."""
        heads = ["graph", "width", "by edges", "by nodes", "steps, edges", "steps, nodes", "taken", "nodes / edges"]
        return f"### Sums by edges and by nodes, {self.number}\n\n{table(heads, list(rows_of_sums(self.sums)))}"

    def of_convolutions(self) -> str:
        """The table of convolutions."""
        heads = ["convolution", "graph", COMPILED, PYG, f"{COMPILED}, step", f"{PYG}, step", "ratio", "of steps"]
        return (
            f"### Convolutions of PyG, {self.number}\n\n{table(heads, list(rows_of_convolutions(self.convolutions)))}"
        )


def page(found: Sequence[Measured]) -> str:
    """The tables, and how they came about."""
    layers = [each.of_layers() for each in found if each.layers]
    products = [each.of_products() for each in found if each.products]
    parts = [versions(["numpy", "torch"]), *([RULES, *products] if products else [])]
    parts += [RULES_OF_LAYERS, *layers] if layers else []
    sums = [each.of_sums() for each in found if each.sums]
    parts += [RULES_OF_SUMS, *sums] if sums else []
    convolutions = [each.of_convolutions() for each in found if each.convolutions]
    return "\n\n".join([*parts, RULES_OF_CONVOLUTIONS, *convolutions] if convolutions else parts)


def main() -> None:
    """Measure, print, and keep the page."""
    parser = argparse.ArgumentParser(prog="scripts/bench graphs", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", default="1")
    parser.add_argument("--only", default="")
    parser.add_argument("--models", default=",".join(WEIGHTS))
    parser.add_argument("--convolutions", default="")
    parser.add_argument("--sums", action="store_true", help="sums by edges and by nodes alone, without peers")
    parser.add_argument("--dgl", default="", help="a Python that has DGL: layers alone, beside it")
    parser.add_argument(
        "--files", type=Path, help="a folder with graphs of pykeen and WordNet: layers alone, on these, too"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="the longest time of all turns of a layer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    shapes = [shape for shape in SHAPES if not asked.only or shape.name in asked.only.split(",")]
    models, found = [each for each in asked.models.split(",") if each], []
    for threads in map(int, asked.threads.split(",")):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if asked.sums:
            found.append(Measured(threads, sums=measured_sums(threads, asked.rounds)))
            continue
        made = {shape.name: whole_graph(shape) for shape in shapes} | (graphs_of(asked.files) if asked.files else {})
        layers = [
            measured_layer(model, name, graph, threads, asked.rounds, asked.seconds, asked.dgl)
            for model in models
            for name, graph in made.items()
        ]
        if asked.dgl or asked.files:
            found.append(Measured(threads, layers=layers))
            continue
        products = [(shape, measured(shape, threads, asked.rounds)) for shape in shapes]
        found.append(Measured(threads, products, layers, _convolutions(shapes, threads, asked)))
    report("graphs", "Graphs", page(found), asked.save, f"scripts/bench graphs --threads {asked.threads}")


def _convolutions(shapes: Sequence[Shape], threads: int, asked: argparse.Namespace) -> list[ConvolutionTimes]:
    """The convolutions of PyG on each graph, where it is installed."""
    if not (has_torch() and has_pyg()):
        return []
    named = [(name, shape) for shape in shapes for name in names_of(shape)]
    wanted = [each for each in named if not asked.convolutions or each[0] in asked.convolutions.split(",")]
    return [measured_convolution(*each, threads, partial(least_times, rounds=asked.rounds)) for each in wanted]


if __name__ == "__main__":
    main()
