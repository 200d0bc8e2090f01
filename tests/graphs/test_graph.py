"""Graphs: sorted once, kept from changes, made from other libraries' objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tiramisu_py import graphs


def edges_of(graph: graphs.Graph) -> set[tuple[int, ...]]:
    return set(zip(*(graph.array(name).tolist() for name in ("src", "dst", "etype")), strict=True))


def test_edges_are_sorted_by_type_and_end_and_nobody_can_change_them() -> None:
    draw = np.random.default_rng(0)
    src, dst, etype = draw.integers(0, 9, 50), draw.integers(0, 9, 50), draw.integers(0, 4, 50)
    graph = graphs.Graph(src, dst, etype=etype, nodes=12)
    kinds, ends = graph.array("etype"), graph.array("dst")
    assert all(
        a <= b
        for a, b in zip(list(zip(kinds, ends, strict=True)), list(zip(kinds, ends, strict=True))[1:], strict=False)
    )
    np.testing.assert_array_equal(src[graph.order], graph.array("src"))
    with pytest.raises(ValueError, match="read-only"):
        graph.array("src")[0] = 1
    src[:] = 0
    assert graph.array("src").any()
    assert repr(graph) == "<graph of 12 nodes and 50 edges, 4 types of edges>"


def test_what_programs_need_is_made_once() -> None:
    graph = graphs.Graph([0, 1, 1], [1, 1, 0], etype=[0, 1, 1])
    assert graph.distinct("src", "etype") is graph.distinct("src", "etype")
    assert graph.inverse("dst") is graph.inverse("dst")
    pairs = graph.distinct("src", "etype")
    assert len(pairs) == 2
    np.testing.assert_array_equal(pairs.columns[0][pairs.of], graph.array("src"))


def test_graphs_of_other_libraries() -> None:
    first = sparse.csr_matrix(np.array([[0, 1, 0], [0, 0, 2], [3, 0, 0]]))
    second = sparse.coo_matrix(np.array([[1, 0, 0], [0, 0, 0], [0, 0, 0]]))
    wanted = {(1, 0, 0), (2, 1, 0), (0, 2, 0), (0, 0, 1)}
    assert edges_of(graphs.Graph.from_scipy([first, second])) == wanted
    src, dst, etype = (np.array(each) for each in zip(*sorted(wanted), strict=True))
    data = SimpleNamespace(edge_index=np.stack([src, dst]), edge_type=etype, num_nodes=4)
    made = graphs.Graph.from_pyg(data)
    assert edges_of(made) == wanted and made.nodes == 4
    held: Any = SimpleNamespace(
        edges=lambda: (src, dst), edata={"_TYPE": etype}, ndata={"_TYPE": np.array([0, 1, 0])}, num_nodes=lambda: 3
    )
    made = graphs.Graph.from_dgl(held)
    assert edges_of(made) == wanted and made.ntypes == 2
