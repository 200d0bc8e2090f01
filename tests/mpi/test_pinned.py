"""Threads of ranks: each rank of a machine on the memory node of its number, those of a node on cpus of their own."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tiramisu_py as tm
from tests.toolchain.machine.test_numa import _OWN
from tiramisu_py.toolchain.compilers.mpi import mpi4py

r, c, q, r1 = tm.iters("r c q r1")
ROWS = 4


def affinities(ranks: int) -> tm.Function:
    """For each rank, the cpus on which each of its iterations may run."""
    C = tm.params("C")[0]
    f = tm.Function("affinities", params=[C])
    own = tm.extern("own_cpus", [tm.int64], tm.int64, python=lambda t: t, source=_OWN)
    x = f.input("x", tm.int64, [ROWS * ranks, C])
    out = f.computation("out", {r: ROWS * ranks, c: C}, own(x[r, c]))
    f.outputs(out)
    for array in (x, out):
        array.distribute_array([r, c], rank=r // ROWS)
    out.split(r, ROWS, q, r1)
    out.tag_distribute(q)
    return f


def on_nodes(masks: list[int]) -> list[int]:
    """The memory node of each mask of one cpu."""
    return [next(n.number for n in tm.memory_nodes() if mask.bit_length() - 1 in n.cpus) for mask in masks]


@pytest.mark.mpi(3, everywhere=True)
def test_ranks_take_turns_on_nodes_and_share_their_cpus():
    comm = mpi4py().COMM_WORLD
    cpus = os.sched_getaffinity(0)
    kernel = affinities(2).compile(pin="node")
    for _ in range(2):
        x = kernel.empty("x", C=3, comm=comm)
        assert x.shape == ((ROWS, 3) if comm.rank < 2 else (0, 3))
        found = kernel(x, C=3, comm=comm)
        assert os.sched_getaffinity(0) == cpus
    everyone = comm.allgather((sorted(cpus), np.unique(found).tolist()))
    for allowed, masks in everyone[:2]:
        assert [mask.bit_count() for mask in masks] == [1]
        assert masks[0].bit_length() - 1 in allowed
    if len({tuple(allowed) for allowed, _ in everyone}) == 1 and len(cpus) >= 4:
        assert everyone[0][1] != everyone[1][1], "ranks with the same cpus have one of their own each"
    assert everyone[2][1] == []


@pytest.mark.mpi(2)
def test_a_rank_that_cannot_be_pinned_is_an_error_of_all():
    comm = mpi4py().COMM_WORLD
    kernel = affinities(2).compile(pin="node:901")
    with pytest.raises(tm.KernelError, match="memory node 901"):
        kernel(np.zeros((ROWS, 3), np.int64), comm=comm)


@pytest.mark.mpi(3)
def test_temporaries_of_ranks_can_be_placed():
    comm = mpi4py().COMM_WORLD
    C = tm.params("C")[0]
    f = tm.Function("twice", params=[C])
    x = f.input("x", tm.float32, [2 * ROWS, C])
    y = f.computation("y", {r: 2 * ROWS, c: C}, x[r, c] + 1)
    out = f.computation("out", {r: 2 * ROWS, c: C}, y[r, c] * y[r, c])
    f.outputs(out)
    for array in (x, out):
        array.distribute_array([r, c], rank=r // ROWS)
    for stage in (y, out):
        stage.split(r, ROWS, q, r1)
        stage.tag_distribute(q)
    y.place("bind", node=tm.memory_nodes()[0].number)
    kernel = f.compile(pin="close")
    assert "TM_NEEDED(twice" in kernel.source["twice.c"] and "tm_map_pages(" in kernel.source["twice.c"]
    own = kernel.empty("x", C=5)
    own[:] = comm.rank
    np.testing.assert_array_equal(kernel(own, C=5), (own + 1) ** 2)
    y.place("bind", node=917)
    with pytest.raises(tm.KernelError, match="y is placed on memory node 917"):
        f.compile()(own, C=5)
