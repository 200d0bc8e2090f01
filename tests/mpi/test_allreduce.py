"""Reductions over ranks on real ranks: more of them than the programs need, and as many bytes as were counted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.mpi.test_programs import check_on_ranks
from tests.rank_sums import STORIES, total
from tiramisu_py.backends.mpi.reductions import RUNTIME
from tiramisu_py.build.mpi import mpi4py


@pytest.mark.mpi(7, everywhere=True)
def test_every_rank_has_what_all_add_up():
    for make in STORIES.values():
        f, given = make()
        check_on_ranks(f, given)
        check_on_ranks(f, given)  # now with the communicators of the first call


@pytest.mark.mpi(2)
def test_other_sizes_have_other_lines():
    f, given = STORIES["parametric"]()
    kernel = f.compile()
    comm = mpi4py().COMM_WORLD
    for length in (9, 5, 16, 9):
        x = given["x"][:length]
        found = kernel(f.part("x", x, comm.rank, N=length), N=length, comm=comm)
        if comm.rank < -(-length // 8):
            np.testing.assert_array_equal(found, f.evaluate(x=x))


@pytest.mark.mpi(1)
def test_one_rank_is_enough_for_one_block():
    f, given = total(length=20)
    check_on_ranks(f, given)


def test_the_source_has_the_runtime_only_where_it_combines(tmp_path):
    f, _ = total()
    kernel_source = f.c_source() if hasattr(f, "c_source") else ""
    assert not kernel_source or RUNTIME in kernel_source
