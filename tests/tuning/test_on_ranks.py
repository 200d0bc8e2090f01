"""Parts on ranks: measured by all of them together, with one answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tiramisu_py as tm
from tests.programs.partitioned import MACHINE, C, G, R, c, r

SIZES = {"R": 400, "C": 80}


def doubled() -> tm.Function:
    """Rows below G on rank 0, the others on rank 1, where they stay."""
    f = tm.Function("doubled", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    a = f.input("a", tm.float32, [R, C])
    b = f.computation("b", {r: R, c: C}, a[r, c] * 2)
    f.outputs(b)
    b.partition(r, [G], [tm.cores(ranks=0), tm.cores(ranks=1)])
    for array in (a, b):
        array.distribute_array([r, c], rank=tm.pieces(r, [G]))
    f.derive_transfers()
    return f


@pytest.mark.mpi(2)
def test_ranks_measure_together_and_get_the_same_answer() -> None:
    comm = pytest.importorskip("mpi4py.MPI").COMM_WORLD
    split = tm.balance(doubled(), SIZES, comm=comm, small={"R": 100}, rounds=1)
    assert split.measured
    assert [run["R"] for run in split.runs] == [100, 50]
    answers = comm.allgather((dict(split.points), split.seconds))
    assert answers[0] == answers[1]
    assert sum(part.iterations for part in split.parts) == 400


class Alone:
    """A communicator of one rank."""

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 1

    def allgather(self, value: object) -> list[object]:
        return [value]

    def bcast(self, value: object) -> object:
        return value


def test_with_too_few_ranks_nothing_is_run() -> None:
    assert not tm.balance(doubled(), SIZES, comm=Alone()).measured


def test_without_ranks_they_are_estimated() -> None:
    split = tm.balance(doubled(), SIZES, machine=MACHINE)
    assert split.points == {"G": 200}
    assert [part.target for part in split.parts] == ["cores of rank 0", "cores of rank 1"]


def test_a_part_that_is_dealt_out_to_several_ranks_is_as_much_faster() -> None:
    f = tm.Function("f", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    a = f.input("a", tm.float32, [R, C])
    b = f.computation("b", {r: R, c: C}, a[r, c] * 2)
    f.outputs(b)
    b.partition(r, [G], [tm.cores(ranks=range(3)), tm.cores(ranks=3)])
    f.derive_transfers()
    at_once = replace(MACHINE, network_bandwidth=1e30, network_latency=0.0)
    split = tm.balance(f, SIZES, machine=at_once)
    assert split.points == {"G": 300}
    assert split.parts[0].target == "cores of ranks 0 to 2"
