"""Messages under the address and undefined-behaviour sanitisers."""

from __future__ import annotations

import sys

import pytest

from tests.mpi.launching import implementations
from tests.sanitizers import ADDRESS, runtime

PROGRAM = """
import numpy as np
from mpi4py import MPI
from tests.programs.loop_ir.messages import compiled
from tests.programs.loop_ir.rings import elements, ring, steps
from tests.sanitizers import sanitized_process
from tiramisu_py.program.statement import SendMode
sanitized_process()
rank = MPI.COMM_WORLD.rank
options = {"sanitize": ("address", "undefined")}
for name, mode in (("chequered", SendMode.STANDARD), ("triangle", SendMode.BUFFERED)):
    function = ring(elements()[name], elements()[name], mode=mode, parallel=True)
    compiled(function, **options)(np.ones((5, 6), np.float32))
got = compiled(steps(True), **options)(np.full(6, 1 + rank, np.float32), T=1)
assert (got == 1 + rank + 1 + (rank - 1) % 4).all()
print("sanitised")
"""


@pytest.mark.skipif(not implementations(), reason="no MPI on this machine")
def test_messages_under_sanitisers(tmp_path):
    preloaded = [runtime(name) for name in ("libasan.so", "libubsan.so")]
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    mpi = next(iter(implementations().values()))
    command = ["env", f"LD_PRELOAD={' '.join(preloaded)}", sys.executable, "-c", PROGRAM]
    done = mpi.run(4, command, timeout=200, ASAN_OPTIONS=ADDRESS, TIRAMISU_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("sanitised") == 4
