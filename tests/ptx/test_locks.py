"""Locks of blocks: what nvcc makes of them, executed, with blocks and stores in many orders."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.ptx import running
from tests.schedule.devices.test_blocks_in_order import ROWS as FLOATS
from tests.schedule.devices.test_locks import ROWS, sums


@pytest.mark.ptx
def test_blocks_that_wait_for_a_lock_add_all_terms() -> None:
    kernel, given = sums().compile(device="gpu"), ROWS[:12, :14].copy()
    for seed in range(8):
        running.choose(f"seed={seed}")
        np.testing.assert_array_equal(kernel(given), given.sum(1))


@pytest.mark.ptx
def test_blocks_in_the_order_of_their_numbers_give_the_bits_of_one() -> None:
    kernel, given = sums(combine=tm.ORDERED).compile(device="gpu"), FLOATS[:12, :14].copy()
    wanted = np.zeros(12, np.float32)
    for column in range(14):
        wanted += given[:, column]
    for seed in range(8):
        running.choose(f"seed={seed}")
        np.testing.assert_array_equal(kernel(given), wanted)
