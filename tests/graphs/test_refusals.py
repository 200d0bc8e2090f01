"""What is wrong in a graph, a model or a call is said in the user's words, with what to do.

`REFUSALS` lists what is refused of graphs, runs and inverses, with the test of each: its message names the user's own
object, and most say what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import gcn
from tiramisu_py import graphs
from tiramisu_py.graphs import graph

SRC, DST = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1])
N, E = tm.params("N E")
n, p = tm.iters("n p")
HERE, SEGMENTS, GATHER = "graphs/test_refusals.py", "function/test_segments.py", "schedule/test_gather.py"
REFUSALS = {
    "src out of range": f"{HERE}::test_a_graph_names_the_array_and_the_element",
    "a type out of range": f"{HERE}::test_a_graph_names_the_array_and_the_element",
    "arrays of a graph of unlike lengths": f"{HERE}::test_a_graph_names_the_array_and_the_element",
    "runs that fall": f"{HERE}::test_no_runs_and_no_inverses_are_named",
    "runs that leave out positions": f"{SEGMENTS}::test_what_are_no_runs_of_all_positions_is_refused_at_the_call",
    "types unsorted where runs are claimed": f"{HERE}::test_no_runs_and_no_inverses_are_named",
    "an index that has no runs": "function/test_given_runs.py::test_what_does_not_have_the_runs_is_refused",
    "a value read in another run": f"{SEGMENTS}::test_the_run_of_another_position_is_refused",
    "one loop over what is no run": "schedule/test_run_bounds.py::test_one_loop_of_what_is_no_run_is_refused",
    "values in runs that read none": "schedule/test_in_runs.py::test_what_is_in_no_runs_is_refused_with_its_reason",
    "an inverse of another index, in a command": f"{GATHER}::test_gathers_that_mean_something_else_are_refused",
    "an inverse of another array": f"{GATHER}::test_the_inverse_of_another_array_is_refused_also_after_a_right_one",
    "an inverse that is none": f"{HERE}::test_no_runs_and_no_inverses_are_named",
    "a gather of some edges": f"{GATHER}::test_gathers_that_mean_something_else_are_refused",
    "compact of what reads e.dst": f"{HERE}::test_commands_on_edges_name_the_value_and_what_to_write",
    "distinct keys of other arrays": "schedule/test_compact.py::test_pairs_that_are_none_are_refused_at_the_call",
    "compact of an output": "schedule/test_compact.py::test_other_values_are_not_compact",
    "reassociate across exp": "schedule/test_reassociate.py::test_what_is_no_product_of_weights_is_refused",
    "reassociate of data": "schedule/test_reassociate.py::test_what_is_no_product_of_weights_is_refused",
    "a sum first without a key": "schedule/test_sum_first.py::test_a_key_that_is_missing_is_named",
    "edges in parallel over a sum without combine=": f"{HERE}::test_commands_on_edges_name_the_value_and_what_to_write",
    "e['x'] read before it is made": f"{HERE}::test_a_model_is_refused_in_its_own_words",
    "e['x'] in two shapes": f"{HERE}::test_a_model_is_refused_in_its_own_words",
    "if e['att'] > 0": f"{HERE}::test_a_model_is_refused_in_its_own_words",
    "n['x'] in an edge loop": f"{HERE}::test_a_model_is_refused_in_its_own_words",
    "a sum that is assigned": f"{HERE}::test_a_model_is_refused_in_its_own_words",
    "weights without a type": f"{HERE}::test_a_model_is_refused_in_its_own_words",
    "words of NumPy in a model": f"{HERE}::test_words_of_numpy_and_indices_of_values_have_a_repair",
    "a weight with too few types": f"{HERE}::test_types_that_a_graph_has_not_are_named",
    "a call without a value": f"{HERE}::test_a_call_names_the_argument_that_does_not_fit",
    "a graph that changed": "graphs/test_graph.py::test_edges_are_sorted_by_type_and_end_and_nobody_can_change_them",
    "PyG missing, DGL missing": f"{HERE}::test_missing_packages_are_named",
}


@pytest.mark.parametrize("what", REFUSALS)
def test_each_refusal_has_its_test(what: str) -> None:
    file, test = REFUSALS[what].split("::")
    assert f"def {test}(" in (Path(__file__).parents[1] / file).read_text(), what


def test_no_runs_and_no_inverses_are_named() -> None:
    f = tm.Function("typed", params=[N, E])
    etype = f.input("etype", tm.int32, [E], values=(0, N))
    dst, w = f.input("dst", tm.int32, [E], values=(0, N)), f.input("w", tm.float32, [N])
    types, into = f.segments("types", N, of=E, at=etype), f.inverse("into", dst)
    y = f.reduction("y", {n: N}, {p: types[n]}, tm.sum, w[n])
    f.outputs(y, f.reduction("z", {n: N}, {p: into[n]}, tm.sum, w[dst[into.order[p]]]))
    given: dict[str, Any] = {"etype": [0, 2, 2, 2], "types": [0, 1, 1, 4], "dst": DST, "w": [1, 2, 3]}
    arrays = {name: np.array(each, np.float32 if name == "w" else np.int32) for name, each in given.items()}
    start, order = tm.inverse(arrays["dst"], 3)
    cases = [
        ({"types": [0, 4, 1, 4]}, r"types\[2\] = 1, which is less than .*: give 0 and the sums of their lengths"),
        ({"etype": [2, 0, 2, 2]}, r"etype\[0\] = 2, but position 0 is in the run 0 of types: .*np\.repeat"),
        ({"into": (start, order[[1, 1, 2, 3]])}, r"into_order\[1\] = .* not the inverse of dst, tm\.inverse"),
        ({"into": (start, order[::-1].copy())}, r"into is not the inverse of dst, tm\.inverse\(dst, \.\.\)"),
    ]
    kernel = f.compile()
    assert [each.shape for each in kernel(**arrays, into=(start, order))] == [(3,), (3,)]
    for changed, words in cases:
        wrong = {name: np.array(each, np.int32) if name != "into" else each for name, each in changed.items()}
        for call in (kernel, f.evaluate):
            with pytest.raises(tm.ArgumentError, match=words):
                call(**{**arrays, "into": (start, order), **wrong})


def test_commands_on_edges_name_the_value_and_what_to_write() -> None:
    f = tm.Function("edges", params=[N, E])
    src, dst = (f.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    x = f.input("x", tm.float32, [N])
    msg = f.computation("msg", {p: E}, x[src[p]] * x[dst[p]])
    out = f.scatter("out", {n: N}, over={p: E}, at=[dst[p]], op=tm.sum, expr=msg[p])
    f.outputs(out)
    with pytest.raises(tm.CommandError, match=r"msg depends on dst\[p\], which is none of the keys src: .* add it to"):
        msg.compact(src[p], name="sources")
    out.update.parallelize(p)
    words = r"(?s)both update out\[0\] in different .* loop p.*out\.update\.parallelize\(p, combine=tm\.PRIVATE\)"
    with pytest.raises(tm.LegalityError, match=words):
        f.compile()
    f.undo()
    out.update.parallelize(p, combine=tm.PRIVATE)
    given = {"src": SRC.astype(np.int32), "dst": DST.astype(np.int32), "x": np.array([1, 2, 4], np.float32)}
    np.testing.assert_array_equal(f.compile(threads=2)(**given), [4.0, 10.0, 8.0])


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


@pytest.mark.parametrize("package", ["torch_geometric", "dgl"])
def test_missing_packages_are_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"torch_geometric": graphs.Graph.from_pyg, "dgl": graphs.Graph.from_dgl}[package]
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    with pytest.raises(tm.UnsupportedError, match=f"is not installed: pip install {package}"):
        made(object())
    monkeypatch.setattr(graph, "find_spec", lambda name: name)
    with pytest.raises(tm.ArgumentError, match=r"takes .*, not object"):
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
    another_shape: r"'out' has the shape \(3,\), and is assigned dot of \(\): give that another name",
    node_in_edges: r"the loop over nodes has ended: .*, or e\.src and e\.dst in a loop over edges",
    edge_assigned_to_node: r"add to it, v\['out'\] \+=",
    without_an_end: r"add to it, e\.dst\['out'\] \+=",
    unknown_feature: "nodes have no colour: layer",
    unknown_of_edges: "edges have no length: layer",
    wrong_types: r"W has weights for each etype: index it by that, W\[e\.etype\]",
    not_indexed: r"W, the weights of every etype, of which W\[e\.etype\] are one's, is neither a value",
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
