"""Models of PyTorch Geometric with their convolutions as operators: values and gradients are those of PyG's own."""

from __future__ import annotations

import copy
import io
import re
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import Edges, odd_graphs
from tiramisu_py import graphs

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")
pyg = pytest.importorskip(
    "torch_geometric.nn", reason="PyTorch Geometric is not installed: pip install torch_geometric"
)

F, G, R = 6, 4, 3
GRAPHS = odd_graphs()
METADATA = (["a", "b"], [("a", "to", "a"), ("a", "to", "b"), ("b", "to", "a"), ("b", "of", "b")])

CONVOLUTIONS = {
    "gcn": lambda: pyg.GCNConv(F, G),
    "gcn, improved": lambda: pyg.GCNConv(F, G, improved=True),
    "gcn without loops": lambda: pyg.GCNConv(F, G, add_self_loops=False, bias=False),
    "gcn, a plain sum": lambda: pyg.GCNConv(F, G, normalize=False),
    "sage": lambda: pyg.SAGEConv(F, G),
    "sage, projected": lambda: pyg.SAGEConv(F, G, aggr="sum", project=True, normalize=True, root_weight=False),
    "gat, one head": lambda: pyg.GATConv(F, G),
    "gat, four heads": lambda: pyg.GATConv(F, G, heads=4, concat=False, residual=True),
    "gat without loops": lambda: pyg.GATConv(F, G, heads=2, add_self_loops=False, negative_slope=0.1),
    "gat, the other way": lambda: pyg.GATConv(F, G, heads=3, flow="target_to_source"),
    "rgcn": lambda: pyg.RGCNConv(F, G, R),
    "rgcn, fast": lambda: pyg.FastRGCNConv(F, G, R),
    "rgcn of bases": lambda: pyg.RGCNConv(F, G, R, num_bases=2, aggr="add"),
    "rgcn of blocks": lambda: pyg.RGCNConv(F, G, R, num_blocks=2, root_weight=False, flow="target_to_source"),
    "rgat, one head": lambda: pyg.RGATConv(F, G, R),
    "rgat, four heads": lambda: pyg.RGATConv(F, G, R, heads=4, concat=False),
    "rgat of bases": lambda: pyg.RGATConv(F, G, R, heads=2, num_bases=2),
    "rgat, multiplied": lambda: pyg.RGATConv(F, G, R, heads=2, attention_mode="multiplicative-self-attention"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _double() -> Any:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def given(name: str, edges: Edges) -> tuple[Any, ...]:
    """Features, edges, and types if the convolution has them."""
    index = torch.from_numpy(np.stack([edges.src, edges.dst]).astype(np.int64))
    types = (torch.from_numpy(edges.etype.astype(np.int64)),) if name.startswith("rg") else ()
    return torch.randn(len(edges.ntype), F), index, *types


def leaves(values: Any) -> list[Any]:
    flat = [v for each in values for v in (each.values() if isinstance(each, dict) else [each])]
    return [each for each in flat if torch.is_tensor(each) and each.is_floating_point()]


def compare(conv: Any, *arguments: Any) -> None:
    """Values, gradients by features and by weights, and values without gradients, of both."""
    with torch.no_grad():
        for each in conv.parameters():
            each.copy_(torch.randn_like(each) / 2)
    ours = graphs.compile(copy.deepcopy(conv))
    both = [copy.deepcopy(arguments) for _ in range(2)]
    for each in (*leaves(both[0]), *leaves(both[1])):
        each.requires_grad_()
    results = [leaves([each(*values)]) for each, values in zip((ours, conv), both, strict=True)]
    assert set(graphs.replaced(ours).values()) == {"one operator"}
    factors = [torch.randn_like(each) for each in results[1]]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    for found in results:
        sum((each * factor).sum() for each, factor in zip(found, factors, strict=True)).backward()
    pairs = [*zip(leaves(both[0]), leaves(both[1]), strict=True)]
    pairs += [*zip(ours.parameters(), conv.parameters(), strict=True)]
    for one, other in pairs:
        zero = torch.zeros_like(one)
        torch.testing.assert_close(*(zero if each.grad is None else each.grad for each in (one, other)))
    with torch.no_grad():
        for one, other in zip(leaves([ours(*both[0])]), results[1], strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_that_of_pyg(name: str, kind: str) -> None:
    compare(CONVOLUTIONS[name](), *given(name, GRAPHS[kind]))


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("many", [0, 30])
def test_a_transformer_is_that_of_pyg(many: int, heads: int) -> None:
    count = {"a": 6, "b": 5}
    x = {name: torch.randn(n, F if name == "a" else G) for name, n in count.items()}
    index = {
        key: torch.stack([torch.randint(0, count[key[0]], (many,)), torch.randint(0, count[key[-1]], (many,))])
        for key in METADATA[1][:3]
    }
    compare(pyg.HGTConv({"a": F, "b": G}, G, METADATA, heads=heads), x, index)


def test_types_of_nodes_come_in_any_order() -> None:
    count = {"other": 4, "b": 5, "a": 6}
    x = {name: torch.randn(n, F if name == "a" else G) for name, n in count.items()}
    index = {
        key: torch.stack([torch.randint(0, count[key[0]], (12,)), torch.randint(0, count[key[-1]], (12,))])
        for key in METADATA[1]
    }
    conv = pyg.HGTConv({"a": F, "b": G}, G, METADATA, heads=2)
    compare(conv, x, index)
    index, ours = dict(reversed(index.items())), graphs.compile(copy.deepcopy(conv))
    assert list(ours(x, index)) == ["a", "b"]
    assert graphs.replaced(ours) == {"": "PyG's own, its types of edges come in another order than its own"}


def test_weights_of_edges_have_gradients() -> None:
    edges = GRAPHS["a hub"]
    for options in ({}, {"normalize": False}, {"improved": True}):
        compare(pyg.GCNConv(F, G, **options), *given("gcn", edges), torch.rand(len(edges.src)) + 0.1)


def test_large_scores_do_not_overflow() -> None:
    conv, (x, index) = pyg.GATConv(F, G, heads=2), given("gat", GRAPHS["a hub"])
    wanted = conv(1000 * x, index)
    found = graphs.compile(copy.deepcopy(conv))(1000 * x, index)
    assert wanted.isfinite().all()
    torch.testing.assert_close(found, wanted)


def test_edges_that_change_are_another_graph() -> None:
    conv, (x, index) = pyg.SAGEConv(F, G), given("sage", GRAPHS["a hub"])
    ours = graphs.compile(copy.deepcopy(conv))
    torch.testing.assert_close(ours(x, index), conv(x, index))
    index[1] = index[1].roll(1)
    torch.testing.assert_close(ours(x, index), conv(x, index))
    index[0, 3] = 9
    with pytest.raises(tm.ArgumentError, match=r"src\[3\] = 9, and there are 9 nodes: it is less than that"):
        ours(x, index)


def test_edges_that_change_through_numpy_are_another_graph() -> None:
    conv, (x, index) = pyg.SAGEConv(F, G), given("sage", GRAPHS["a hub"])
    ours = graphs.compile(copy.deepcopy(conv))
    torch.testing.assert_close(ours(x, index), conv(x, index))
    before, held = index._version, index.numpy()
    held[1] = np.roll(held[1], 1)
    assert index._version == before
    torch.testing.assert_close(ours(x, index), conv(x, index))


STAYING = {
    "aggr='max'": lambda: (pyg.SAGEConv(F, G, aggr="max"), ()),
    "scores are dropped while it is trained": lambda: (pyg.GATConv(F, G, dropout=0.5), ()),
    "size= or return_attention_weights= is given": lambda: (pyg.GATConv(F, G), (None, None, True)),
    "edges have attributes": lambda: (pyg.GATConv(F, G, edge_dim=2), (torch.randn(24, 2),)),
    "its weights are of another type than its features": lambda: (pyg.GCNConv(F, G).float(), ()),
}


@pytest.mark.parametrize("reason", STAYING)
def test_what_is_not_known_stays_with_its_reason(reason: str) -> None:
    conv, more = STAYING[reason]()
    x, index = given("gcn", GRAPHS["a hub"])
    ours = graphs.compile(copy.deepcopy(conv))
    arguments = (x, index, *more)
    if "type" in reason:
        with pytest.raises(RuntimeError):
            ours(*arguments)
    else:
        torch.manual_seed(1)
        found = ours(*arguments)
        torch.manual_seed(1)
        torch.testing.assert_close(found, conv(*arguments))
    assert graphs.replaced(ours) == {"": f"PyG's own, {reason}"}


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_weights_of_edges_of_another_type_stay_pygs(normalize: bool, cached: bool) -> None:
    conv, (x, index) = pyg.GCNConv(F, G, normalize=normalize, cached=cached).float(), given("gcn", GRAPHS["a hub"])
    ours = graphs.compile(copy.deepcopy(conv))
    for dtype in (torch.float64, torch.int64):
        weights = (3 * torch.rand(index.shape[1]) + 1).to(dtype)
        try:
            wanted = conv(x.float(), index, weights)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=re.escape(str(error)[:40])):
                ours(x.float(), index, weights)
        else:
            torch.testing.assert_close(ours(x.float(), index, weights), wanted)
        assert str(graphs.replaced(ours)[""]).startswith("PyG's own, its edges' weights are torch.")
    # what is cached is what is taken, in whatever type the features come later
    weights = torch.rand(index.shape[1]).float()
    torch.testing.assert_close(ours(x.float(), index, weights), conv(x.float(), index, weights))
    kept = cached and normalize
    assert graphs.replaced(ours) == {"": "PyG's own, its edges' weights are torch.float64" if kept else "one operator"}


def test_types_that_autocast_chooses_stay_pygs() -> None:
    conv, (x, index) = pyg.GCNConv(F, G).float(), given("gcn", GRAPHS["a hub"])
    ours = graphs.compile(copy.deepcopy(conv))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(ours(x.float(), index), conv(x.float(), index))
    assert graphs.replaced(ours) == {"": "PyG's own, torch.autocast chooses its types"}
    torch.testing.assert_close(ours(x.float(), index), conv(x.float(), index))
    assert graphs.replaced(ours) == {"": "one operator"}


def test_a_forward_and_a_function_are_compiled() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = pyg.RGCNConv(F, G, R), pyg.GATConv(G, G)

        @graphs.compile
        def forward(self, x: Any, index: Any, types: Any) -> Any:
            """Two layers."""
            return self.last(self.first(x, index, types).relu(), index)

    net, arguments = Net(), given("rgcn", GRAPHS["a hub"])
    found = net(*arguments)
    assert graphs.replaced(net) == {"first": "one operator", "last": "one operator"}
    assert Net.forward.__doc__ == "Two layers."
    wanted = pyg.GATConv.forward(net.last, pyg.RGCNConv.forward(net.first, *arguments).relu(), arguments[1])
    torch.testing.assert_close(found, wanted)
    conv = pyg.GCNConv(F, G)

    @graphs.compile
    def doubled(x: Any, index: Any) -> Any:
        return 2 * conv(x, index)

    torch.testing.assert_close(doubled(*arguments[:2]), 2 * pyg.GCNConv.forward(conv, *arguments[:2]))
    assert graphs.replaced(conv) == {"": "one operator"}


def test_copies_have_their_own_weights_and_files_are_pygs() -> None:
    conv, (x, index) = graphs.compile(pyg.GCNConv(F, G)), given("gcn", GRAPHS["a hub"])
    before, other = conv(x, index), copy.deepcopy(conv)
    with torch.no_grad():
        other.lin.weight.mul_(2)
    torch.testing.assert_close(other(x, index), 2 * before)
    torch.testing.assert_close(conv(x, index), before)
    assert graphs.replaced(other) == {"": "one operator"}
    held = io.BytesIO()
    torch.save(conv, held)
    held.seek(0)
    read = torch.load(held, weights_only=False)
    assert type(read) is pyg.GCNConv and repr(conv) == repr(read)
    torch.testing.assert_close(read(x, index), before)
    assert list(conv.state_dict()) == ["bias", "lin.weight"]


def breaks(model: Any, *arguments: Any) -> int:
    torch._dynamo.reset()
    return int(torch._dynamo.explain(model)(*arguments).graph_break_count)


def test_torch_compile_has_one_graph_with_one_operator() -> None:
    conv, arguments = pyg.RGCNConv(F, G, R), given("rgcn", GRAPHS["a hub"])
    assert breaks(conv, *arguments) >= 1
    ours = graphs.compile(copy.deepcopy(conv))
    assert breaks(ours, *arguments) == 0
    found = torch._dynamo.explain(ours)(*arguments)
    named = [str(node.target) for graph in found.graphs for node in graph.graph.nodes if node.op == "call_function"]
    assert len([each for each in named if "tiramisu_py" in each]) == 1, named
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    both = [[each.clone().requires_grad_() if i == 0 else each for i, each in enumerate(arguments)] for _ in range(2)]
    results = [compiled(*both[0]), conv(*both[1])]
    torch.testing.assert_close(*results)
    for each in results:
        each.square().sum().backward()
    torch.testing.assert_close(both[0][0].grad, both[1][0].grad)
    torch.testing.assert_close(ours.weight.grad, conv.weight.grad)


def test_models_without_known_convolutions_are_refused() -> None:
    with pytest.raises(tm.ArgumentError, match=r"Linear has no convolution that graphs\.compile knows: of PyTorch"):
        graphs.compile(torch.nn.Linear(3, 3))
    with pytest.raises(tm.ArgumentError, match=r"graphs\.compile takes a module of PyTorch, or a forward, not 3"):
        graphs.compile(3)
    with pytest.raises(tm.ArgumentError, match=r"graphs\.replaced takes a module of PyTorch, not 3"):
        graphs.replaced(3)


def test_a_graph_is_read_from_data_of_pyg() -> None:
    from torch_geometric.data import Data  # noqa: PLC0415 - PyG is not installed everywhere

    edges = GRAPHS["a hub"]
    data = Data(edge_index=given("gcn", edges)[1], num_nodes=9)
    data.edge_type, data.node_type = torch.from_numpy(edges.etype), torch.from_numpy(edges.ntype)
    graph = graphs.Graph.from_pyg(data)
    assert graph.sizes == {"N": 9, "E": 24, "R": 3, "T": 2}
    np.testing.assert_array_equal(graph.array("src"), edges.src[graph.order])
    np.testing.assert_array_equal(graph.array("ntype"), edges.ntype)
