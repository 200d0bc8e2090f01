"""Strided stores that fill each other's gaps: one store of whole vectors, with the same elements in each."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.c.vectors.test_c_gathers import TARGETS
from tests.backends.compiled import SANITISERS, Compiled
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, var
from tests.selection import covering
from tiramisu_py.algorithm.types import DType, int32, uint8
from tiramisu_py.ir import LoopFunction
from tiramisu_py.program.loops import Vector

N, i = size("N"), var("i")
M, (n, c, x, q) = tm.params("M")[0], tm.iters("n c x q")
TYPES = [tm.uint8, tm.int8, tm.uint16, tm.int32, tm.float32, tm.float64, tm.bool]


def wider(dtype: tm.DType, lanes: int, source: tm.DType | None = None) -> tm.Function:
    """Each element between two of a smaller picture: ``out[c] = a[c // 2]`` or ``b[c // 2]``, of another type."""
    f = tm.Function("wider", params=[M])
    a, b = (f.input(name, source or dtype, [M]) for name in "ab")
    out = f.computation("out", {c: 2 * M}, tm.cast(dtype, tm.select(c % 2 == 0, a[c // 2], b[c // 2])))
    f.outputs(out)
    out.split(c, 2, x, q)
    out.reorder(q, x)
    out.split(x, lanes, n, x)
    out.reorder(n, q, x)
    out.unroll(q)
    out.vectorize(x, lanes)
    return f


@pytest.mark.parametrize(
    ("dtype", "lanes", "target"),
    covering([*((dtype, 8) for dtype in TYPES), (tm.uint8, 32), (tm.float32, 16)], list(TARGETS)),
    ids=str,
)
def test_lanes_of_two_stores_alternate(dtype: tm.DType, lanes: int, target: str) -> None:
    flags, register = TARGETS[target]
    compiled = Compiled(wider(dtype, lanes).show("lowered"), "-O0", *flags, *SANITISERS, register=register)
    for number in (0, 1, lanes, 3 * lanes + 1):
        bits = np.random.default_rng(number).integers(0, 256, (2, number * dtype.bytes), np.uint8)
        a, b = (row.view(dtype.numpy) if not dtype.is_bool else row > 127 for row in bits)
        found = compiled.sanitised({"M": number}, a=a, b=b, out=np.zeros(2 * number, dtype.numpy))["out"]
        np.testing.assert_array_equal(found.view(np.uint8), np.stack([a, b], 1).ravel().view(np.uint8))


@pytest.mark.parametrize(
    ("dtype", "source", "target"),
    covering([(t, s) for t in (tm.uint8, tm.int8, tm.uint16, tm.int16) for s in (tm.int32, tm.uint32)], list(TARGETS)),
    ids=str,
)
def test_lanes_that_are_made_narrower_alternate_before(dtype: tm.DType, source: tm.DType, target: str) -> None:
    flags, register = TARGETS[target]
    f = wider(dtype, 8, source)
    assert not any("in_turn_" in text for text in f.source().values())
    compiled = Compiled(f.show("lowered"), "-O0", *flags, *SANITISERS, register=register)
    for number in (0, 1, 8, 25):
        a, b = np.random.default_rng(number).integers(0, 256, (2, number * 4), np.uint8).view(source.numpy)
        found = compiled.sanitised({"M": number}, a=a, b=b, out=np.zeros(2 * number, dtype.numpy))["out"]
        np.testing.assert_array_equal(found, np.stack([a, b], 1).ravel().astype(dtype.numpy))


@pytest.mark.parametrize(
    ("dtype", "one"), [(tm.uint8, True), (tm.float32, True), (tm.float64, False), (tm.bool, False)]
)
def test_elements_of_up_to_32_bits_are_one_store(dtype: tm.DType, one: bool) -> None:
    assert (f"in_turn_{dtype.name}x8(" in "".join(wider(dtype, 8).source().values())) == one


def several(*stores: tuple[int, str], dtype: DType = int32) -> LoopFunction:
    """``y[2 * i + offset] = name[i]`` for each, in a loop of vectors of 8 lanes."""
    lines = [store("y", 2 * i + offset, load(name, i, dtype=dtype), dtype) for offset, name in stores]
    arrays = [*(given(name, N, dtype=dtype) for name in "abcd"), result("y", 2 * N + 40, dtype=dtype)]
    return function("f", "N", arrays, loop("i", N, *lines, tag=Vector(8)))


@pytest.mark.parametrize(
    ("stores", "calls"),
    [
        ([(0, "a"), (1, "b")], 1),
        ([(1, "a"), (0, "b")], 1),
        ([(0, "a"), (16, "b"), (1, "c"), (17, "d")], 2),
        ([(0, "a"), (17, "b"), (16, "c"), (1, "d")], 2),
        ([(0, "a"), (4, "b"), (1, "c")], 0),  # b stores over a
        ([(0, "a"), (2, "b"), (1, "c")], 1),  # b and c
        ([(1, "a"), (2, "b"), (1, "c")], 1),  # b and the second one
        ([(0, "a"), (3, "b")], 0),
        ([(0, "a"), (1, "b"), (1, "c"), (0, "d")], 2),
    ],
    ids=str,
)
def test_a_store_moves_past_others_only_if_they_store_elsewhere(stores: list[tuple[int, str]], calls: int) -> None:
    compiled = Compiled(several(*stores), "-O1", "-march=native")
    assert compiled.source.count("in_turn_int32x8(") - bool(calls) == calls
    given = {name: np.arange(8, dtype=np.int32) + 100 * k for k, name in enumerate("abcd")}
    found, wanted = np.zeros(56, np.int32), np.zeros(56, np.int32)
    for offset, name in stores:
        wanted[offset : offset + 16 : 2] = given[name]
    compiled({"N": 8}, **given, y=found)
    np.testing.assert_array_equal(found, wanted)


def test_a_store_whose_value_reads_the_buffer_stays() -> None:
    lines = [
        store("y", 2 * i, load("a", i, dtype=uint8), uint8),
        store("y", 2 * i + 1, load("y", 2 * i, dtype=uint8), uint8),
    ]
    arrays = [given("a", N, dtype=uint8), result("y", 2 * N, dtype=uint8)]
    compiled = Compiled(function("f", "N", arrays, loop("i", N, *lines, tag=Vector(8))), "-O1", "-march=native")
    a, y = np.arange(16, dtype=np.uint8), np.zeros(32, np.uint8)
    compiled({"N": 16}, a=a, y=y)
    np.testing.assert_array_equal(y, np.repeat(a, 2))
