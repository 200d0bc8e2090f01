"""Reductions over ranks on real ranks: more of them than the programs need, and other sizes with other lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.mpi.shared_work import ready
from tests.programs.ranks.sums import STORIES, by_halves, i, in_a_tree, number, total
from tiramisu_py.backends.mpi.reduction_calls import RUNTIME
from tiramisu_py.toolchain.compilers.mpi import mpi4py


def check(f: tm.Function, given: dict[str, Any]) -> None:
    """Whether this rank has its part of the result, also when its line has combined something before."""
    made = ready(f, given)
    (part,) = made.wanted.values()
    for _ in range(2):
        np.testing.assert_array_equal(made.kernel(**made.given, comm=mpi4py().COMM_WORLD), part)


def check_all(names: Iterable[str]) -> None:
    for name in names:
        check(*STORIES[name]())


@pytest.mark.mpi(7)
def test_every_rank_has_what_all_add_up():
    check_all(
        (
            "total",
            "total in a tree",
            "halves",
            "an operator of the user",
            "parametric",
            "threads",
            "grid",
            "threads and vectors",
        )
    )


@pytest.mark.mpi(4, everywhere=True)
def test_lines_and_whole_grids():
    check_all(("product", "both axes", "steps", "number", "in a buffer", "histogram"))


@pytest.mark.mpi(7)
@pytest.mark.parametrize("share", [100, 240, 700])
def test_a_tree_has_the_bits_of_its_description(share: int):
    f, given = in_a_tree(700, share)
    comm = mpi4py().COMM_WORLD
    found = f.compile()(f.part("x", given["x"], comm.rank), comm=comm)
    if comm.rank * share < 700:
        np.testing.assert_array_equal(np.ravel(found), by_halves(given["x"], share))


@pytest.mark.mpi(4)
def test_each_operator_is_that_of_the_reduction():
    for operator, dtype in (
        (tm.product, tm.uint8), (tm.min, tm.float32), (tm.max, tm.int16), (tm.logical_and, tm.bool),
        (tm.logical_or, tm.bool), (tm.logical_and, tm.int32), (tm.logical_or, tm.uint16),
    ):  # fmt: skip
        check(*total(operator, dtype))


@pytest.mark.mpi(4)
def test_a_number_is_where_it_is_kept():
    f, given = number("result", owner=2)
    comm = mpi4py().COMM_WORLD
    found = f.compile()(f.part("x", given["x"], comm.rank), comm=comm)
    assert np.shape(found) == () and (found == given["x"].sum() or comm.rank != 2)


@pytest.mark.mpi(2)
def test_other_sizes_have_other_lines():
    f, given = STORIES["parametric"]()
    comm = mpi4py().COMM_WORLD
    kernel = f.compile()
    for length in (9, 5, 16, 9):
        x = given["x"][:length]
        found = kernel(f.part("x", x, comm.rank, N=length), N=length, comm=comm)
        np.testing.assert_array_equal(found, f.part("s", f.evaluate(x=x), comm.rank, N=length))


def test_one_rank_is_enough_for_one_block():
    f, given = total(length=20)
    if mpi4py() is not None:
        check(f, given)


def test_the_runtime_is_there_where_something_is_combined():
    f, _ = total()
    source = f.source()
    assert source[RUNTIME].count("MPI_Allreduce(MPI_IN_PLACE")
    assert "TM_ALL_REDUCE(" in source["total.c"]
    plain = tm.Function("plain", params=[])
    y = plain.computation("y", {i: 8}, 2 * plain.input("x", tm.int32, [8])[i])
    plain.outputs(y)
    y.tag_distribute(i).distribute_array([i], rank=i)
    assert RUNTIME not in plain.source()
