"""Layers on ranks that own blocks of nodes: values, gradients, and one exchange for the features of others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.folders import modules_of
from tests.graphs.models import MODELS, odd_graphs
from tests.graphs.test_models import arguments, graph_of, layer
from tests.mpi.launching import Implementation, each, implementations
from tiramisu_py import graphs
from tiramisu_py.errors import ArgumentError

with modules_of(Path(__file__).resolve().parents[2] / "examples" / "graphs") as _load:
    ranks_of = _load("ranks")


@pytest.mark.parametrize("ranks", [4, 3, 2, 1])
@pytest.mark.parametrize(("nodes", "edges"), [(9, 30), (5, 0), (3, 40)])
def test_a_layer_on_ranks_has_the_values_and_gradients_of_numpy(nodes: int, edges: int, ranks: int) -> None:
    given, dst = ranks_of.sample(nodes, edges, 3)
    right = ranks_of.reference(given, dst)
    forward = ranks_of.on_ranks(ranks_of.layer(nodes), nodes, ranks)
    assert forward.check().bits == "bits preserved"
    np.testing.assert_allclose(forward.simulate(**ranks_of.given_to(forward, given)), right[0], rtol=1e-12, atol=1e-13)
    step = ranks_of.on_ranks(tm.vjp(ranks_of.layer(nodes)).step, nodes, ranks)
    assert step.check().ok
    for one, other in zip(step.simulate(**ranks_of.given_to(step, given)), right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("ranks", [3, 4, 2, 1])
@pytest.mark.parametrize(("nodes", "edges"), [(9, 30), (5, 0), (3, 40)])
def test_attention_on_ranks_has_the_values_of_numpy_and_the_gradients_of_one_rank(
    nodes: int, edges: int, ranks: int
) -> None:
    given, dst = ranks_of.sample(nodes, edges, 3)
    whole = tm.vjp(ranks_of.attention(nodes)).step
    wanted = whole.evaluate(**ranks_of.given_to(whole, given))
    np.testing.assert_allclose(wanted[0], ranks_of.attention_reference(given, dst), rtol=1e-12, atol=1e-13)
    step = ranks_of.on_ranks(tm.vjp(ranks_of.attention(nodes)).step, nodes, ranks)
    assert step.check().ok
    moved = [each.name for each in step.cost("communication", E=20, R=3).transfers]
    assert not any(name.startswith(("msg", "e_", "score", "d_msg")) for name in moved), moved  # edges stay at home
    for one, other in zip(step.simulate(**ranks_of.given_to(step, given)), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def test_features_of_others_arrive_in_one_call() -> None:
    f = ranks_of.on_ranks(ranks_of.layer(8), 8, 4)
    sent = f.cost("communication", E=20, R=3)
    assert [each.name for each in sent.transfers] == ["x_to_ranks"]
    assert sent.messages == 4 * 3, "one from each rank to each other one, in one call"
    assert "tm_mpi_exchange(" in f.source()["rgcn.c"]


GRAPHS = odd_graphs()


@pytest.mark.parametrize("ranks", [3, 4, 2, 1])
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_on_ranks_has_the_values_of_its_dense_form_and_the_gradients_of_one(
    name: str, kind: str, ranks: int
) -> None:
    edges = GRAPHS[kind]
    given, graph, own = arguments(name, edges), graph_of(edges), layer(name)
    run, right = own.on_ranks(graph, ranks), MODELS[name].reference(edges, **given)
    np.testing.assert_allclose(run.simulate(**given), right, rtol=1e-10, atol=1e-12)
    weights = np.random.default_rng(1).standard_normal(right.shape)
    found, wanted = run.simulate_gradients(weights, **given), own.on(graph).gradients(weights, **given)
    assert found.keys() == wanted.keys()
    for argument, value in wanted.items():
        np.testing.assert_allclose(found[argument], value, rtol=1e-9, atol=1e-11)


def test_ranks_own_blocks_of_nodes_and_the_edges_that_end_there() -> None:
    run = layer("rgat").on_ranks(graph_of(GRAPHS["a hub"]), 4)
    assert [run.owned(rank) for rank in range(5)] == [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 9), slice(9, 9)]
    ends = GRAPHS["a hub"].dst
    for rank, line in enumerate(run.report().split("\n")[1:5]):
        own = run.owned(rank)
        count = ((ends >= own.start) & (ends < own.stop)).sum()
        assert line == f"  rank {rank}: {own.stop - own.start} nodes, {count} edges"
    moved = [each.name for each in run.step.cost("communication", E=24, R=3).transfers]
    assert not any(name.startswith(("hs", "att", "dot", "d_att", "d_hs")) for name in moved), (
        moved
    )  # edges stay at home


def test_what_no_ranks_can_have_is_refused() -> None:
    hub = graph_of(GRAPHS["a hub"])
    for ranks in (0, True, "2"):
        with pytest.raises(ArgumentError, match=f"gcn: ranks={ranks!r}: give a number of ranks, 1 or more"):
            layer("gcn").on_ranks(hub, ranks)  # type: ignore[arg-type]

    def doubled(g: Any) -> str:
        for e in g.edges():
            e["twice"] = 2.0 * e.weight
        return "twice"

    with pytest.raises(ArgumentError, match=r"doubled returns twice, a value of each edge, and ranks own nodes"):
        graphs.layer(doubled, edge={"weight": ()}).on_ranks(hub, 2)
    with pytest.raises(ArgumentError, match="has no nodes to deal out"):
        layer("sage").on_ranks(graphs.Graph([], [], nodes=0), 2)


@pytest.mark.skipif(not implementations(), reason="no MPI on this machine: pip install 'tiramisu_py[mpi]'")
@pytest.mark.parametrize("mpi", each())
def test_a_layer_runs_on_ranks_and_a_wrong_argument_of_one_is_told_to_all(mpi: Implementation) -> None:
    done = mpi.run(3, [sys.executable, "-m", "mpi4py", "-m", "tests.graphs.one_rank"], timeout=100)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("as one process") == 3
    assert done.stdout.count("(1, 3), and there are 4 nodes of rank 1, 5 to 9 (run.owned(1))") == 3, done.stdout
