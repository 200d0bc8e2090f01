"""The short words in kernels, on the simulator, against Python's own numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.backends.c.expressions.test_c_arithmetic import FLOATS, INTEGERS, samples
from tests.backends.c.expressions.test_c_words import cases
from tests.backends.c.expressions.word_cases import of_floats, of_integers
from tests.backends.cuda.test_emit_arithmetic import check
from tiramisu_py.algorithm.types import DType


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_words_in_kernels_are_exact(dtype: DType, tmp_path: Path) -> None:
    x, y = samples(dtype, 25), samples(dtype, 26)
    if dtype.is_integer:
        y[::2] = np.arange(len(y[::2])) % (dtype.bits + 2)
    words = of_floats(dtype) if dtype.is_float else of_integers(dtype)
    check(cases(words, dtype, x, y), dtype, x, y, tmp_path)
