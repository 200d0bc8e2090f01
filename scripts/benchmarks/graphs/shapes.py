"""Graphs of the sizes of Hector's table 3.3, with types of skewed sizes: made, since the data sets are not here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tiramisu_py import graphs


@dataclass(frozen=True)
class Shape:
    """A graph by its numbers of nodes, edges and types of edges and of nodes.

    Where `pool` is given, the edges of a type begin at as many nodes as it has edges, times that.
    """

    name: str
    nodes: int
    edges: int
    types: int
    node_types: int
    pool: float = 0.0


#: Those that a small machine holds, with features of 64 numbers.
SHAPES = (
    Shape("aifb", 7_262, 48_810, 104, 7),
    Shape("mutag", 27_163, 148_100, 50, 5),
    Shape("bgs", 94_806, 672_884, 122, 27),
    Shape("fb15k", 14_541, 620_232, 474, 1, 0.27),
)
#: All eight of the table, from the one with the fewest edges on; the ratio of pairs is printed for two of them.
ALL_SHAPES = (
    *SHAPES[:2],
    SHAPES[3],
    SHAPES[2],
    Shape("biokg", 93_773, 4_762_678, 51, 5),
    Shape("am", 1_885_136, 5_668_682, 108, 7, 0.8),
    Shape("wikikg2", 2_500_604, 16_109_182, 535, 1),
    Shape("mag", 1_939_743, 21_111_007, 4, 4),
)


def edges(shape: Shape) -> dict[str, Any]:
    """The edges of a graph, sorted by type: where each type begins, and the sources; sizes fall as 1 / rank."""
    draw = np.random.default_rng(len(shape.name))
    weights = 1 / np.arange(1, shape.types + 1)
    types = np.sort(draw.choice(shape.types, shape.edges, p=draw.permutation(weights / weights.sum())))
    return {
        "types": np.searchsorted(types, np.arange(shape.types + 1)).astype(np.int32),
        "src": draw.integers(0, shape.nodes, shape.edges).astype(np.int32),
    }


def whole_graph(shape: Shape) -> graphs.Graph:
    """A graph with both ends of its edges: a node of rank r of n is an end with the probability of ``(r / n) ** 0.4``.

    Nodes are sorted by type, and have as many of each.
    """
    draw = np.random.default_rng(shape.edges)
    counts = np.diff(edges(shape)["types"]).astype(np.int64)
    kinds = np.repeat(np.arange(shape.types), counts)
    src, dst = (_skewed(draw, shape) for _ in range(2))
    if shape.pool:  # the printed ratio of pairs of sources and types to edges
        size = np.clip(counts * shape.pool, 1, shape.nodes)
        first = draw.integers(0, shape.nodes, shape.types)
        src = (first[kinds] + draw.random(shape.edges) * size[kinds]).astype(np.int64) % shape.nodes
    of_nodes = np.arange(shape.nodes) * shape.node_types // shape.nodes
    return graphs.Graph(
        src, dst, etype=kinds, ntype=of_nodes, nodes=shape.nodes, etypes=shape.types, ntypes=shape.node_types
    )


def _skewed(draw: Any, shape: Shape) -> Any:
    return draw.permutation(shape.nodes)[(shape.nodes * draw.random(shape.edges) ** 2.5).astype(np.int64)]
