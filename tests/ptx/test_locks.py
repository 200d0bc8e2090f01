"""Locks of blocks: what nvcc makes of them, executed, with blocks and stores in many orders."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx import running
from tests.schedule.devices.test_locks import ROWS, sums


@pytest.mark.ptx
def test_blocks_that_wait_for_a_lock_add_all_terms() -> None:
    kernel, given = sums().compile(device="gpu"), ROWS[:12, :14].copy()
    for seed in range(8):
        running.choose(f"seed={seed}")
        np.testing.assert_array_equal(kernel(given), given.sum(1))
