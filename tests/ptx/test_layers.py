"""Layers of graph networks on the machine: kernels on several streams, launched as a graph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graphs.test_models import GRAPHS, arguments, graph_of, layer
from tests.ptx import running


@pytest.mark.ptx
@pytest.mark.parametrize("launch_graph", [False, True])
def test_a_layer_on_several_streams(launch_graph: bool) -> None:
    edges = GRAPHS["a hub"]
    given, made = arguments("rgat", edges), layer("rgat")
    run = made.on(graph_of(edges), device="gpu", launch_graph=launch_graph)
    wanted = made.on(graph_of(edges))(**given)
    for seed in range(10):
        running.choose(f"seed={seed} streams={('eager', 'lazy', 'shuffled')[seed % 3]}")
        np.testing.assert_allclose(run(**given), wanted, rtol=1e-12)
