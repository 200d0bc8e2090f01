"""A value of one array or of another that the same loop writes: compilers may choose a pointer and load once.

All arrays are `restrict`. On GPUs such a load went through the read-only cache (tests/ptx/test_found.py).
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tiramisu_py as tm

N = tm.params("N")[0]
i = tm.iters("i")[0]


def choices(dtype: tm.DType, vectors: bool) -> tm.Function:
    """Of the input or of what has just been stored, at the same place, before it, and in place of the input."""
    f = tm.Function("choices", params=[N])
    a = f.input("a", dtype, [N])
    b = f.computation("b", {i: N}, a[i] + a[i])
    o = f.computation("o", {i: N}, tm.where(a[i] > 4, a[i], b[i]))
    p = f.computation("p", {i: N}, tm.where(a[i] > 3, b[tm.maximum(i - 1, 0)], a[i]))
    f.outputs(o, p, b)
    if vectors:
        f.order(b, o, at=i)
        b.vectorize(i, 16)
    else:
        f.order(b, o, p, at=i)
    return f


@pytest.mark.optimised
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("dtype", [tm.float32, tm.float64, tm.int8, tm.int32, tm.int64], ids=str)
def test_a_choice_of_arrays_has_what_was_stored(dtype: tm.DType, vectors: bool, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    f = choices(dtype, vectors)
    given = np.random.default_rng(1).integers(0, 9, 71).astype(dtype.numpy)
    b = given + given
    before = b[np.maximum(np.arange(71) - 1, 0)]
    found = f.compile(compiler=compiler)(given)
    for own, right in zip(found, (np.where(given > 4, given, b), np.where(given > 3, before, given), b), strict=True):
        np.testing.assert_array_equal(own, right)
