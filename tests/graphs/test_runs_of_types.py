"""Typed products by the runs of types or by an index: each on one graph, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py import graphs
from tiramisu_py.graphs.runs_of_types import ProductOfTypes


def typed(g: Any, W: Any) -> str:
    for e in g.edges():
        e["msg"] = graphs.linear(e.src.x, W[e.etype])
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e["msg"] * 2.0
    return "out"


def layer(**options: Any) -> graphs.Layer:
    weights = {"W": ("etype", 3, 5)}
    return graphs.layer(
        typed, node={"x": 3}, weights=weights, dtype=tm.float64, sums="nodes", sum_first=False, **options
    )


DRAW = np.random.default_rng(0)
ENDS = DRAW.integers(0, 30, (2, 160))
#: Three types with many edges, and types of one or two.
LONG = graphs.Graph(*ENDS, etype=np.arange(160) % 3, nodes=30)
SHORT = graphs.Graph(*ENDS, etype=DRAW.permutation(160) % 100, nodes=30)


def given(graph: graphs.Graph) -> dict[str, Any]:
    return {"x": DRAW.standard_normal((30, 3)), "W": DRAW.standard_normal((graph.etypes, 3, 5))}


def test_counted_steps_choose_runs_for_many_edges_of_a_type_and_the_index_for_few() -> None:
    made = layer(compact=False)
    long, short = (made.explain(graph) for graph in (LONG, SHORT))
    assert "products with matrices of types, by counted steps:" in long
    # 160 rows of 2 * 3 * 5; tiles of 8 rows that are of one type are 18 of 20.
    assert "  msg by runs: 3657 steps, by index 4800 (144 of 160 rows in whole tiles, 3 runs)" in long, long
    assert "  msg by the runs of types" in long and "msg: typed_matmul, tiles in runs of r" in long
    assert "  msg by index: 4800 steps, by runs 12060 (0 of 160 rows in whole tiles, 100 runs)" in short, short
    assert "by the runs of types" not in short and "msg: typed_matmul, loops over p_tile" in short


@pytest.mark.parametrize("compact", [False, True])
def test_both_ways_have_the_same_bits(compact: bool) -> None:
    runs_of = {runs: layer(compact=compact, runs=runs).on(LONG, threads=2) for runs in (True, False)}
    for graph in (LONG, SHORT):
        values, found = given(graph), []
        for runs, first in runs_of.items():
            run = first.on(graph)
            assert run.forward.by_runs == (("msg",) if runs else ())
            assert any("in runs of r" in line for line in run.forward.done.loops) == runs
            assert run.forward.f.check().bits == "bits preserved"
            out = run(**values)
            found.append([out, *(run.gradients(np.ones_like(out), **values).values() if compact else ())])
        wanted = np.zeros((30, 5))
        src, dst, etype = (graph.array(name) for name in ("src", "dst", "etype"))
        np.add.at(wanted, dst, 2 * np.einsum("ek,ekd->ed", values["x"][src], values["W"][etype]))
        np.testing.assert_allclose(found[0][0], wanted, rtol=1e-12)
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_whether_products_go_by_runs_is_one_of_three() -> None:
    with pytest.raises(tm.DeclarationError, match="runs='edges': give True, False, or 'count', which leaves it to"):
        layer(runs="edges")


def test_steps_by_hand() -> None:
    one = ProductOfTypes("m", "etype", positions=100, whole=80, types=3, work=10)
    assert one.by_index == 1000 and one.by_runs == round((0.65 * 80 + 1.45 * 20 + 1.7 * 3) * 10) == 861
    assert one.goes_by_runs
    many = ProductOfTypes("m", "etype", positions=100, whole=80, types=30, work=10)
    assert many.by_runs == round((0.65 * 80 + 1.45 * 20 + 1.7 * 30) * 10) == 1320 and not many.goes_by_runs
    assert not ProductOfTypes("m", "etype", positions=0, whole=0, types=0, work=10).goes_by_runs
