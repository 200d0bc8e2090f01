"""Layers in the way that is measured to be the fastest on a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import MODELS
from tests.graphs.test_models import GRAPHS, arguments, graph_of, layer


def test_a_layer_is_taken_in_its_fastest_way_which_is_measured_once(tmp_path: Path) -> None:
    edges = GRAPHS["a hub"]
    graph, given = graph_of(edges), arguments("rgcn", edges)
    made = layer("rgcn", compact="count", sum_first=False, sums="nodes", runs=False)
    best, again = (made.tuned(graph, tiles=[8], threads=1, repeats=1, database=tmp_path / "t.sqlite") for _ in range(2))
    assert sorted(each.rewrites for each in best.measured) == ["compact", "none of these"]
    times = [each.seconds for each in best.measured]
    assert times == sorted(times) and times[0] > 0
    assert again.measured == best.measured, "the database has them"
    head = best.explain(graph).split("\n")[:3]
    assert (
        head[0] == f"choices, measured on {graph}:"
        and head[1].endswith("ms, taken")
        and "tiles of 8 vectors" in head[2]
    )
    run = best.on(graph)
    assert run.machine.tile == 8
    assert any("compact" in line for line in best.explain().split("\n")) or "compact" not in head[1]
    np.testing.assert_allclose(run(**given), MODELS["rgcn"].reference(edges, **given), rtol=1e-10, atol=1e-12)


def test_tiles_that_are_no_numbers_are_refused() -> None:
    graph = graph_of(GRAPHS["a hub"])
    wrong: Any
    for wrong in ([], [0], ["8"], 8):
        with pytest.raises(tm.ArgumentError, match=r"tiles=.*: give numbers of vectors, such as tiles=\[8, 16\]"):
            layer("rgcn").tuned(graph, tiles=wrong)
