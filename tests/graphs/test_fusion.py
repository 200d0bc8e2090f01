"""Kernels that take values along: bits, bytes, launches and instances beside those of a kernel for each value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import MODELS
from tests.graphs.test_models import GRAPHS, arguments, graph_of, layer
from tiramisu_py import graphs
from tiramisu_py.graphs.fusion import fused
from tiramisu_py.graphs.programs import LayerMachine, LayerProgram
from tiramisu_py.graphs.rewrites import gathered

#: 4 nodes, one of them without edges, 6 edges, one of them twice.
SMALL = graphs.Graph([0, 0, 1, 2, 2, 2], [1, 1, 0, 0, 1, 2], nodes=4)


def of_rows(name: str, **options: Any) -> graphs.Layer:
    """A layer whose sums go by nodes, so that these can be taken along."""
    return layer(name, sums="nodes", sum_first=False, **options)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_taken_along_has_the_same_bits_and_needs_no_more_memory(name: str, kind: str) -> None:
    edges, given, found = GRAPHS[kind], arguments(name, GRAPHS[kind]), {}
    for way in (False, True, "count"):
        run = of_rows(name, fuse=way).on(graph_of(edges), threads=2)
        assert run.forward.f.check().bits == run.step.f.check().bits == "bits preserved"
        out = run(**given)
        peaks = [each.f.cost("memory", **each.sizes).peak for each in (run.forward, run.step)]
        kernels = [len(each.done.loops) for each in (run.forward, run.step)]
        found[way] = {"out": out, **run.gradients(np.cos(out), **given)}, peaks, kernels
    for way in (True, "count"):
        for each, value in found[way][0].items():
            np.testing.assert_array_equal(value, found[False][0][each])
        assert np.all(np.less_equal(found[way][2], found[False][2]))
    assert np.all(np.less_equal(found["count"][1], found[False][1])), "temporaries must not become more"


def steps(name: str, way: bool | str, device: str | None = None) -> LayerProgram:
    """The program of results and gradients, scheduled and not compiled."""
    f = tm.vjp(of_rows(name).function).step
    threads = 1 if device is None else None
    return LayerProgram(f, graph_of(GRAPHS["a hub"]), LayerMachine(threads=threads, device=device, fuse=way))


@pytest.mark.parametrize(("name", "device"), [("rgcn", None), ("rgat", None), ("rgat", "simulator")])
def test_each_value_is_computed_once_and_runs_keep_their_bounds(name: str, device: str | None) -> None:
    plain, along = (steps(name, way, device) for way in (False, True))
    taken = along.fused.hosts
    assert {"d_feature_from_dot", "d_feature_from_dot_2"} <= {*taken} if name == "rgat" else taken
    counted = [{each.name: each.instances for each in of.f.cost(**of.sizes).statements} for of in (plain, along)]
    for statement, instances in counted[1].items():
        stored = statement.replace(".", "_sums.") if device is None else statement
        assert instances == counted[0].get(stored, counted[0].get(statement)), statement
    text = along.f.show("pseudocode")
    sums = [each for each in taken if along.f.algorithm.computations[each].is_reduction]
    assert not [line for line in text.split("\n") if "if" in line and "_start_of[" in line], text
    assert sums and plain.f.show("remarks") == along.f.show("remarks")
    if device is not None:
        launches = [len(of.f.cost("kernels")) for of in (plain, along)]
        assert launches[0] - launches[1] == len(taken) == len(plain.done.loops) - len(along.done.loops)


def attention(g: Any) -> str:
    """A sum over the edges of nodes with what it is multiplied by, and a score that is read far from where it is."""
    for v in g.nodes():
        v["x"] = graphs.dot_prod(v.a, v.a)
        v["y"] = graphs.dot_prod(v.a, v.b)
        v["score"] = v["x"] * v["y"] - 1.0
        v["early"] = v["x"] - v["y"]
    for v in g.dst_nodes():
        v["wide"] = 0.0
        for e in v.incoming_edges():
            v["wide"] += e.src.b
    for v in g.nodes():
        v["own"] = v["wide"] * v.a * v["early"]
        v["squared"] = graphs.dot_prod(v["own"], v.b)
        v["out"] = v["squared"] / v["score"]
    return "out"


def test_bytes_and_temporaries_decide_by_hand() -> None:
    made = graphs.layer(attention, node={"a": 3, "b": 3}, dtype=tm.float64, sums="nodes")
    lines = [line for line in made.explain(SMALL, threads=1).split("\n") if " takes " in line or " leaves " in line]
    lines = [line for line in lines if "bytes" in line]
    # Numbers of 4 nodes have 32 bytes, rows of three 96: x and y are stored and read twice, score, early, squared, wide
    # and own once, out is stored. In out, score keeps x and y beside early, wide and own; it is 32 bytes itself.
    assert lines == [
        "  out leaves score: 736 bytes moved, 800 without, temporaries of at most 288 bytes, 256 without",
        "  own takes wide along: 608 bytes moved, 800 without, temporaries of at most 160 bytes, 256 without",
        "  out takes squared along: 544 bytes moved, 608 without, temporaries of at most 160 bytes, 160 without",
    ], lines
    assert "kernels, 6 for 8 values:" in made.explain(SMALL, threads=1).split("\n")
    draw = np.random.default_rng(0)
    a, b = draw.standard_normal((2, 4, 3))
    wide = np.zeros((4, 3))
    np.add.at(wide, [1, 1, 0, 0, 1, 2], b[[0, 0, 1, 2, 2, 2]])
    x, y = (a * a).sum(1), (a * b).sum(1)
    run = graphs.layer(attention, node={"a": 3, "b": 3}, dtype=tm.float64, sums="nodes").on(SMALL)
    np.testing.assert_allclose(run(a=a, b=b), (wide * a * b).sum(1) * (x - y) / (x * y - 1), rtol=1e-12)


def test_without_a_graph_neighbours_of_one_size_are_taken_along() -> None:
    f = layer("rgat").function
    gathered(f)
    own = fused(f, "count", None)
    assert own.values == {"att_2": ["att"]} and not own.sums
    assert list(map(str, own.weighed)) == ["att_2 takes att along: next to it, and as large"]
    assert not fused(f, False, None).weighed


def test_rows_of_values_are_taken_into_their_product() -> None:
    def scored(g: Any) -> str:
        for e in g.edges():
            e["positive"] = graphs.relu(e.x)
            e["out"] = graphs.dot_prod(e["positive"], e.y)
        return "out"

    made = graphs.layer(scored, edge={"x": 3, "y": 3}, dtype=tm.float64)
    run = made.on(SMALL)
    assert run.forward.fused.hosts == {"positive": "out"}
    assert "  1 kernels, which take 1 values along" in run.report().split("\n")
    x, y = np.random.default_rng(1).standard_normal((2, 6, 3))
    np.testing.assert_allclose(run(x=x, y=y), (np.maximum(x, 0) * y).sum(1), rtol=1e-14)


def test_what_kernels_take_along_is_one_of_three() -> None:
    with pytest.raises(tm.DeclarationError, match="fuse='all': give True, False, or 'count', which takes along"):
        layer("gcn", fuse="all")
