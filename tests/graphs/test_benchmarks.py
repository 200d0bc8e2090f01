"""What the benchmarks of graphs measure is right, on graphs of a few nodes: DGL's layers, parts of programs, bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.common import tables
from benchmarks.graphs import memory, rewritten
from benchmarks.graphs.layers import arguments, layer, weights_of
from benchmarks.graphs.shapes import ALL_SHAPES, Shape, whole_graph
from benchmarks.graphs.turns import Turns
from tests.graphs.models import Edges, gat_reference, gcn_reference

SMALL = Shape("small", 12, 40, 3, 2)


def dense(name: str, graph: Edges, feature: Any, **given: Any) -> Any:
    """A convolution of DGL in NumPy."""
    if name == "GraphConv":
        return gcn_reference(graph, feature, **given)
    if name == "GATConv":
        return gat_reference(graph, feature, **given)
    mean = np.zeros_like(feature)
    np.add.at(mean, graph.dst, feature[graph.src])
    mean /= np.maximum(np.bincount(graph.dst, minlength=len(feature)), 1)[:, None]
    return mean @ given["W"] + feature @ given["W_self"]


def hgt_conv(
    graph: Edges, feature: Any, K: Any, Q: Any, V: Any, A: Any, W_att: Any, W_msg: Any, pri: Any, skip: Any
) -> Any:
    """`HGTConv`, edge by edge."""
    k, q, v = (np.einsum("nk,nkd->nd", feature, each[graph.ntype]) for each in (K, Q, V))
    raw = np.array([k[s] @ W_att[t] @ q[d] * pri[t] / 8 for s, d, t in zip(*graph[:3], strict=True)])
    found = np.zeros_like(feature)
    for node in range(len(feature)):
        into = np.flatnonzero(graph.dst == node)
        att = np.exp(raw[into]) / np.exp(raw[into]).sum()
        for edge, weight in zip(into, att, strict=True):
            found[node] += weight * (v[graph.src[edge]] @ W_msg[graph.etype[edge]])
    gate = 1 / (1 + np.exp(-skip[graph.ntype]))[:, None]
    return gate * np.einsum("nk,nkd->nd", found, A[graph.ntype]) + (1 - gate) * feature


@pytest.mark.parametrize("name", ["GraphConv", "SAGEConv", "GATConv", "HGTConv"])
def test_a_convolution_of_dgl_is_its_dense_form(name: str) -> None:
    graph = whole_graph(SMALL)
    given = arguments(name, graph)
    sorted_edges = {"norm": given["norm"][graph.order]} if "norm" in given else {}
    own = Edges(*(graph.array(each) for each in ("src", "dst", "etype", "ntype")))
    run = layer(name).on(graph)
    wanted = (hgt_conv if name == "HGTConv" else lambda *a, **b: dense(name, *a, **b))(own, **{**given, **sorted_edges})
    np.testing.assert_allclose(run(**given), wanted, rtol=2e-4, atol=2e-4)


def test_the_parts_of_a_program_are_its_values() -> None:
    own = layer("GraphConv", **rewritten.PLAIN)
    found = rewritten.measured_parts("GraphConv", "small", whole_graph(SMALL), "none", 1, Turns(1))
    assert found.product_count == 1
    assert found.product_count + found.traversal_count == len(own.function.algorithm.computations)
    assert found.whole > 0


def test_bytes_that_are_counted_are_those_of_the_arrays() -> None:
    graph, wide = whole_graph(SMALL), 64 * 4
    found = memory.counted(layer("rgcn").on(graph, threads=1))
    weights = 4 * sum(
        np.prod([{"etype": 3}.get(each, each) for each in shape]) for shape in weights_of("rgcn").values()
    )
    assert found.given == 12 * wide + 40 * 4 + weights == found.gradients
    assert found.results == 12 * wide
    assert found.call == found.results + found.gradients + found.temporaries_of_step
    assert found.temporaries_of_step >= found.temporaries > 0


def test_eight_graphs_are_those_of_the_thesis() -> None:
    assert [each.name for each in ALL_SHAPES] == ["aifb", "mutag", "fb15k", "bgs", "biokg", "am", "wikikg2", "mag"]
    assert [each.types for each in ALL_SHAPES] == [104, 50, 474, 122, 51, 108, 535, 4]
    assert sorted(each.edges for each in ALL_SHAPES) == [each.edges for each in ALL_SHAPES]


def test_a_part_of_a_page_replaces_the_one_of_its_heading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.delenv("TIRAMISU_PROCESSOR", raising=False)  # it is in the name of a page
    page = tmp_path / "some.md"
    for heading, text in (("One", "a"), ("Two", "b"), ("One", "### Inside\n\nc"), ("Three", "d")):
        tables.report_part("some", "Some", heading, text, True, "scripts/bench some")
    found = page.read_text()
    assert found.startswith("# Some\n\n## One\n\nMeasured with `scripts/bench some`, ")
    assert [line for line in found.splitlines() if line.startswith("##")] == [
        "## One",
        "### Inside",
        "## Two",
        "## Three",
    ]
    assert "\na\n" not in found and "\nc\n\n## Two\n" in found and found.endswith("\n\nd\n")
