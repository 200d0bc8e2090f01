"""What the rewrites of a layer change: its time, the parts of its time, and its time at other widths.

Hector's table 3.5 and figures 3.3, 3.11 and 3.12.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import tiramisu_py as tm
from benchmarks.common.tables import milliseconds, table
from benchmarks.graphs.layers import arguments, layer
from benchmarks.graphs.turns import Turns
from tiramisu_py import graphs, queries
from tiramisu_py.graphs.given import LayerArguments
from tiramisu_py.graphs.programs import LayerProgram, work_on
from tiramisu_py.graphs.schedules import is_typed_product

#: Which rewrites are done; sums are not put before products, as Hector's are not.
PLAIN: dict[str, Any] = {"reassociate": False, "compact": False, "sum_first": False}
WAYS: dict[str, dict[str, Any]] = {
    "none": PLAIN,
    "compact": PLAIN | {"compact": True},
    "reassociate": PLAIN | {"reassociate": True},
    "both": PLAIN | {"compact": True, "reassociate": True},
}
WIDTHS = (32, 64, 128)
FAST = ("contract",)
RULES_OF_REWRITES = """\
Times of layers with each rewrite alone and with both, in milliseconds, in turns; ratios are how many times as fast as
without any. Without a sum before a product in all, as in Hector. "mult-adds" is how many times fewer multiplications
and additions the result has with both. The cells of the thesis's table 3.5 are in a picture, of which its text says
that both together give up to 3.8 in inference and 2.7 in training."""
RULES_OF_PARTS = """\
Parts of the time of a result, in milliseconds: of typed products, and of traversals, which are all other loops. The
time of a value is that of the program that ends with it, less that of the one that ends with the value before; all of
them take turns. "whole" is the program of the layer, by itself. The thesis's figures 3.3 and 3.11 are pictures; its
text says that compaction takes its time from products on am, and less on fb15k, where products are a smaller part."""
RULES_OF_WIDTHS = """\
Times of layers without any rewrite, 32, 64 and 128 wide, in milliseconds. Work grows by 4 where a width doubles, memory
by 2. On Hector's GPU times grow by less than 2."""


@dataclass(frozen=True)
class RewrittenTimes:
    """The least seconds of a layer's result and step, by the rewrites that are done; and the work that is saved."""

    model: str
    graph: str
    forward: Mapping[str, float]
    step: Mapping[str, float]
    saved: float


def measured_rewrites(model: str, name: str, graph: graphs.Graph, threads: int, turns: Turns) -> RewrittenTimes:
    """All ways of a layer, with and without gradients."""
    given = arguments(model, graph)
    runs = {way: layer(model, **how).on(graph, threads=threads, fast=FAST) for way, how in WAYS.items()}
    out = runs["none"](**given)
    forward: dict[str, Any] = {way: lambda run=run: run(**given) for way, run in runs.items()}
    step: dict[str, Any] = {way: lambda run=run: run.gradients(out, **given) for way, run in runs.items()}
    for run in [*forward.values(), *step.values()]:
        run()
    work = [_work(model, graph, how) for how in (PLAIN, WAYS["both"])]
    times = [turns.least(each) for each in (forward, step)]
    return RewrittenTimes(model, name, *times, work[0] / work[1])


def _work(model: str, graph: graphs.Graph, how: Mapping[str, Any]) -> int:
    """The multiplications and additions of a result."""
    return work_on(layer(model, **how).function, graph)


def table_of_rewrites(found: Sequence[RewrittenTimes]) -> str:
    """A row for each layer and graph, and the best of each."""
    ways = [way for way in WAYS if way != "none"]
    heads = ["layer", "graph", "none", *ways, "none, step", *(f"{way}, step" for way in ways), "mult-adds"]
    return table(heads, list(_rows_of_rewrites(found, ways)))


def _rows_of_rewrites(found: Sequence[RewrittenTimes], ways: Sequence[str]) -> Iterator[list[str]]:
    for each in found:
        cells = []
        for side in (each.forward, each.step):
            cells += [milliseconds(side["none"]), *(f"{side['none'] / side[way]:.2f}" for way in ways)]
        yield [each.model, each.graph, *cells, f"{each.saved:.2f}"]
    for model in dict.fromkeys(each.model for each in found):
        sides = [[each.forward, each.step] for each in found if each.model == model]
        cells = []
        for k in range(2):
            means = (statistics.geometric_mean(of[k]["none"] / of[k][way] for of in sides) for way in ways)
            cells += ["", *(f"{mean:.2f}" for mean in means)]
        yield [model, "geometric mean", *cells, ""]


