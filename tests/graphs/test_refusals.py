"""What is wrong in a graph, a model or a call is said in the user's words, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import gcn
from tiramisu_py import graphs

SRC, DST = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1])


def test_a_graph_names_the_array_and_the_element() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: graphs.Graph([0, 3], [1, 2], nodes=3), r"src\[1\] = 3, and there are 3 nodes"),
        (lambda: graphs.Graph([0, 1], [1, 7], nodes=3), r"dst\[1\] = 7, and there are 3 nodes"),
        (lambda: graphs.Graph([0, -1], [1, 2]), r"src\[1\] = -1 is less than 0"),
        (lambda: graphs.Graph([0, 1], [1]), "src has 2 edges, and dst 1"),
        (lambda: graphs.Graph([0.0, 1.0], [1, 0]), "src is float64 of shape"),
        (lambda: graphs.Graph([[0, 1]], [[1, 0]]), r"src is int64 of shape \(1, 2\)"),
        (lambda: graphs.Graph([0], [0], etype=[2], etypes=2), r"etype\[0\] = 2, and there are 2 etypes"),
        (lambda: graphs.Graph([0], [0], etype=[0, 1]), "etype has 2 edges, and src 1"),
        (lambda: graphs.Graph([0], [0], ntype=[0, 5], ntypes=2), r"ntype\[1\] = 5, and there are 2 ntypes"),
        (lambda: graphs.Graph([0], [0], ntype=[0], nodes=2), "ntype has 1 nodes, and the graph 2"),
        (lambda: graphs.Graph([0], [0], nodes=-1), "nodes= is a number of nodes, not -1"),
        (lambda: graphs.Graph.from_scipy(3), "from_scipy takes a sparse matrix"),
    ]
    for wrong, words in cases:
        with pytest.raises(tm.ArgumentError, match=words):
            wrong()


def test_missing_packages_are_named() -> None:
    for made, words in ((graphs.Graph.from_pyg, "torch_geometric"), (graphs.Graph.from_dgl, "dgl")):
        with pytest.raises(tm.TiramisuError, match=f"pip install {words}|takes"):
            made(object())


# -- models


def condition(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = 1.0 if e.src.feature > 0 else 0.0
    return "out"


def too_early(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = e["later"] * 2
    return "out"


def sum_too_early(g: Any, W: Any) -> str:
    for v in g.nodes():
        for _ in v.incoming_edges():
            v["out"] += 1.0
    return "out"


def another_shape(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = e.src.feature
        e["out"] = graphs.dot_prod(e.src.feature, e.dst.feature)
    return "out"


def node_in_edges(g: Any, W: Any) -> str:
    for v in g.nodes():
        v["x"] = v.feature
    for e in g.edges():
        e["out"] = v.feature + e.src.feature
    return "out"


def edge_assigned_to_node(g: Any, W: Any) -> str:
    for v in g.nodes():
        for e in v.incoming_edges():
            v["out"] = e.src.feature
    return "out"


def without_an_end(g: Any, W: Any) -> str:
    for e in g.edges():
        e.dst["out"] = e.src.feature
    return "out"


def unknown_feature(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = e.src.colour
    return "out"


def unknown_of_edges(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = e.length
    return "out"


def wrong_types(g: Any, W: Any) -> str:
    for v in g.nodes():
        v["out"] = graphs.linear(v.feature, W[v.ntype])
    return "out"


def not_indexed(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = graphs.linear(e.src.feature, W)
    return "out"


def wrong_row(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = graphs.linear(graphs.concat(e.src.feature, e.dst.feature), W[e.etype])
    return "out"


def unlike_rows(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = graphs.dot_prod(e.src.feature, graphs.concat(e.src.feature, e.dst.feature))
    return "out"


def unlike_shapes(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = e.src.feature + graphs.concat(e.src.feature, e.dst.feature)
    return "out"


def reshaped(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = graphs.reshape(e.src.feature, 2, 2)
    return "out"


def attribute(g: Any, W: Any) -> str:
    for e in g.edges():
        e.out = e.src.feature
    return "out"


def nothing(g: Any, W: Any) -> str:
    return "out"


def nested(g: Any, W: Any) -> str:
    for v in g.nodes():
        v["out"] = 0.0
        for _ in v.incoming_edges():
            for e in v.outgoing_edges():
                v["out"] += e.src.feature
    return "out"


def a_list(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = [1, 2]
    return "out"


def iterated(g: Any, W: Any) -> str:
    for e in g.edges():
        e["out"] = sum(e.src.feature)
    return "out"


def node_given_an_edge(g: Any, W: Any) -> str:
    for e in g.edges():
        e["x"] = e.src.feature
        kept = e["x"]
    for v in g.nodes():
        v["out"] = kept * 2
    return "out"


MODELS = {
    condition: r"graphs\.select",
    too_early: r"e\['later'\] is read before it is made",
    sum_too_early: r"v\['out'\] is read before it is made",
    another_shape: r"'out' has the shape \(3,\), and is assigned",
    node_in_edges: "the loop over nodes has ended",
    edge_assigned_to_node: r"add to it, v\['out'\] \+=",
    without_an_end: r"add to it, e\.dst\['out'\] \+=",
    unknown_feature: "nodes have no colour: layer",
    unknown_of_edges: "edges have no length: layer",
    wrong_types: r"W has weights for each etype: index it by that, W\[e\.etype\]",
    not_indexed: "is neither a value of an edge or a node nor a number",
    wrong_row: "it takes rows of 3",
    unlike_rows: "give two rows alike",
    unlike_shapes: "which is not that of",
    reshaped: r"has 3 elements in the shape \(3,\), not \(2, 2\)",
    attribute: r"has a name in brackets: x\['out'\]",
    nothing: "return the name of a value that it makes",
    nested: "is inside of another one",
    a_list: "is neither a value of an edge or a node nor a number",
    iterated: "it has no items to loop over",
    node_given_an_edge: "'out' of nodes is given",
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_model_is_refused_in_its_own_words(model: Callable[..., str]) -> None:
    with pytest.raises(tm.DeclarationError, match=MODELS[model]):
        graphs.layer(model, node={"feature": 3}, weights={"W": ("etype", 3, 2)})


def test_a_layer_is_refused_for_what_it_is_declared_with() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: graphs.layer(gcn, node={"src": 3}), "'src' is a name of graphs' own"),
        (lambda: graphs.layer(gcn, node={"W": 3}, weights={"W": 3}), "W is given twice"),
        (lambda: graphs.layer(gcn, node={"feature": "3"}), "node=feature has the shape '3'"),
        (lambda: graphs.layer(gcn, weights={"W": ("kind", 3)}), "W has weights for each 'kind'"),
        (lambda: graphs.layer("gcn"), "is no model"),  # type: ignore[arg-type]
    ]
    for wrong, words in cases:
        with pytest.raises(tm.DeclarationError, match=words):
            wrong()
    with pytest.raises(tm.DeclarationError, match="weights= has V"):
        graphs.layer(gcn, node={"feature": 3}, edge={"norm": ()}, weights={"V": (3, 2)})


def test_a_call_names_the_argument_that_does_not_fit() -> None:
    layer = graphs.layer(gcn, node={"feature": 3}, edge={"norm": ()}, weights={"W": (3, 2)}, dtype=tm.float64)
    with pytest.raises(tm.ArgumentError, match="gcn runs on a graph"):
        layer.on((SRC, DST))  # type: ignore[arg-type]
    run = layer.on(graphs.Graph(SRC, DST))
    given: dict[str, Any] = {"feature": np.ones((3, 3)), "norm": np.ones(4), "W": np.ones((3, 2))}
    assert run(**given).shape == (3, 2)
    cases = [
        ({"feature": np.ones((2, 3))}, r"feature has the shape \(2, 3\), and there are 3 nodes"),
        ({"norm": np.ones(5)}, r"norm has the shape \(5,\), and there are 4 edges"),
        ({"W": np.ones((3, 3))}, r"W has the shape \(3, 3\), and it is one for all"),
        ({"W": np.ones((3, 2), np.float32)}, "W is an array of float32, and gcn computes in float64"),
        ({"colour": np.ones(3)}, "gcn is not given colour: it takes feature, norm, W"),
    ]
    for changed, words in cases:
        with pytest.raises(tm.ArgumentError, match=words):
            run(**{**given, **changed})
    with pytest.raises(tm.ArgumentError, match="W is missing: gcn takes feature, norm, W"):
        run(feature=given["feature"], norm=given["norm"])
    with pytest.raises(tm.ArgumentError, match=r"the weights of out has the shape \(3,\)"):
        run.gradients(np.ones(3), **given)
    with pytest.raises(tm.ArgumentError, match="gcn has 1 results: give weights for each, not 2"):
        run.gradients((np.ones(3), np.ones(3)), **given)


def test_types_that_a_graph_has_not_are_named() -> None:
    def typed(g: Any, W: Any) -> str:
        for e in g.edges():
            e["out"] = graphs.linear(e.src.feature, W[e.etype])
        return "out"

    layer = graphs.layer(typed, node={"feature": 3}, weights={"W": ("etype", 3, 2)}, dtype=tm.float64)
    with pytest.raises(tm.ArgumentError, match="weights for each type of edges, and the graph none: give it etype="):
        layer.on(graphs.Graph(SRC, DST))
    run = layer.on(graphs.Graph(SRC, DST, etype=[0, 1, 1, 0], etypes=3))
    with pytest.raises(tm.ArgumentError, match=r"W has the shape \(2, 3, 2\), and there are 3 types of edges"):
        run(feature=np.ones((3, 3)), W=np.ones((2, 3, 2)))


def test_words_of_numpy_and_indices_of_values_have_a_repair() -> None:
    def model(part: Any) -> Any:
        def made(g: Any, W: Any) -> str:
            for e in g.edges():
                e["out"] = part(e, W)
            return "out"

        return made

    given: dict[str, Any] = {"node": {"feature": 3}, "weights": {"W": (3, 2)}}
    cases: list[tuple[Any, str]] = [
        (lambda e, W: np.exp(e.src.feature), r"np.exp computes on arrays, and e.src feature .* write graphs.exp"),
        (lambda e, W: np.log(e.src.feature), "write the operators of graphs"),
        (lambda e, W: e.src.feature[0], r"e.src feature has the shape \(3,\) and no parts of its own"),
        (
            lambda e, W: graphs.linear(e.src.feature, W[e.etype]),
            r"""W is one for all, .* weights={"W": \("etype", ..\)}""",
        ),
    ]
    for part, words in cases:
        with pytest.raises(tm.DeclarationError, match=words):
            graphs.layer(model(part), **given)
    with pytest.raises(tm.DeclarationError, match=r"weights=\['W'\]: give names with shapes"):
        graphs.layer(gcn, node={"feature": 3}, weights=["W"])  # type: ignore[arg-type]
    doubled = graphs.layer(model(lambda e, W: np.float64(2) * e.src.feature), **given, dtype=tm.float64)
    x = np.arange(9.0).reshape(3, 3)
    run = doubled.on(graphs.Graph(SRC, DST))
    np.testing.assert_array_equal(run(feature=x, W=np.ones((3, 2))), 2 * x[np.asarray(SRC)])
