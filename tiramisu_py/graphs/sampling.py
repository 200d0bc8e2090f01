"""Mini-batches of nodes: for each layer, some of the edges that come into the nodes it computes, drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class SampledLayer:
    """The part of a graph that one layer of a mini-batch computes.

    The nodes of `graph` are the first ones of the sample's, and its first `targets` nodes those that the layer
    computes: only into these are there edges. `edges` are the positions of its edges among those of the whole graph, in
    the order of the caller's edges.
    """

    graph: Graph
    targets: int
    edges: Array


@dataclass(frozen=True, eq=False)
class Sample:
    """A mini-batch: `nodes`, whose features it needs, the nodes asked for first, and its `layers`, first one first."""

    nodes: Array
    layers: tuple[SampledLayer, ...]


def sample(graph: Graph, nodes: npt.ArrayLike, most: Sequence[int | None], *, seed: int | None = None) -> Sample:
    """A mini-batch of a graph: the `nodes` that are asked for, and for each layer `most` edges into each of its nodes.

    ::

        batch = graphs.sample(graph, [3, 17], (10, 5), seed=0)
        h = features[batch.nodes]
        for layer, weights in zip(batch.layers, all_weights):
            h = model(layer.graph, h, weights)[: layer.targets]     # h is of nodes 3 and 17 in the end

    The first layer has up to ``most[0]`` edges into each node, the last one ``most[-1]``; None stands for all. Edges
    are drawn without replacement, each with the same chance, as GraphSAGE and DGL draw them; a `seed` draws the same
    ones again. Nodes have numbers of their own in the batch: those that a layer computes come first, what they read
    follows in the order of the graph's numbers. Raises `ArgumentError`.
    """
    asked = _asked(graph, nodes)
    _check_most(most)
    draw = np.random.default_rng(seed)
    start, order = graph.inverse("dst")
    known, layers = asked, list[SampledLayer]()
    for count in reversed(most):
        positions, owners = _drawn(start, known, count, draw)
        edges = order[positions]
        positions_given = graph.order[edges]
        by_given = np.argsort(positions_given, kind="stable")
        edges, owners = edges[by_given], owners[by_given]
        sources = graph.array("src")[edges]
        targets, known = known.size, np.concatenate([known, np.setdiff1d(sources, known)])
        layers.append(SampledLayer(_local(graph, known, sources, owners, edges), targets, positions_given[by_given]))
    return Sample(known, tuple(reversed(layers)))


def _asked(graph: Graph, nodes: npt.ArrayLike) -> Array:
    """The nodes that are asked for, checked."""
    if not isinstance(graph, Graph):
        raise ArgumentError(f"graphs.sample draws from a graph: give graphs.Graph(src, dst, ..), not {graph!r:.60}")
    found = np.asarray(nodes)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise ArgumentError(f"nodes= of graphs.sample are integers in one dimension, at least one, not {nodes!r:.60}")
    wrong = np.flatnonzero((found < 0) | (found >= graph.nodes))
    if wrong.size:
        at = int(wrong[0])
        raise ArgumentError(f"nodes[{at}] = {found[at]}, and the graph has {graph.nodes} nodes, counted from 0")
    if np.unique(found).size != found.size:
        first = next(int(node) for node, times in zip(*np.unique(found, return_counts=True), strict=True) if times > 1)
        raise ArgumentError(f"node {first} is asked for twice: each node has one place in a batch")
    return found.astype(np.int64)


def _check_most(most: Sequence[int | None]) -> None:
    listed = list(most) if isinstance(most, list | tuple) else []
    if not listed or any(isinstance(n, bool) or not isinstance(n, int | np.integer | None) or n == 0 for n in listed):
        raise ArgumentError(f"most={most!r}: give the most edges into a node for each layer, as (10, 5); None for all")
    if any(n is not None and n < 0 for n in listed):
        raise ArgumentError(f"most={most!r} has a negative number: None stands for all edges")


def _drawn(start: Array, nodes: Array, most: int | None, draw: np.random.Generator) -> tuple[Array, Array]:
    """Positions in the runs of nodes, up to `most` of each, and the number in `nodes` of the node of each."""
    first, degrees = start[nodes].astype(np.int64), (start[nodes + 1] - start[nodes]).astype(np.int64)
    owners = np.repeat(np.arange(nodes.size), degrees)
    before = np.cumsum(degrees) - degrees
    inside = np.arange(owners.size) - before[owners]
    if most is not None:
        shuffled = np.lexsort((draw.random(owners.size), owners))
        chosen = np.sort(shuffled[inside < most])
        owners, inside = owners[chosen], inside[chosen]
    return first[owners] + inside, owners


def _local(graph: Graph, known: Array, sources: Array, owners: Array, edges: Array) -> Graph:
    """The graph of a layer, with numbers of its own."""
    by_node = np.argsort(known, kind="stable")
    local = by_node[np.searchsorted(known, sources, sorter=by_node)]
    kinds: dict[str, Any] = {"etype": graph.array("etype")[edges], "etypes": graph.etypes} if graph.has_types else {}
    if graph.has_ntypes:
        kinds |= {"ntype": graph.array("ntype")[known], "ntypes": graph.ntypes}
    return Graph(local, owners, nodes=known.size, **kinds)