@dataclass(frozen=True)
class LayerParts:
    """The seconds of a layer's typed products and traversals, of so many each, and of its program by itself."""

    model: str
    graph: str
    way: str
    products: float
    product_count: int
    traversals: float
    traversal_count: int
    whole: float


def measured_parts(model: str, name: str, graph: graphs.Graph, way: str, threads: int, turns: Turns) -> LayerParts:
    """The parts of a result."""
    own = layer(model, **WAYS[way]).on(graph, threads=threads, fast=FAST)
    taken_by = LayerArguments(model, own.layer.trace, own.layer.dtype, graph, graph.order, graph.nodes)
    given = taken_by.of_model(arguments(model, graph))
    algorithm = own.layer.function.algorithm
    kinds = {each: is_typed_product(own.layer.function, c) for each, c in algorithm.computations.items()}
    runs: dict[str, Any] = {}
    for at, value in enumerate(kinds):
        ended = tm.Function.of(algorithm.with_outputs(_ends(algorithm, [*kinds][: at + 1])))
        program = LayerProgram(ended, graph, own.machine)
        taken = {each: array for each, array in given.items() if each in ended.algorithm.inputs}
        runs[value] = lambda program=program, taken=taken: program(taken)
    runs["whole"] = lambda: own.forward(given)
    for run in runs.values():
        run()
    times = turns.least(runs)
    parts, before = {True: 0.0, False: 0.0}, 0.0
    for value, is_product in kinds.items():
        parts[is_product] += max(times[value] - before, 0.0)
        before = max(times[value], before)
    count = sum(kinds.values())
    return LayerParts(model, name, way, parts[True], count, parts[False], len(kinds) - count, times["whole"])


def _ends(algorithm: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The values of some that none of these reads."""
    read = {access.source for name in names for access in queries.accesses(algorithm.computations[name].expr)}
    return tuple(name for name in names if name not in read)


def table_of_parts(found: Sequence[LayerParts]) -> str:
    """A row for each layer, graph and way."""
    heads = ["layer", "graph", "rewrites", "products", "ms", "traversals", "ms", "of products", "whole"]
    rows = [
        [
            each.model,
            each.graph,
            each.way,
            str(each.product_count),
            milliseconds(each.products),
            str(each.traversal_count),
            milliseconds(each.traversals),
            f"{each.products / (each.products + each.traversals):.2f}",
            milliseconds(each.whole),
        ]
        for each in found
    ]
    return table(heads, rows)


@dataclass(frozen=True)
class WidthTimes:
    """The least seconds of a layer's result and step by its width."""

    model: str
    graph: str
    forward: Mapping[int, float]
    step: Mapping[int, float]


def measured_widths(model: str, name: str, graph: graphs.Graph, threads: int, turns: Turns) -> WidthTimes:
    """A layer without rewrites, in all widths."""
    forward, step = dict[str, Any](), dict[str, Any]()
    for width in WIDTHS:
        run, given = layer(model, width, **PLAIN).on(graph, threads=threads, fast=FAST), arguments(model, graph, width)
        out = run(**given)
        run.gradients(out, **given)
        forward[str(width)] = lambda run=run, given=given: run(**given)
        step[str(width)] = lambda run=run, given=given, out=out: run.gradients(out, **given)
    sides = [turns.least(each) for each in (forward, step)]
    return WidthTimes(model, name, *({int(width): time for width, time in side.items()} for side in sides))


def table_of_widths(found: Sequence[WidthTimes]) -> str:
    """A row for each layer and graph."""
    words = ["", ", step"]
    heads = ["layer", "graph", *(f"{width}{word}" for word in words for width in WIDTHS)]
    heads += [f"{two} / {one}{word}" for word in words for one, two in pairwise(WIDTHS)]
    rows = []
    for each in found:
        sides = (each.forward, each.step)
        times = [milliseconds(side[width]) for side in sides for width in WIDTHS]
        ratios = [f"{side[b] / side[a]:.2f}" for side in sides for a, b in pairwise(WIDTHS)]
        rows.append([each.model, each.graph, *times, *ratios])
    return table(heads, rows)
