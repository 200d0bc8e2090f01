"""CUDA graphs of launches on the machine: nothing but what the graph says orders them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx import running
from tests.toolchain.gpu.test_launch_graphs import steps


@pytest.mark.ptx
@pytest.mark.parametrize("streams", [False, True])
def test_a_graph_runs_what_nvcc_makes_of_the_kernels(streams: bool) -> None:
    kernel = steps(streams).compile(device="gpu", graph=True)
    for seed in range(6):
        running.choose(f"seed={seed}")
        x = np.random.default_rng(seed).random(150 + seed)
        np.testing.assert_array_equal(kernel(x), 2 * x * (2 * x - x + 3))
        assert kernel.launches.graphs == 1
