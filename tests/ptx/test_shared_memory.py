"""Shared memory that launches ask for: what nvcc makes of its arrays, executed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.test_shared_memory import two
from tests.ptx import running


@pytest.mark.ptx
def test_compiled_code_has_its_arrays_where_the_launch_has_room() -> None:
    kernel = two().compile(device="gpu")
    a = np.random.default_rng(2).integers(0, 9, (3, 96, 96)).astype(np.int32)
    for seed in range(2):
        running.choose(f"seed={seed}")
        np.testing.assert_array_equal(kernel(a), a[:, ::-1] + a[:, :, ::-1])
