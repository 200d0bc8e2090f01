"""Threads inside of ranks need an MPI that was initialised for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import mpi4py
mpi4py.rc.thread_level = "{level}"
from mpi4py import MPI
import numpy as np
import tiramisu_py as tm
q, r, r1, c = tm.iters("q r r1 c")
f = tm.Function("twice", params=[])
a = f.input("a", tm.float32, [8, 3])
b = f.computation("b", {{r: 8, c: 3}}, a[r, c] * 2)
f.outputs(b)
for array in (a, b):
    array.distribute_array([r, c], rank=r // 8)
b.split(r, 8, q, r1)
b.tag_distribute(q)
b.parallelize(r1)
try:
    print(MPI.Query_thread() >= MPI.THREAD_FUNNELED, f.compile()(np.ones((8, 3), np.float32)).sum())
except tm.KernelError as error:
    print(MPI.Query_thread() >= MPI.THREAD_FUNNELED, error)
"""


@pytest.mark.parametrize("level", ["single", "funneled"])
def test_threads_inside_of_ranks_demand_funneled(level):
    pytest.importorskip("mpi4py")
    command = [sys.executable, "-c", PROGRAM.format(level=level)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    enough, _, rest = done.stdout.strip().partition(" ")
    if enough == "True":  # more than was asked for, perhaps
        assert rest == "48.0"
    else:
        assert level == "single"
        assert "MPI_THREAD_FUNNELED" in rest
