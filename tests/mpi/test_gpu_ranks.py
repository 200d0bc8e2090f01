"""Ranks that each drive a (simulated) GPU."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.derive.gpu_ranks import blur_on_gpus, heat_on_gpus
from tiramisu_py.build.mpi import mpi4py


@pytest.mark.mpi(2)
@pytest.mark.skipif(shutil.which("g++") is None, reason="the simulator's kernels need g++")
def test_ranks_compute_on_gpus() -> None:
    comm = mpi4py().COMM_WORLD
    random = np.random.default_rng(0)
    for f, given in (
        (blur_on_gpus(2, 8), {"image": random.random((16, 22), dtype=np.float32), "C": 20}),
        (heat_on_gpus(2, 4), {"u0": random.random((8, 5), dtype=np.float32), "T": 3, "C": 5}),
    ):
        f.derive_transfers()
        mine = {name: f.part(name, x, comm.rank) if isinstance(x, np.ndarray) else x for name, x in given.items()}
        found = f.compile(device="simulator", sanitize=True)(**mine, comm=comm)
        (name,) = f.algorithm.outputs
        np.testing.assert_array_equal(found, f.part(name, f.evaluate(**given), comm.rank))
