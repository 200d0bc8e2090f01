"""Sums over the edges of nodes: by edges on one graph, by nodes on another, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py import graphs
from tiramisu_py.graphs.sums_of_nodes import SumOfNodes


def scaled(g: Any) -> str:
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e.a * e.src.x
    return "out"


def layer(width: Any, **options: Any) -> graphs.Layer:
    return graphs.layer(scaled, node={"x": width}, edge={"a": ()}, **options)


DRAW = np.random.default_rng(0)
#: A few edges for each node, and all edges at one node.
FEW = graphs.Graph(DRAW.integers(0, 300, 300), DRAW.integers(0, 200, 300), nodes=300)
HUB = graphs.Graph(DRAW.integers(0, 30, 900), np.zeros(900, np.int32), nodes=30)


def test_counted_steps_choose_edges_for_nodes_with_few_edges_and_nodes_for_others() -> None:
    few, hub = (layer(()).explain(graph, threads=1).splitlines() for graph in (FEW, HUB))
    assert few[2] == hub[2] == "sums over the edges of nodes, by counted steps:"
    # By nodes 5 for each of 300, 1 + 2.5 / 16 for each edge; by edges 1 + 4.5 / 16, and 2 / 16 for each of 300 zeros.
    assert few[3].startswith("  out by edges: 422 steps, by nodes 1847 (300 edges, 300 places by dst, at most ")
    # All wait for the sum before: 2.2 for each of 900 edges.
    assert hub[3].startswith("  out by nodes: 1191 steps, by edges 1984 (900 edges, 30 places by dst, at most 900 ")
    assert "  out by edges" in few and "  out: traversal, loops over p, n" in few
    assert "  out.gather(into_dst)" in hub and any("loops over n, p_in" in line for line in hub)
    assert "  out by nodes: " in layer(64).explain(FEW, threads=1), "wide rows are added in registers"
    many = layer(()).explain(FEW, threads=8).splitlines()
    assert many[3].startswith("  out by nodes: 231 steps of 8 threads, by edges 422"), "threads share nodes"


@pytest.mark.parametrize("graph", [FEW, HUB], ids=["few", "hub"])
def test_both_ways_have_the_same_bits(graph: graphs.Graph) -> None:
    x = DRAW.standard_normal((graph.nodes, 5), np.float32)
    a = DRAW.standard_normal(graph.edges).astype(np.float32)
    found = {}
    for sums in ("edges", "nodes", "count"):
        run = layer(5, sums=sums).on(graph, threads=2)
        assert run.forward.f.check().bits == "bits preserved"
        assert (run.forward.scatters == ["out"]) == (bool(run.forward.by_edges)), run.forward.scatters
        found[sums] = run(x=x, a=a), run.gradients(np.ones_like(x), x=x, a=a)
    wanted = np.zeros_like(x)
    np.add.at(wanted, graph.array("dst"), (a[graph.order][:, None] * x[graph.array("src")]))
    np.testing.assert_array_equal(found["edges"][0], wanted)
    for out, gradients in found.values():
        np.testing.assert_array_equal(out, wanted)
        for name, each in gradients.items():
            np.testing.assert_array_equal(each, found["nodes"][1][name])


def test_a_scatter_goes_through_its_edges_once() -> None:
    """No loop over all places tests each edge: the loop over edges is the only one, and is outside."""
    run = layer(4, sums="edges").on(FEW, threads=2)
    update = run.forward.f.show("pseudocode").partition("for p in 0 .. E:")[2]
    assert "out[n, i] = out[n, i] + " in update and "for n" not in update, update


def test_kernels_of_a_gpu_go_by_nodes() -> None:
    assert not layer((), sums="count").on(FEW, device="simulator").forward.by_edges


def test_what_sums_go_by_is_one_of_three() -> None:
    with pytest.raises(tm.DeclarationError, match="sums='node': give 'edges' or 'nodes', by which all sums go, or"):
        layer((), sums="node")


def test_steps_by_hand() -> None:
    one = SumOfNodes("s", "dst", edges=100, places=10, longest=40, lines=4.0, threads=2)
    assert one.by_nodes == max((10 * 5 + 100 * 11) / 2, 40 * 11) == 575
    assert one.by_edges == 100 * 19 + 10 * 8 == 1980 and not one.goes_by_edges
