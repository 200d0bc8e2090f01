"""Mini-batches of graphs: which edges are drawn, how nodes are numbered, and layers beside those of whole graphs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import gat, odd_graphs, sage
from tiramisu_py import graphs


def drawn_graph(nodes: int = 40, edges: int = 300, seed: int = 0) -> graphs.Graph:
    draw = np.random.default_rng(seed)
    src, dst = draw.integers(0, nodes, edges), draw.integers(0, nodes, edges)
    return graphs.Graph(src, dst, etype=draw.integers(0, 3, edges), nodes=nodes, ntype=draw.integers(0, 2, nodes))


def ends(graph: graphs.Graph) -> tuple[Any, Any, Any]:
    """Where edges begin and end, and their types, in the order of the caller."""
    found = []
    for name in ("src", "dst", "etype"):
        array = np.empty(graph.edges, np.int64)
        array[graph.order] = graph.array(name)
        found.append(array)
    return tuple(found)  # type: ignore[return-value]


@pytest.mark.parametrize("most", [(3,), (2, 4), (None, 1, 5), (None,)])
def test_the_edges_of_a_batch_are_edges_of_the_graph_up_to_so_many_into_a_node(most: tuple[int | None, ...]) -> None:
    graph, asked = drawn_graph(), [7, 3, 21]
    src, dst, etype = ends(graph)
    degrees = np.bincount(dst, minlength=graph.nodes)
    batch = graphs.sample(graph, asked, most, seed=1)
    assert list(batch.nodes[:3]) == asked
    assert len(set(batch.nodes)) == batch.nodes.size == batch.layers[0].graph.nodes
    assert [layer.targets for layer in batch.layers] == [*(layer.graph.nodes for layer in batch.layers[1:]), 3]
    for layer, count in zip(batch.layers, most, strict=True):
        here, there, kinds = ends(layer.graph)
        assert len(set(layer.edges)) == layer.edges.size  # without replacement
        np.testing.assert_array_equal(batch.nodes[here], src[layer.edges])
        np.testing.assert_array_equal(batch.nodes[there], dst[layer.edges])
        np.testing.assert_array_equal(kinds, etype[layer.edges])
        np.testing.assert_array_equal(
            layer.graph.array("ntype"), graph.array("ntype")[batch.nodes[: layer.graph.nodes]]
        )
        own = degrees[batch.nodes[: layer.targets]]
        wanted = own if count is None else np.minimum(own, count)
        np.testing.assert_array_equal(np.bincount(there, minlength=layer.targets)[: layer.targets], wanted)
        assert there.size == wanted.sum()


def test_each_edge_has_the_same_chance() -> None:
    graph = graphs.Graph(np.arange(6), np.zeros(6, np.int64), nodes=6)
    times = Counter(int(e) for seed in range(2000) for e in graphs.sample(graph, [0], (2,), seed=seed).layers[0].edges)
    assert sum(times.values()) == 4000
    assert all(abs(times[e] - 4000 / 6) < 5 * (2000 * (1 / 3) * (2 / 3)) ** 0.5 for e in range(6)), times


def test_a_seed_draws_the_same_edges_again() -> None:
    graph = drawn_graph()
    one, other, third = (graphs.sample(graph, [1, 2], (3, 3), seed=seed).layers[0].edges for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)


def test_odd_graphs_have_batches() -> None:
    for name, edges in odd_graphs().items():
        graph = graphs.Graph(edges.src, edges.dst, etype=edges.etype, ntype=edges.ntype, etypes=3, ntypes=2)
        batch = graphs.sample(graph, [0], (2, 2), seed=0)
        assert batch.nodes[0] == 0 and len(batch.layers) == 2, name


@pytest.mark.parametrize(("model", "weights"), [
    (sage, {"W": (5, 4), "W_self": (5, 4)}), (gat, {"W": (1, 5, 4), "a_src": (1, 4), "a_dst": (1, 4)})
])  # fmt: skip
def test_a_layer_of_a_batch_with_all_edges_is_that_of_the_graph(model: Any, weights: dict[str, Any]) -> None:
    graph, draw = drawn_graph(), np.random.default_rng(3)
    layer = graphs.layer(model, node={"feature": 5}, weights=weights, dtype=tm.float64)
    run = layer.on(graph)
    given = {name: draw.standard_normal(shape) for name, shape in weights.items()}
    feature = draw.standard_normal((graph.nodes, 5))
    whole, asked = run(feature=feature, **given), [4, 0, 9]
    for nodes in (asked, [1, 39]):
        batch = graphs.sample(graph, nodes, (None,))
        part = run.on(batch.layers[0].graph)
        assert part.forward.kernel is run.forward.kernel
        found = part(feature=feature[batch.nodes], **given)[: len(nodes)]
        np.testing.assert_allclose(found, whole[nodes], rtol=1e-12)
    weigh = np.zeros_like(whole)
    weigh[[1, 39]] = 1
    right = run.gradients(weigh, feature=feature, **given)
    found = part.gradients(weigh[batch.nodes], feature=feature[batch.nodes], **given)
    for name in given:
        np.testing.assert_allclose(found[name], right[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("nodes", "most", "words"),
    [
        ([], (1,), "at least one"),
        ([40], (1,), "nodes[0] = 40, and the graph has 40 nodes"),
        ([1, 2, 1], (1,), "node 1 is asked for twice"),
        ([1], (), "give the most edges into a node for each layer"),
        ([1], (0,), "give the most edges into a node for each layer"),
        ([1], (3, -1), "None stands for all edges"),
        ([1.5], (3,), "are integers in one dimension"),
    ],
)
def test_what_is_no_batch_is_refused(nodes: Any, most: Any, words: str) -> None:
    with pytest.raises(tm.ArgumentError) as refused:
        graphs.sample(drawn_graph(), nodes, most)
    assert words in str(refused.value)


def test_a_batch_is_drawn_from_a_graph() -> None:
    with pytest.raises(tm.ArgumentError, match=r"draws from a graph: give graphs.Graph"):
        graphs.sample("graph", [0], (1,))  # type: ignore[arg-type]
