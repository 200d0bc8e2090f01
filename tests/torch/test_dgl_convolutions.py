"""Models of DGL with their convolutions as operators: values and gradients are those of stand-ins for DGL's."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import Edges, odd_graphs
from tests.torch import dgl_stand_in as dgl
from tiramisu_py import graphs

torch = dgl.torch
F, G, R, T = 6, 4, 3, 2
GRAPHS = odd_graphs()

CONVOLUTIONS = {
    "rgcn": lambda: dgl.RelGraphConv(F, G, R),
    "rgcn of bases": lambda: dgl.RelGraphConv(F, G, R, "basis", 2, layer_norm=True),
    "rgcn of blocks": lambda: dgl.RelGraphConv(F, G, R, "bdd", 2, bias=False, self_loop=False),
    "gcn": lambda: dgl.GraphConv(F, G),
    "gcn, wider": lambda: dgl.GraphConv(F, 8, norm="right"),
    "gcn by sources": lambda: dgl.GraphConv(F, F, norm="left", weight=False),
    "gcn, a plain sum": lambda: dgl.GraphConv(F, G, norm="none"),
    "sage": lambda: dgl.SAGEConv(F, G, "mean"),
    "sage, wider": lambda: dgl.SAGEConv(F, 8, "mean"),
    "sage like gcn": lambda: dgl.SAGEConv(F, 8, "gcn"),
    "gat": lambda: dgl.GATConv(F, G, 3),
    "gat, residual": lambda: dgl.GATConv(F, G, 2, residual=True),
    "hgt": lambda: dgl.HGTConv(F, 3, 2, T, R),
    "hgt, wider": lambda: dgl.HGTConv(F, 4, 2, T, R, use_norm=True),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _double() -> Any:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def given(name: str, edges: Edges, weighted: bool = False) -> tuple[list[Any], dict[str, Any]]:
    """A graph, features, types, and weights of edges, if the convolution has them."""
    src, dst, etype, ntype = (torch.from_numpy(np.asarray(each, np.int64)) for each in (
        edges.src, edges.dst, edges.etype, edges.ntype))  # fmt: skip
    types = [etype] if name.startswith("rgcn") else [ntype % T, etype] if name.startswith("hgt") else []
    word = {"rgcn": "norm", "gcn": "edge_weight", "sage": "edge_weight"}.get(name.partition(",")[0].split()[0])
    norms = {word: torch.rand(len(src), 1)} if weighted and word else {}
    return [dgl.DGLGraph(src, dst, len(ntype)), torch.randn(len(ntype), F), *types], norms


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("kind", ["a hub", "no edges"])
def test_values_and_gradients_are_those_of_dgl(name: str, kind: str, weighted: bool) -> None:
    own = CONVOLUTIONS[name]()
    ours = graphs.compile(copy.deepcopy(own))
    (g, x, *types), norms = given(name, GRAPHS[kind], weighted)
    found = []
    for conv in (own, ours):
        rows, of_edges = x.clone().requires_grad_(), {n: each.clone().requires_grad_() for n, each in norms.items()}
        out = conv(g, rows, *types, **of_edges)
        (out * torch.linspace(0.5, 1.5, out.numel()).view(out.shape)).sum().backward()
        found.append([out, rows.grad, *(each.grad for each in of_edges.values()), *(p.grad for p in conv.parameters())])
    for wanted, got in zip(*found, strict=True):
        if wanted is None or got is None:
            assert (wanted is None or not wanted.any()) and (got is None or not got.any())
        else:
            np.testing.assert_allclose(got.detach(), wanted.detach(), rtol=1e-10, atol=1e-12)
    assert graphs.replaced(ours) == {"": "one operator"}
    assert ours.state_dict().keys() == own.state_dict().keys()


def test_calls_that_are_not_known_stay_those_of_dgl() -> None:
    (g, x), _ = given("gcn", GRAPHS["a hub"])
    for made, named, why in (
        (dgl.GATConv(F, G, 2), {"get_attention": True}, "edge_weight= or get_attention= is given"),
        (dgl.GraphConv(F, G, allow=False), {}, "a node has no edge that comes in"),
        (dgl.SAGEConv(F, G, "pool"), None, "aggregator_type='pool'"),
    ):
        conv = graphs.compile(made)
        if named is not None:
            conv(g, x, **named)
            assert graphs.replaced(conv) == {"": f"DGL's own, {why}"}
    block = copy.copy(g)
    block.is_block = True
    conv = graphs.compile(dgl.GATConv(F, G, 2))
    conv(block, x)
    assert graphs.replaced(conv) == {"": "DGL's own, its graph is a block, or has several kinds of nodes"}


def test_arguments_that_dgl_refuses_are_left_to_it() -> None:
    (g, x, etype), _ = given("rgcn", GRAPHS["a hub"])
    conv = graphs.compile(dgl.RelGraphConv(F, G, R))
    with pytest.raises(IndexError):  # of indexing with numbers that are none
        conv(g, x, etype.double())
    with pytest.raises(RuntimeError):  # as many rows as nodes are added to more
        conv(g, torch.cat([x, x]), etype)
    assert graphs.replaced(conv) == {"": "DGL's own, its features are not one row for each node"}


def test_a_model_without_convolutions_names_those_of_both_libraries() -> None:
    with pytest.raises(tm.ArgumentError, match=r"FastRGCNConv, GATConv, .*; of DGL GATConv, GraphConv, HGTConv"):
        graphs.compile(torch.nn.Linear(2, 2))
