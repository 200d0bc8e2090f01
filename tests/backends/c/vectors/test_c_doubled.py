"""Loads that advance by one element in two lanes: right at any offset, and never outside the elements that are read."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir import LoopFunction
from tiramisu_py.program.loops import Vector

N, i = size("N"), var("i")
PLACES = {
    "near": i // 2,
    "next": (i + 1) // 2,
    "far": i // 2 + 2 * (i % 2),
    "back": i - i // 2,
    "third": i // 3,
    "all": 2 * (i // 2) + i % 2,
}


def places(dtype: DType, width: int) -> LoopFunction:
    """``y[i] = x[place of i]`` for each of the places."""
    stores = [store(name, i, load("x", at, dtype=dtype), dtype) for name, at in PLACES.items()]
    loops = [loop("i", N, each, tag=Vector(width)) for each in stores]
    return function("f", "N", [given("x", N + 1, dtype=dtype), *(result(n, N, dtype=dtype) for n in PLACES)], *loops)


def check(compiled: Compiled, dtype: DType, n: int, sanitised: bool = False) -> None:
    x = np.random.default_rng(n).integers(0, 100, n + 1).astype(dtype.numpy)
    found = {name: np.zeros(n, dtype.numpy) for name in PLACES}
    if sanitised:
        found = compiled.sanitised({"N": n}, x=x, **found)
    else:
        compiled({"N": n}, x=x, **found)
    k = np.arange(n)
    np.testing.assert_array_equal(found["near"], x[k // 2])
    np.testing.assert_array_equal(found["next"], x[(k + 1) // 2])
    np.testing.assert_array_equal(found["far"], x[k // 2 + 2 * (k % 2)])
    np.testing.assert_array_equal(found["back"], x[(k + 1) // 2])
    np.testing.assert_array_equal(found["third"], x[k // 3])
    np.testing.assert_array_equal(found["all"], x[k])


@pytest.mark.parametrize("width", [2, 4, 16, 64])
@pytest.mark.parametrize("dtype", [ty.uint8, ty.float32, ty.float64], ids=str)
def test_even_and_odd_lanes_come_from_two_loads(dtype: DType, width: int) -> None:
    compiled = Compiled(places(dtype, width), "-O1")
    for n in (0, 1, width, 3 * width + 1):
        check(compiled, dtype, n)
    assert ("load_alternating_" in compiled.source) == (width > 2)


def test_nothing_is_loaded_that_no_lane_reads() -> None:
    compiled = Compiled(places(ty.float32, 16), "-O0", *SANITISERS)
    for n in (16, 48):
        check(compiled, ty.float32, n, sanitised=True)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("remainder", ["scalar", "mask", "overlap"])
def test_a_line_is_enlarged_from_any_place(first: int, remainder: str) -> None:
    (M,) = tm.params("M")
    (c,) = tm.iters("c")
    f = tm.Function("larger", params=[M], assume="M >= 1")
    a = f.input("a", tm.float32, [M + 2])
    wide = f.computation("wide", {c: (first, 2 * M)}, a[c // 2 + 1] * 3 + a[c // 2 + 2 * (c % 2)], shape=[2 * M])
    f.outputs(wide)
    wide.vectorize(c, 16, remainder=remainder)
    kernel = f.compile()
    lanes = min(16, tm.target().lanes(tm.float32))
    assert f"load_alternating_float32x{lanes}" in "".join(kernel.source.values())
    for m in (1, 7, 16, 33):
        x = np.random.default_rng(m).integers(0, 50, m + 2).astype(np.float32)
        k = np.arange(first, 2 * m)
        np.testing.assert_array_equal(kernel(x)[first:], x[k // 2 + 1] * 3 + x[k // 2 + 2 * (k % 2)])
