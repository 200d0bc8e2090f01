"""Layers on ranks that own blocks of nodes: values, gradients, and one exchange for the features of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.folders import modules_of

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
