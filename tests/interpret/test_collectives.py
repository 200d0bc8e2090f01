"""Calls of all ranks in one process: the values arrive in any order, and every rank must come to the same call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.collectives import element_by_element, exchange, gathered, steps
from tiramisu_py.interpret import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.ranks.collective_meetings import Meetings, halves


def derived() -> tm.Function:
    f, _, _ = gathered()
    f.derive_transfers(collectives=True)
    return f


@pytest.mark.parametrize("story", [exchange, element_by_element, steps, derived])
@pytest.mark.parametrize("seed", range(6))
def test_values_are_those_of_the_algorithm(story: Callable[[], tm.Function], seed: int) -> None:
    f = story()
    shape = {"transposed": (6, 6), "panels": (3, 4), "gathered": (6,)}[f.name]
    a = np.random.default_rng(seed).random(shape, dtype=np.float32)
    np.testing.assert_array_equal(f.simulate(a=a, seed=seed), f.evaluate(a=a))


def test_ranks_must_come_to_the_same_call() -> None:
    meetings = Meetings(2)
    meeting = meetings.join(0, "x", None)
    assert not meeting.arrived
    with pytest.raises(InterpretError, match="other ranks x"):
        meetings.join(0, "y", None)
    with pytest.raises(InterpretError, match="root"):
        meetings.join(0, "x", 1)
    meetings.join(0, "x", None)
    assert meeting.arrived


def test_what_is_received_must_not_lie_where_something_is_sent_from() -> None:
    array = Array("a", np.zeros(4, np.float32), np.ones(4, bool), 1)
    at = [(np.array([1, 2]),)]
    with pytest.raises(InterpretError, match="x"):
        list(halves(0, 2, "x", (array, array), ({1: at}, {1: at}), None))
