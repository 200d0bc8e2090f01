"""Six models, forwards and backwards, on odd graphs, against dense NumPy and differences."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import MODELS, Edges, F, odd_graphs
from tiramisu_py import graphs

GRAPHS = odd_graphs()
OPTIONS = {"passes": {}, "as written": {"reassociate": False, "compact": False}}


def arguments(name: str, graph: Edges) -> dict[str, Any]:
    draw = np.random.default_rng(7)
    counts = {"etype": graph.etypes, "ntype": graph.ntypes}
    given = {"feature": draw.standard_normal((len(graph.ntype), F))}
    given |= {each: draw.standard_normal((len(graph.src), *shape)) for each, shape in MODELS[name].edge.items()}
    for each, shape in MODELS[name].weights.items():
        given[each] = draw.standard_normal(tuple(counts.get(extent, extent) for extent in shape)) / 2
    return given


def layer(name: str, **options: Any) -> graphs.Layer:
    own = MODELS[name]
    return graphs.layer(own.model, node={"feature": F}, edge=own.edge, weights=own.weights, dtype=tm.float64, **options)


def graph_of(edges: Edges) -> graphs.Graph:
    return graphs.Graph(
        edges.src, edges.dst, etype=edges.etype, ntype=edges.ntype, etypes=edges.etypes, ntypes=edges.ntypes
    )


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_its_dense_form(name: str, options: str, kind: str) -> None:
    edges = GRAPHS[kind]
    given = arguments(name, edges)
    run = layer(name, **OPTIONS[options]).on(graph_of(edges))
    np.testing.assert_allclose(run(**given), MODELS[name].reference(edges, **given), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_differences(name: str, options: str) -> None:
    edges = GRAPHS["a hub"]
    given = arguments(name, edges)
    run = layer(name, **OPTIONS[options]).on(graph_of(edges))
    reference = MODELS[name].reference
    draw = np.random.default_rng(3)
    weights = draw.standard_normal(reference(edges, **given).shape)
    found = run.gradients(weights, **given)
    assert found.keys() == given.keys()
    for each, value in given.items():
        assert found[each].shape == value.shape
        way = draw.standard_normal(value.shape)
        ends = [reference(edges, **{**given, each: value + step * way}) for step in (1e-6, -1e-6)]
        wanted = ((ends[0] - ends[1]) * weights).sum() / 2e-6
        np.testing.assert_allclose((found[each] * way).sum(), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["gcn", "rgcn", "rgat", "hgt"])
def test_rows_may_be_summed_before_they_are_multiplied(name: str) -> None:
    edges = GRAPHS["a hub"]
    given, graph = arguments(name, edges), graph_of(edges)
    run = layer(name, sum_first=True).on(graph)
    assert any(".sum_first(" in line and "left out" not in line for line in run.layer.explain().splitlines())
    found = run(**given)
    np.testing.assert_allclose(found, MODELS[name].reference(edges, **given), rtol=1e-10, atol=1e-12)
    weights = np.random.default_rng(4).standard_normal(found.shape)
    wanted = layer(name, sum_first=False).on(graph).gradients(weights, **given)
    for each, gradient in run.gradients(weights, **given).items():
        np.testing.assert_allclose(gradient, wanted[each], rtol=1e-9, atol=1e-11)


def test_counted_work_decides_whether_rows_are_summed_first() -> None:
    many, made = np.arange(1, 30), layer("rgcn")
    one, types = np.zeros_like(many), np.arange(29) % 2
    into, out_of = (graphs.Graph(*ends, nodes=30, etype=types) for ends in ((many, one), (one, many)))
    assert made.chosen_for(into).rewrites.sum_first is True
    assert made.chosen_for(out_of).rewrites.sum_first is False
    assert "the work on a graph decides" in made.explain()
    with pytest.raises(tm.DeclarationError, match="sum_first='always': give True, False, or 'count'"):
        layer("rgcn", sum_first="always")
    with pytest.raises(tm.DeclarationError, match="compact=2: give True, False, or 'count'"):
        layer("rgcn", compact=2)


def test_counted_work_decides_what_is_compact() -> None:
    def typed_sum(g: Any, W: Any) -> str:
        for v in g.dst_nodes():
            v["out"] = 0.0
            for e in v.incoming_edges():
                v["out"] += graphs.linear(e.src.feature, W[e.etype])
        return "out"

    made = graphs.layer(
        typed_sum, node={"feature": 3}, weights={"W": ("etype", 3, 2)}, compact="count", sum_first=False
    )
    many = np.arange(20)
    hub, apart = (graphs.Graph(src, many, nodes=20, etype=many % 2) for src in (0 * many, many))
    assert made.chosen_for(hub).rewrites.compact is True
    assert made.chosen_for(apart).rewrites.compact is False
    # A product of an edge has 3 * 2 terms of two operations, its sum 2 terms of one; the hub has two pairs.
    plain, least = 20 * (12 + 2), 2 * 12 + 20 * 2
    chosen, found = ", taken: the fewest rewrites within a tenth of the least", made.explain(hub).split("\n")
    assert found[0] == f"choices on {hub}, by multiplications and additions:"
    assert found[1:3] == [f"  none of these: {plain}", f"  compact: {least}{chosen}"]
    assert "linear.compact(src[p], etype[p], name='by_src_etype')" in made.explain(hub)
    found = made.explain(apart).split("\n")
    assert found[1:3] == [f"  none of these: {plain}{chosen}", f"  compact: {plain}"]
    assert "  nothing: left out, the work on a graph decides against it" in found


def test_counted_work_decides_what_is_reassociated() -> None:
    made, many = layer("rgat", reassociate="count", compact=False, sum_first=False), np.arange(60)
    few = graphs.Graph(many, many, nodes=60, etype=many % 2, etypes=2)
    types = graphs.Graph([0, 1], [1, 0], nodes=60, etype=[0, 70], etypes=90)
    assert made.chosen_for(few).rewrites.reassociate is True
    assert made.chosen_for(types).rewrites.reassociate is False
    assert "choices" not in made.explain()
    assert (
        layer("rgat", sum_first=False, sums="nodes", runs=False)
        .explain(few)
        .startswith(f"choices on {few}:\n  none: no rewrite is declared as 'count'\ntraced:")
    )


def test_edges_keep_the_order_of_the_caller() -> None:
    def doubled(g: Any) -> str:
        for e in g.edges():
            e["out"] = 2.0 * e.length
        return "out"

    graph = graphs.Graph([2, 0, 1], [0, 1, 2], etype=[1, 0, 1])
    run = graphs.layer(doubled, edge={"length": ()}, dtype=tm.float64).on(graph)
    np.testing.assert_array_equal(run(length=np.array([1.0, 2.0, 3.0])), [2.0, 4.0, 6.0])
    found = run.gradients(np.array([1.0, 10.0, 100.0]), length=np.zeros(3))
    np.testing.assert_array_equal(found["length"], [2.0, 20.0, 200.0])


def test_a_stable_softmax_takes_off_the_largest() -> None:
    def attention(g: Any) -> tuple[str, ...]:
        for e in g.edges():
            e["att"] = e.raw
        graphs.edge_softmax(g, "att", stable=True)
        for v in g.dst_nodes():
            v["most"] = 1.5
            for e in v.incoming_edges():
                v["most"] = graphs.maximum(v["most"], e.raw)
        return "att", "most"

    edges = GRAPHS["a hub"]
    raw = np.random.default_rng(4).standard_normal((24, 2)) * 1000
    run = graphs.layer(attention, edge={"raw": 2}, dtype=tm.float64).on(graph_of(edges))
    largest = np.full((9, 2), -np.inf)
    np.maximum.at(largest, edges.dst, raw)
    exps, total = np.exp(raw - largest[edges.dst]), np.zeros((9, 2))
    np.add.at(total, edges.dst, exps)
    att, most = run(raw=raw)
    np.testing.assert_allclose(att, exps / total[edges.dst], rtol=1e-12)
    np.testing.assert_array_equal(most, np.maximum(largest, 1.5))
    weights = np.random.default_rng(5).standard_normal((24, 2))
    of_nodes = np.zeros((9, 2))
    np.add.at(of_nodes, edges.dst, weights * att)
    found = run.gradients((weights, np.zeros((9, 2))), raw=raw)["raw"]
    np.testing.assert_allclose(found, att * (weights - of_nodes[edges.dst]), rtol=1e-9, atol=1e-13)


def test_words_of_models_are_those_of_numpy() -> None:
    def words(g: Any, M: Any) -> tuple[str, ...]:
        for v in g.nodes():
            both = graphs.concat(v.a, v.b)
            v["joined"] = graphs.exp(graphs.reshape(both, 2, 3) / 2) - 1
            v["outer"] = graphs.outer_prod(v.a, v.b)
            v["rows"] = graphs.tanh(graphs.dot_prod(v["outer"], M)) * graphs.sqrt(v.a * v.a)
        return "joined", "outer", "rows"

    run = graphs.layer(words, node={"a": 2, "b": 4}, weights={"M": (2, 4)}, dtype=tm.float64).on(
        graphs.Graph([], [], nodes=3)
    )
    draw = np.random.default_rng(2)
    a, b, m = draw.standard_normal((3, 2)), draw.standard_normal((3, 4)), draw.standard_normal((2, 4))
    joined, outer, rows = run(a=a, b=b, M=m)
    np.testing.assert_allclose(joined, np.exp(np.concatenate([a, b], 1).reshape(3, 2, 3) / 2) - 1)
    np.testing.assert_allclose(outer, a[:, :, None] * b[:, None, :])
    np.testing.assert_allclose(rows, np.tanh((outer * m).sum(-1)) * abs(a))


def test_each_pass_on_attention_is_as_written_down(golden: Callable[[str, str], None]) -> None:
    """Values do not depend on the processor, nor does whether rows of four are in vectors; the registers do."""
    own = MODELS["rgat"]
    weights = {"W": ("etype", 2, 8, 4), "w_s": ("etype", 2, 4), "w_t": ("etype", 2, 4)}
    text = graphs.layer(own.model, node={"feature": 8}, weights=weights).explain()
    golden(re.sub(r"sums of \d+", "sums of several", text) + "\n", "rgat_passes.txt")


def test_the_passes_are_explained_and_the_run_reported() -> None:
    made = layer("rgat", sums="nodes")
    text = made.explain()
    assert "dot.reassociate(hs)" in text
    assert "hs.compact(src[p], etype[p], name='by_src_etype')" in text
    heads = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads == [
        "traced:", "reassociate:", "sum first:", "compact:", "canonical loops:", "taken along:",
        "kernels, 9 for 10 values:", "typed products:", "traversals:", "the rest:",
    ]  # fmt: skip
    report = "\n".join(made.on(graph_of(GRAPHS["a hub"])).forward.report())
    pairs = len(np.unique(np.stack([GRAPHS["a hub"].src, GRAPHS["a hub"].etype]), axis=1).T)
    assert f"hs: {pairs * 4} elements" in report, report
    assert "scatters: none" in report
