"""Typed products by the index of each edge and by the runs of types, and which of both counted steps take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.tables import milliseconds, table
from benchmarks.graphs.layers import WIDE
from benchmarks.graphs.shapes import SHAPES, Shape, whole_graph
from benchmarks.graphs.turns import Turns
from tiramisu_py import graphs
from tiramisu_py.graphs.runs_of_types import ProductOfTypes, products_on

#: Two graphs of the thesis, and three whose types have fewer and fewer edges.
RUN_SHAPES = (
    SHAPES[0],
    SHAPES[3],
    Shape("16 of a type", 10_000, 80_000, 5_000, 1),
    Shape("6 of a type", 10_000, 60_000, 10_000, 1),
    Shape("2 of a type", 10_000, 20_000, 10_000, 1),
)
RULES_OF_RUNS = """\
Products of the row of each edge's source with the matrix of its type, 64 wide, float32, and a `relu` of them: by the
index of each edge (COO), and with a loop over the run of each type (CSR). Steps are those that `layer.explain(graph)`
counts, in millions; runs are taken where they save a tenth. Both ways have the same bits."""


@dataclass(frozen=True)
class RunTimes:
    """The seconds of one product both ways, and what is counted of it."""

    name: str
    index: float
    runs: float
    counted: ProductOfTypes


def messages(g: Any, W: Any) -> str:
    for e in g.edges():
        e["message"] = graphs.linear(e.src.feature, W[e.etype])
        e["out"] = graphs.relu(e["message"])
    return "out"


def measured_runs(threads: int, turns: Turns) -> list[RunTimes]:
    """All graphs."""
    return [_measured(shape, threads, turns) for shape in RUN_SHAPES]


def _measured(shape: Shape, threads: int, turns: Turns) -> RunTimes:
    graph, draw = whole_graph(shape), np.random.default_rng(0)
    weights: dict[str, Any] = {"W": ("etype", WIDE, WIDE)}
    given = {
        "feature": draw.standard_normal((graph.nodes, WIDE), np.float32),
        "W": draw.standard_normal((graph.etypes, WIDE, WIDE), np.float32),
    }
    made = {
        way: graphs.layer(messages, node={"feature": WIDE}, weights=weights, compact=False, runs=way)
        for way in (False, True)
    }
    ways = {str(way): each.on(graph, threads=threads, fast=("contract",)).forward for way, each in made.items()}
    runs: dict[str, Any] = {way: lambda program=program: program(given)[0] for way, program in ways.items()}
    np.testing.assert_array_equal(runs["True"](), runs["False"]())
    found = turns.least(runs)
    (counted,) = products_on(made[False].function, graph)
    return RunTimes(shape.name, found["False"], found["True"], counted)


def rows_of_runs(found: Sequence[RunTimes]) -> Iterator[list[str]]:
    """A row for each graph."""
    for each in found:
        own = each.counted
        steps = [f"{count / 1e6:.0f}" for count in (own.by_index, own.by_runs)]
        taken = "runs" if own.goes_by_runs else "index"
        about = [str(own.positions), str(own.types), f"{own.whole / own.positions:.2f}"]
        times = [milliseconds(each.index), milliseconds(each.runs)]
        yield [each.name, *about, *times, *steps, taken, f"{each.runs / each.index:.2f}"]


def table_of_runs(found: Sequence[RunTimes]) -> str:
    """The table of products both ways."""
    heads = ["graph", "edges", "types", "in whole tiles", "by index", "by runs", "steps, index", "steps, runs"]
    return table([*heads, "taken", "runs / index"], list(rows_of_runs(found)))
