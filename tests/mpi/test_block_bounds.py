"""Blocks with bounds that are known at run time, on ranks: any split, any number of ranks, and what they agree on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.proof.messages.test_block_bounds import DOWN, FAR, NEAR, PHASES, UP, WIDE_DOWN, WIDE_UP, built, stencil
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.toolchain.calls.communicators import balanced
from tiramisu_py.toolchain.compilers.mpi import mpi4py


def check_on_all_splits(f: Any, reach: tuple[int, ...], least: int) -> None:
    comm = mpi4py().COMM_WORLD
    kernel, rng = f.compile(), np.random.default_rng(3)
    for rows in (1, 5, 12):
        used = max(1, min(comm.size, rows // least))
        for trial in range(2):
            bounds = [0, *(balanced(rows, comm.size, rank, least)[1] for rank in range(comm.size))]
            if trial and used > 1:  # any other split that leaves each rank enough
                free = rows - used * least
                cuts = np.sort(rng.integers(0, free + 1, used - 1))
                bounds = [0, *(int(cut) + least * (k + 1) for k, cut in enumerate(cuts)), rows]
                bounds += [rows] * (comm.size + 1 - len(bounds))
            whole = rng.random(rows, dtype=np.float32)
            mine = kernel(whole[bounds[comm.rank] : bounds[comm.rank + 1]], comm=comm)
            got = np.concatenate(comm.allgather(mine))
            inside = slice(max(0, -min(reach)), max(0, rows - max(reach)))
            if inside.start < inside.stop:
                wanted = f.evaluate(image=whole, lo=0, hi=rows)
                np.testing.assert_array_equal(got[inside], wanted[inside])


@pytest.mark.mpi(1)
def test_a_single_rank_has_everything() -> None:
    check_on_all_splits(stencil((DOWN, UP), PHASES), NEAR, 1)


@pytest.mark.mpi(3)
def test_a_stencil_is_right_for_any_split() -> None:
    check_on_all_splits(stencil((DOWN, UP), PHASES), NEAR, 1)


@pytest.mark.mpi(4)
def test_halos_of_two_rows_are_right_for_any_split_that_is_wide_enough() -> None:
    both = {"send_props": [tm.NONBLOCK], "recv_props": [tm.NONBLOCK]}
    f, made = built((WIDE_DOWN, WIDE_UP), FAR, **both)
    halves = [half for name in ("down", "up") for half in (made[name].send, made[name].recv)]
    for half in halves:
        half.collapse_many(tm.iters("r")[0])
    f.order(f["bx"], *halves, *(half.wait() for half in halves), f["by"], at=tm.root)
    check_on_all_splits(f, FAR, 2)


@pytest.mark.mpi(3)
def test_blocks_that_do_not_fit_are_an_error_on_every_rank() -> None:
    comm = mpi4py().COMM_WORLD
    kernel = stencil((WIDE_DOWN, WIDE_UP), PHASES, FAR).compile()
    rows = np.zeros(5, dtype=np.float32)
    lower = 5 * comm.rank
    assert kernel(rows, comm=comm).shape == (5,)
    for wrong in ({"lo": lower, "hi": lower + 5, "R": 16}, {"lo": lower + 1, "hi": lower + 6, "R": 16}):
        with pytest.raises(KernelError, match="blocks must follow one another"):
            kernel(rows, comm=comm, **wrong)
    narrow = [0, 3, 4, 8]
    with pytest.raises(KernelError, match=r"rank 1 of 3 has the block from lo = 3 up to hi = 4.*R = 8, each with 2"):
        kernel(rows[: narrow[comm.rank + 1] - narrow[comm.rank]], comm=comm)
    with pytest.raises(ArgumentError):
        kernel(rows, comm=comm, lo="nowhere" if comm.rank == 2 else lower)
    assert kernel(rows, comm=comm).shape == (5,)
