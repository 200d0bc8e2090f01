"""Typed products over the edges of graphs beside loops over types in NumPy and in PyTorch, and our dense product."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import milliseconds, table
from benchmarks.graphs.layers import GROUPED, TORCH, has_grouped, has_torch
from benchmarks.graphs.shapes import Shape, edges
from benchmarks.graphs.turns import Turns

N, E, R = tm.params("N E R")
r, p, d, k = tm.iters("r p d k")
WIDE = 64
OURS, NUMPY, DENSE = "tiramisu_py", "NumPy", "dense"
RULES_OF_PRODUCTS = """\
The product of each edge, `x[src[p]] @ W[type of p]`, with features of 64 numbers in float32; edges are sorted by type.
Ours is `recipes.typed_matmul`, compiled with `fast=("contract",)`. The others gather the rows of a type and multiply
them by its matrix, type by type, into one array; "grouped" is PyTorch's `grouped_mm` of all gathered rows. All in one
process, in turns; times are minima, in milliseconds. Results are compared. Ratios are how many times as fast ours is.
"dense" is our own product of as many rows, in order, by one matrix, `recipes.matmul`: its ratio is the part of its rate
that ours has. The graphs have the numbers of nodes, edges and types of Hector's table 3.3, and types whose sizes fall
as 1 / rank."""


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


def measured_products(shape: Shape, threads: int, turns: Turns) -> dict[str, float]:
    """The least seconds of each contender for a graph, whose results agree."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((shape.nodes, WIDE), np.float32)
    given = {**edges(shape), "x": features, "w": draw.standard_normal((shape.types, WIDE, WIDE), np.float32) / 8}
    runs = contenders(given, threads)
    right = runs[NUMPY]()
    gathered, dense = features[given["src"]], dense_product().compile(threads=threads, fast=("contract",))
    runs[DENSE] = lambda: dense(x=gathered, w=given["w"][0])
    for name in runs:
        if name != DENSE:
            np.testing.assert_allclose(runs[name](), right, rtol=1e-3, atol=1e-3)
    return turns.least(runs)


def rows_of_products(found: Sequence[tuple[Shape, dict[str, float]]]) -> Iterator[list[str]]:
    """A row for each graph, and the geometric means."""
    names = list(found[0][1])
    for shape, times in found:
        rate = 2 * shape.edges * WIDE * WIDE / times[OURS] / 1e9
        ratios = [f"{times[name] / times[OURS]:.2f}" for name in names[1:]]
        yield [shape.name, *(milliseconds(times[name]) for name in names), f"{rate:.0f}", *ratios]
    means = [statistics.geometric_mean(times[name] / times[OURS] for _, times in found) for name in names[1:]]
    yield ["geometric mean", *("" for _ in names), "", *(f"{mean:.2f}" for mean in means)]


def table_of_products(found: Sequence[tuple[Shape, dict[str, float]]]) -> str:
    """A row for each graph."""
    names = list(found[0][1])
    return table(["graph", *names, "GFlop/s", *(f"of {name}" for name in names[1:])], list(rows_of_products(found)))
