"""Collective exchanges on real ranks: right, also with a rank beyond the grid, and no byte more than is counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tests.mpi.shared_work import ready
from tests.oracle.judges.rank_arrays import agreed, ran_on_ranks
from tests.programs.ranks.collectives import all_to_all, broadcasts, c, gathered, k, panels, r, transposed
from tiramisu_py.toolchain.compilers.mpi import mpi4py

RANKS = 4


def exchange(ranks: int) -> tm.Function:
    f, b, _ = transposed(ranks)
    all_to_all(f, b, ranks).collapse_many(r, c)
    return f


def element_by_element(ranks: int) -> tm.Function:
    f, b, _ = transposed(ranks)
    all_to_all(f, b, ranks)
    return f


def transposition_derived(ranks: int) -> tm.Function:
    f, _, _ = transposed(ranks)
    f.derive_transfers(collectives=True)
    return f


def gathering_derived(ranks: int) -> tm.Function:
    f, _, _ = gathered(ranks)
    f.derive_transfers(collectives=True)
    return f


def steps(ranks: int) -> tm.Function:
    f, b, _ = panels(ranks)
    x = broadcasts(f, b, ranks)
    f.order(x.send, x.recv, at=k)
    return f


STORIES: list[Callable[[int], tm.Function]] = [
    exchange, element_by_element, transposition_derived, gathering_derived, steps
]  # fmt: skip
SHAPES = {"transposed": lambda ranks: (2 * ranks, 2 * ranks), "gathered": lambda ranks: (2 * ranks,)}


def given(f: tm.Function, ranks: int) -> np.ndarray:
    shape = SHAPES.get(f.name, lambda ranks: (ranks, 4))(ranks)
    return np.random.default_rng(ranks).random(shape, dtype=np.float32)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_a_simulated_run_sends_what_was_counted(story: Callable[[int], tm.Function], ranks: int) -> None:
    f = story(ranks)
    assert f.check().ok, f.check()
    a = given(f, ranks)
    ran = ran_on_ranks(f, seed=ranks, a=a)
    assert not agreed(f, ran.outputs[0], a=a)
    counted = f.cost("communication")
    assert (ran.traffic.bytes, ran.traffic.messages) == (counted.bytes, counted.messages)


@pytest.mark.mpi(RANKS)
def test_stories_are_right_on_all_ranks_and_on_fewer() -> None:
    comm = mpi4py().COMM_WORLD
    for story in STORIES:
        for ranks in (RANKS, RANKS - 1, 2, RANKS - 1):
            f = story(ranks)
            made = ready(f, {"a": given(f, ranks)})
            (wanted,) = made.wanted.values()
            np.testing.assert_array_equal(made.kernel(**made.given, comm=comm), wanted)
