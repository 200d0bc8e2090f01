"""Copies of a value in all threads of a row: what nvcc makes of them, executed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs.gpu.replicas import expected, numbers, replicated


@pytest.mark.slow
@pytest.mark.ptx
def test_each_thread_of_a_row_has_its_own_copies() -> None:
    kernel = replicated().compile(device="gpu")
    for steps, count in ((1, 0), (1, 1), (3, 5), (4, 7)):
        a, z = numbers(steps, count)
        np.testing.assert_array_equal(kernel(a, z), expected(a, z))
