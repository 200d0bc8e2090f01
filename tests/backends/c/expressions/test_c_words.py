"""The short words in C, one by one and in vectors, against Python's own numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.c.expressions.test_c_arithmetic import FLOATS, INTEGERS, Case, check, samples
from tests.backends.c.expressions.word_cases import Word, of_floats, of_integers, wanted
from tests.programs.loop_ir.short_names import load, var
from tiramisu_py.algorithm.types import DType


def cases(words: dict[str, Word], dtype: DType, x: object, y: object) -> dict[str, Case]:
    a, b = load("x", var("i"), dtype=dtype), load("y", var("i"), dtype=dtype)
    return {name: Case(word[0], wanted(word, x, y, word[0](a, b).dtype)) for name, word in words.items()}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_words_on_integers_are_exact(dtype: DType) -> None:
    x, y = samples(dtype, 21), samples(dtype, 22)
    y[::2] = np.arange(len(y[::2])) % (dtype.bits + 2)
    check(cases(of_integers(dtype), dtype, x, y), dtype, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_words_on_floats_are_exact(dtype: DType) -> None:
    x, y = samples(dtype, 23), samples(dtype, 24)
    powers = [side * 2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64) for side in (1, -1)]
    with np.errstate(all="ignore"):
        x[: len(powers)] = np.array(powers).astype(dtype.numpy)
        x[20:36] = np.nextafter(x[:16].astype(np.float32), np.float32(0)).astype(dtype.numpy)
    check(cases(of_floats(dtype), dtype, x, y), dtype, x, y)
