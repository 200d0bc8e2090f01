"""Ranks that store past the caches, and then send what they stored."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.mpi_programs import C, P, c, q, r, r1
from tiramisu_py.toolchain.compilers.mpi import mpi4py

B, COLUMNS = 8, 64


def stages() -> tm.Function:
    """Two stages in blocks of rows; the first is stored past the caches, and its edges are sent."""
    f = tm.Function("stages", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C])
    bx = f.computation("bx", {r: P * B, c: C}, image[r, c] * 0.5)
    by = f.computation("by", {r: (1, P * B - 1), c: C}, bx[r - 1, c] + bx[r + 1, c], shape=[P * B, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // B)
    for stage in (bx, by):
        stage.split(r, B, q, r1)
        stage.tag_distribute(q)
        stage.vectorize(c, 16).store_nontemporal(above=0)
    by.parallelize(r1)
    f.derive_transfers()
    return f


@pytest.mark.mpi(4)
def test_stored_rows_are_there_when_they_are_sent():
    comm = mpi4py().COMM_WORLD
    f = stages()
    source = f.source()["stages.c"]
    assert "const bool tm_streams = " in source and "TM_STREAMED(tm_streams);" in source
    assert source.index("TM_STREAMED(tm_streams);") < source.index("TM_SEND(")
    kernel = f.compile(threads=2)
    for columns in (COLUMNS, 33):
        image = np.random.default_rng(0).random((P * B, columns), dtype=np.float32)
        wanted = f.evaluate(image, C=columns)
        own = slice(comm.rank * B, (comm.rank + 1) * B)
        found = kernel(image[own].copy(), C=columns, comm=comm)
        inner = slice(max(own.start, 1), min(own.stop, P * B - 1))
        np.testing.assert_array_equal(found[inner.start - own.start : inner.stop - own.start], wanted[inner])
