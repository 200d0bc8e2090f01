"""Vectors read from between two others, for every type and processor."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.compiled import Compiled
from tests.programs.loop_ir.short_names import function, given, load, loop, number, result, size, store, temporary, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir import LoopFunction, Ramp, Shifted
from tiramisu_py.ir.rewriting import all_expressions
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.loops import Vector

N, i, j = size("N"), var("i"), var("j")
TYPES = [ty.float32, ty.float64, ty.int8, ty.uint16, ty.int64, ty.bool_]


def _windows(dtype: DType, lanes: int) -> LoopFunction:
    """``y[i, ...] = x[i, by ...]`` from two vectors in registers, for two distances."""

    def vector(start: int) -> Ramp:
        return Ramp(number(start), lanes)

    kept = [store("w", vector(k * lanes), load("x", i, vector(k * lanes), dtype=dtype), dtype) for k in (0, 1)]
    read = [
        store("y", (i, vector(k * lanes)), load("w", vector(by), dtype=dtype), dtype)
        for k, by in enumerate((1, lanes - 1))
    ]
    body = temporary("w", (2 * lanes,), *kept, *read, dtype=dtype, register=True)
    arrays = [given("x", N, 2 * lanes, dtype=dtype), result("y", N, 2 * lanes, dtype=dtype)]
    return function("windows", "N", arrays, loop("i", N, body))


@pytest.mark.parametrize("flags", [("-O2", "-march=native"), ("-O0",), ("-O3", "-march=x86-64-v3")], ids=" ".join)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_lanes_of_two_vectors_are_those_of_memory(dtype: DType, flags: tuple[str, ...]) -> None:
    for lanes in (2, 64 // dtype.bytes):
        f = _windows(dtype, lanes)
        assert {e.by for e in all_expressions(optimise(f).body) if isinstance(e, Shifted)} == {1, lanes - 1}
        x = np.random.default_rng(2).integers(0, 2 if dtype.is_bool else 99, (3, 2 * lanes)).astype(dtype.numpy)
        y = np.zeros_like(x)
        Compiled(f, *flags)({"N": 3}, x=x, y=y)
        np.testing.assert_array_equal(y, np.concatenate([x[:, 1 : 1 + lanes], x[:, lanes - 1 : 2 * lanes - 1]], 1))


def test_what_begins_between_the_strips_of_a_loop_is_read_there() -> None:
    """The distance is the same in each strip, as the strips are unrolled."""
    inner = loop("j", 12, store("y", (i, j), load("w", j + 3)), tag=Vector(4))
    fill = loop("j", 16, store("w", j, load("x", i, j)), tag=Vector(4))
    f = function("f", "N", [given("x", N, 16), result("y", N, 12)], loop("i", N, temporary("w", (16,), fill, inner)))
    assert {e.by for e in all_expressions(optimise(f).body) if isinstance(e, Shifted)} == {3}
    x = np.random.default_rng(2).random((3, 16), dtype=np.float32)
    y = np.zeros((3, 12), np.float32)
    Compiled(f)({"N": 3}, x=x, y=y)
    np.testing.assert_array_equal(y, x[:, 3:15])
