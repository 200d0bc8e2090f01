"""Loads of elements a few apart, or in reverse: right, and never outside the elements that are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.compiled import SANITISERS, Compiled
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir import LoopFunction
from tiramisu_py.program.loops import Vector

N, i = size("N"), var("i")


def channels(dtype: DType, stride: int, width: int) -> LoopFunction:
    """``y[i] = x[stride * i + offset]`` for each offset, and backwards; x ends with the last element loaded."""
    wide = {k: result(f"y{k}", N, dtype=dtype) for k in range(stride)}
    loops = [
        loop("i", N, store(f"y{k}", i, load("x", stride * i + k, dtype=dtype), dtype), tag=Vector(width)) for k in wide
    ]
    back = loop("i", N, store("back", i, load("x", N - 1 - i, dtype=dtype), dtype), tag=Vector(width))
    arrays = [given("x", stride * N, dtype=dtype), *wide.values(), result("back", N, dtype=dtype)]
    return function("f", "N", arrays, *loops, back)


def check(compiled: Compiled, dtype: DType, stride: int, n: int, sanitised: bool = False) -> None:
    """Every channel is NumPy's slice."""
    x = np.random.default_rng(n).integers(0, 2 if dtype.is_bool else 100, stride * n).astype(dtype.numpy)
    found = {name: np.zeros(n, dtype.numpy) for name in [*(f"y{k}" for k in range(stride)), "back"]}
    if sanitised:
        found = compiled.sanitised({"N": n}, x=x, **found)
    else:
        compiled({"N": n}, x=x, **found)
    for k in range(stride):
        np.testing.assert_array_equal(found[f"y{k}"], x[k::stride])
    np.testing.assert_array_equal(found["back"], x[:n][::-1])


@pytest.mark.parametrize("width", [2, 16, 64])
@pytest.mark.parametrize("dtype", [ty.bool_, ty.uint8, ty.int16, ty.float32, ty.float64], ids=str)
def test_channels_are_taken_apart_exactly(dtype: DType, width: int) -> None:
    for stride in (2, 3, 4):
        compiled = Compiled(channels(dtype, stride, width), "-O1")
        for n in (0, 1, width, 3 * width + 1):
            check(compiled, dtype, stride, n)


def test_no_load_leaves_the_array() -> None:
    for dtype, stride in ((ty.uint8, 3), (ty.float32, 2), (ty.float32, 3), (ty.int16, 4)):
        compiled = Compiled(channels(dtype, stride, 16), "-O0", *SANITISERS)
        for n in (16, 48):
            check(compiled, dtype, stride, n, sanitised=True)


def test_small_elements_are_shuffled_and_large_ones_loaded_one_by_one() -> None:
    assert "load_strided_3_uint8x16(&x[3*i])" in Compiled(channels(ty.uint8, 3, 16), "-O1").source
    assert "load_reversed_float32x16(&x[N - i - 1])" in Compiled(channels(ty.float32, 2, 16), "-O1").source
    assert "TM_STRIDED(float64x8, &x[2*i], 2)" in Compiled(channels(ty.float64, 2, 8), "-O1").source
