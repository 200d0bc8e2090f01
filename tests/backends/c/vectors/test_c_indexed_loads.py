"""Elements at the indices in a vector: bit for bit, for each type and kind of processor, at the ends of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.c.vectors.test_c_gathers import TARGETS
from tests.backends.compiled import SANITISERS, Compiled
from tests.selection import covering

N, M = tm.params("N M")
(i,) = tm.iters("i")
TYPES = [tm.float32, tm.float64, tm.int32, tm.uint32, tm.int64, tm.uint64, tm.int16, tm.bool]
OTHER_INDICES = [(tm.float32, tm.uint8), (tm.float32, tm.int64), (tm.float64, tm.int64)]


def table(dtype: tm.DType, lanes: int, index: tm.DType = tm.int32, rest: str = "scalar") -> tm.Function:
    """``out[i] = table[place[i]]``."""
    f = tm.Function("looked_up", params=[N, M])
    place = f.input("place", index, [N], values=(0, M))
    values = f.input("values", dtype, [M])
    out = f.computation("out", {i: N}, values[place[i]])
    f.outputs(out)
    out.vectorize(i, lanes, remainder=rest)
    return f


@pytest.mark.parametrize(
    ("dtype", "index", "lanes", "target"),
    covering([*((dtype, tm.int32) for dtype in TYPES), *OTHER_INDICES], [4, 8, 16], list(TARGETS), each=3),
    ids=str,
)
def test_elements_at_indices_are_loaded_bit_for_bit(dtype: tm.DType, index: tm.DType, lanes: int, target: str) -> None:
    flags, register = TARGETS[target]
    compiled = Compiled(table(dtype, lanes, index).show("lowered"), "-O2", *flags, register=register)
    rng = np.random.default_rng(lanes)
    for size in (0, 1, lanes, 3 * lanes + 1):
        place = rng.integers(0, 50, size).astype(index.numpy)
        place[:1] = 49
        values = rng.integers(0, 256, 50 * dtype.bytes, np.uint8).view(dtype.numpy)
        values = values > 0 if dtype.is_bool else values
        out = np.zeros(size, dtype.numpy)
        compiled({"N": size, "M": 50}, place=place, values=values, out=out)
        np.testing.assert_array_equal(out.view(np.uint8), values[place].view(np.uint8))


@pytest.mark.parametrize(
    ("dtype", "index", "lanes", "target"),
    covering([tm.uint8, tm.int8, tm.bool], [tm.int32, tm.int16, tm.uint8, tm.int64], [16, 32, 64], list(TARGETS)),
    ids=str,
)
def test_bytes_at_indices_in_memory_are_loaded_one_by_one(
    dtype: tm.DType, index: tm.DType, lanes: int, target: str
) -> None:
    flags, register = TARGETS[target]
    compiled = Compiled(table(dtype, lanes, index, "mask").show("lowered", register), "-O2", *flags, register=register)
    rng = np.random.default_rng(lanes)
    for size in (0, 1, lanes, 3 * lanes + 1):
        place = rng.integers(0, 100, size).astype(index.numpy)
        place[:1] = 99
        values = rng.integers(0, 256, 100, np.uint8).view(dtype.numpy) if not dtype.is_bool else rng.random(100) > 0.5
        found = np.zeros(size, dtype.numpy)
        compiled({"N": size, "M": 100}, place=place, values=values, out=found)
        np.testing.assert_array_equal(found, values[place])


def test_bytes_at_indices_that_lie_apart_are_taken_from_a_vector() -> None:
    f = tm.Function("apart", params=[N])
    place, values = f.input("place", tm.uint8, [2 * N]), f.input("values", tm.uint8, [256])
    out = f.computation("out", {i: N}, values[place[2 * i]])
    f.outputs(out)
    out.vectorize(i, 16)
    rng = np.random.default_rng(0)
    given = {name: rng.integers(0, 256, size, np.uint8) for name, size in (("place", 106), ("values", 256))}
    np.testing.assert_array_equal(f.compile()(**given), given["values"][given["place"][::2]])


@pytest.mark.parametrize("dtype", [tm.float32, tm.int32, tm.uint32], ids=str)
@pytest.mark.parametrize("rest", ["scalar", "mask"])
def test_elements_at_indices_that_are_stored_first_are_the_same(dtype: tm.DType, rest: str) -> None:
    """As for a Zen 3, whose gathers are dear; any processor with AVX2 runs it."""
    compiled = Compiled(
        table(dtype, 8, rest=rest).show("lowered"), "-O2", "-march=x86-64-v3", "-D__znver3__", register=32
    )
    assert "TM_GATHER_32x8(" in compiled.texts["looked_up.c"]
    rng = np.random.default_rng(8)
    for size in (0, 1, 8, 29, 64):
        place = rng.integers(0, 50, size).astype(np.int32)
        place[:1] = 49
        values = rng.integers(0, 256, 50 * dtype.bytes, np.uint8).view(dtype.numpy)
        out = np.zeros(size, dtype.numpy)
        compiled({"N": size, "M": 50}, place=place, values=values, out=out)
        np.testing.assert_array_equal(out.view(np.uint8), values[place].view(np.uint8))


@pytest.mark.parametrize(
    ("dtype", "lanes", "index", "called"),
    [
        (tm.float32, 8, tm.int32, "TM_GATHER_32x8("),
        (tm.float64, 8, tm.int32, "TM_GATHER_64x8("),
        (tm.float32, 8, tm.int16, "TM_GATHER_32x8("),
        (tm.float32, 8, tm.uint8, "TM_GATHER_32x8("),
        (tm.float32, 8, tm.int64, "TM_GATHER_AT_32x8("),
        (tm.float32, 8, tm.uint32, "TM_GATHER_AT_32x8("),
        (tm.int16, 8, tm.int32, "TM_GATHER("),
        (tm.uint8, 8, tm.int16, "TM_GATHER("),
        (tm.uint8, 16, tm.int16, "TM_GATHER_BY_8x16("),
    ],
)
def test_instructions_take_signed_indices_of_32_bits_or_of_64(dtype, lanes, index, called) -> None:
    assert called in table(dtype, lanes, index).source()["looked_up.c"]


def test_no_element_outside_is_touched() -> None:
    compiled = Compiled(table(tm.float32, 8, rest="mask").show("lowered"), *SANITISERS, "-O0", "-march=native")
    place = np.array([0, 2] * 7 + [1], np.int32)
    values, out = np.arange(3, dtype=np.float32), np.zeros(15, np.float32)
    found = compiled.sanitised({"N": 15, "M": 3}, place=place, values=values, out=out)
    np.testing.assert_array_equal(found["out"], values[place])
