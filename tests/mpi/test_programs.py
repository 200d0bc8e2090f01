"""What ranks have to offer, on real ranks: one more of them than the programs need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.mpi.programs import PROGRAMS, P, blur, c, exchanged, picture, time_outside
from tests.oracle.rank_arrays import agreed, ran_on_ranks
from tiramisu_py.build.mpi import mpi4py
from tiramisu_py.errors import UnsupportedError

RANKS = P + 1


def listed(results: Any) -> tuple[np.ndarray, ...]:
    """One result or several, as a tuple."""
    return results if isinstance(results, tuple) else (np.asarray(results),)


def check_on_ranks(f: tm.Function, given: dict[str, Any]) -> None:
    """Whether this rank has its part of every output, bit for bit: none of what is dealt out, beyond the grid."""
    comm = mpi4py().COMM_WORLD
    wanted = listed(f.evaluate(**given))
    mine = {name: f.part(name, x, comm.rank) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    found = listed(f.compile()(**mine, comm=comm))
    for name, whole, own in zip(f.algorithm.outputs, wanted, found, strict=True):
        part = f.part(name, whole, comm.rank)
        assert own.dtype == part.dtype
        np.testing.assert_array_equal(own, part, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right_on_simulated_ranks_and_sends_what_was_counted(name: str) -> None:
    f, given = PROGRAMS[name]()
    assert f.check().ok, f.check()
    for seed in range(3):
        ran = ran_on_ranks(f, seed=seed, **given)
        assert not agreed(f, ran.outputs if len(ran.outputs) > 1 else ran.outputs[0], **given)
    counted = f.communication(**{param: given[param] for param in f.algorithm.params})
    assert (ran.traffic.bytes, ran.traffic.messages) == (counted.bytes, counted.messages)


@pytest.mark.mpi(RANKS)
def test_programs_are_right_on_ranks() -> None:
    for make in PROGRAMS.values():
        check_on_ranks(*make())


@pytest.mark.mpi(RANKS)
def test_parts_of_all_ranks_make_up_the_whole_also_where_some_have_nothing_to_do() -> None:
    comm = mpi4py().COMM_WORLD
    f, _, _ = blur()
    f.derive_transfers()
    given = picture()
    parts = comm.allgather(f.compile()(f.part("image", given["image"], comm.rank), comm=comm))
    assert [part.shape for part in parts] == [(3, 9)] * 4 + [(0, 9)]
    np.testing.assert_array_equal(np.concatenate(parts)[1:-1], f.evaluate(**given)[1:-1])


@pytest.mark.parametrize("kept", [None, 2])
def test_a_persistent_request_is_for_one_place_and_the_message_says_how_to_have_two(kept: int | None) -> None:
    f, _ = time_outside(kept, [tm.NONBLOCK, tm.PERSISTENT])
    assert f.check().ok
    with pytest.raises(UnsupportedError, match=r"right\.send cannot be persistent: .*set_wait_access"):
        f.lowered()


def test_requests_that_are_used_again_before_the_wait_are_refused() -> None:
    f, bx, by, down, up = exchanged([tm.NONBLOCK], [])
    down.send.set_wait_access(c % 2)
    f.order(bx, down.send, down.recv, up.send, up.recv, down.send.wait(), up.send.wait(), by, at=tm.root)
    (found,) = f.check().violations
    assert (found.kind, dict(found.witness.params)) == ("race", {"C": 3})
    assert "down.send of bx[2, 2] uses a request on rank 0 before the wait for down.send of bx[2, 0]" in found.message
