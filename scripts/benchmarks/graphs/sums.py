"""Sums over the edges of nodes by edges and by nodes, and which of both counted steps take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.tables import milliseconds, table
from benchmarks.graphs.turns import Turns
from tiramisu_py import graphs
from tiramisu_py.graphs.sums_of_nodes import SumOfNodes, sums_on

#: How many numbers a row has.
WIDTHS = (1, 4, 16, 64)
#: Few edges for each node; nine of ten edges at one node; and as many as fb15k has.
NODES_AND_EDGES = {"few edges": (200_000, 300_000), "a hub": (15_000, 300_000), "fb15k": (14_541, 620_232)}
RULES_OF_SUMS = """\
Sums of values of edges at the nodes where these end, as layers have them, float32: by edges, in order and on one
thread, and by nodes, which threads share. Steps are those that `layer.explain(graph)` counts, in thousands; edges are
taken where they save a tenth of them. "few edges" has 1.5 edges for each of 200,000 nodes, "a hub" nine tenths of
300,000 edges at one of 15,000 nodes, in two types, "fb15k" its numbers of nodes, edges and types. Both ways have the
same bits. What steps are was fitted to such times: the loop of a node begins in 5, a line of a row is read in 2.5, and
loaded and stored in 2, and a sum waits 2.2 for the one before at its node."""


@dataclass(frozen=True)
class SumTimes:
    """The seconds of one sum both ways, and what is counted of it."""

    name: str
    width: int
    edges: float
    nodes: float
    counted: SumOfNodes


def measured_sums(threads: int, turns: Turns) -> list[SumTimes]:
    """All graphs and widths."""
    return [_measured(name, width, threads, turns) for name in NODES_AND_EDGES for width in WIDTHS]


def summed_edges(g: Any) -> str:
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e.a
    return "out"


def _measured(name: str, width: int, threads: int, turns: Turns) -> SumTimes:
    nodes, edges = NODES_AND_EDGES[name]
    draw = np.random.default_rng(0)
    types = 474 if name == "fb15k" else 2
    dst = draw.integers(0, nodes, edges)
    if name == "a hub":
        dst = np.where(draw.random(edges) < 0.9, 7, dst)
    graph = graphs.Graph(dst, dst, etype=draw.integers(0, types, edges), nodes=nodes, etypes=types)
    shape: Any = () if width == 1 else width
    made = graphs.layer(summed_edges, edge={"a": shape})
    a = draw.standard_normal((edges,) if width == 1 else (edges, width), np.float32)
    ways = {
        sums: graphs.layer(summed_edges, edge={"a": shape}, sums=sums).on(graph, threads=threads)
        for sums in ("edges", "nodes")
    }
    found = {sums: run.forward({"a": a})[0] for sums, run in ways.items()}
    np.testing.assert_array_equal(found["edges"], found["nodes"])
    runs: dict[str, Any] = {sums: lambda run=run: run.forward({"a": a}) for sums, run in ways.items()}
    least = turns.least(runs)
    (counted,) = sums_on(made.function, graph, threads)
    return SumTimes(name, width, least["edges"], least["nodes"], counted)


def rows_of_sums(found: Sequence[SumTimes]) -> Iterator[list[str]]:
    """A row for each sum."""
    for each in found:
        steps = [f"{count / 1000:.0f}" for count in (each.counted.by_edges, each.counted.by_nodes)]
        taken = "edges" if each.counted.goes_by_edges else "nodes"
        times = [milliseconds(each.edges), milliseconds(each.nodes)]
        yield [each.name, str(each.width), *times, *steps, taken, f"{each.nodes / each.edges:.2f}"]


def table_of_sums(found: Sequence[SumTimes]) -> str:
    """The table of sums over edges."""
    heads = ["graph", "width", "by edges", "by nodes", "steps, edges", "steps, nodes", "taken", "nodes / edges"]
    return table(heads, list(rows_of_sums(found)))
