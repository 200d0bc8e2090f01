"""Neighbours at computed places: values bit for bit, at the ends of arrays, on every kind of processor."""

from __future__ import annotations

import platform

import numpy as np
import pytest

import tiramisu_py as tm
from benchmarks.machine_code.assembly import innermost_loops
from benchmarks.machine_code.compiled_loops import Processor, assembly
from tests.backends.compiled import SANITISERS, Compiled
from tests.processors import require_target
from tiramisu_py.backends import emit
from tiramisu_py.lower import lower

H, W = tm.params("H W")
y, x = tm.iters("y x")
SIZES = ((2, 2), (2, 37), (37, 2), (6, 48), (40, 131))
SMALL = "H >= 2 and W >= 2 and H <= 32768 and W <= 32768"
#: What to compile for, and the size of its vectors in bytes.
TARGETS = {"avx512": (("-march=native",), 64), "avx2": (("-march=x86-64-v3",), 32), "sse2": (("-march=x86-64",), 16)}


def warp(dtype, lanes: int = 16, assume: str = SMALL, rows: int = 2) -> tm.Function:
    """A bilinear warp with a constant border of 0; the map is six scalars."""
    f = tm.Function("warp", params=[H, W], assume=assume)
    image = f.input("image", dtype, [H, W])
    a = [f.scalar(name, tm.float32) for name in ("a00", "a01", "b0", "a10", "a11", "b1")]
    across, down = a[0] * x + a[1] * y + a[2], a[3] * x + a[4] * y + a[5]
    column, row = tm.cast(tm.int32, tm.floor(across)), tm.cast(tm.int32, tm.floor(down))
    right, below = across - tm.floor(across), down - tm.floor(down)
    inside = (column >= 0) & (column < W - 1) & (row >= 0) & (row < H - 1)
    left, top = tm.clip(column, 0, W - 2), tm.clip(row, 0, H - rows)

    def tap(i, j):
        return tm.cast(tm.float32, image[top + i, left + j])

    upper = tap(0, 0) + right * (tap(0, 1) - tap(0, 0))
    lower_ = tap(1, 0) + right * (tap(1, 1) - tap(1, 0))
    value = tm.select(inside, upper + below * (lower_ - upper), 0.0)
    out = f.computation("out", {y: H, x: W}, tm.cast(dtype, value))
    f.outputs(out)
    if lanes:
        out.vectorize(x, lanes)
    return f


def turned(degrees: float, scale: float = 1.0) -> list[np.float32]:
    """The six scalars of a rotation with a shift."""
    c, s = scale * np.cos(np.radians(degrees)), scale * np.sin(np.radians(degrees))
    return [np.float32(v) for v in (c, s, -1.5, -s, c, 2.25)]


def picture(size: tuple[int, int], dtype: tm.DType) -> np.ndarray:
    values = np.random.default_rng(size[1]).integers(0, 256, size)
    return values.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [tm.float32, tm.uint8])
def test_a_warp_equals_its_evaluation_bit_for_bit(dtype):
    f = warp(dtype)
    kernel = f.compile()
    for size in SIZES:
        image = picture(size, dtype)
        for degrees, scale in ((0, 1.0), (5, 1.0), (44, 0.03), (90, 1.0), (211, 17.0)):
            given = turned(degrees, scale)
            np.testing.assert_array_equal(kernel(image, *given), f.evaluate(image, *given))


@pytest.mark.parametrize("dtype", [tm.float32, tm.uint8])
def test_inside_it_is_what_numpy_interpolates(dtype):
    image = picture((30, 50), dtype)
    c, s, _, _, _, _ = turned(10)
    rows, columns = np.mgrid[0:30, 0:50].astype(np.float32)
    across, down = columns * c + rows * s, rows * c - columns * s + np.float32(4)
    inside = (across >= 0) & (across < 49) & (down >= 0) & (down < 29)
    left, top = (np.where(inside, np.floor(v), 0).astype(int) for v in (across, down))
    right, below = across - left, down - top
    near = [image[top + i, left + j].astype(np.float64) for i in (0, 1) for j in (0, 1)]
    upper, lower_ = near[0] + right * (near[1] - near[0]), near[2] + right * (near[3] - near[2])
    wanted = np.where(inside, upper + below * (lower_ - upper), 0)
    found = warp(dtype).compile()(image, c, s, np.float32(0), -s, c, np.float32(4))
    assert inside.sum() > 500
    np.testing.assert_allclose(found, wanted, atol=1.01 if dtype is tm.uint8 else 1e-2)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31) - 256])
def test_a_map_that_leads_nowhere_reads_nothing_outside(wrong):
    f = warp(tm.float32)
    kernel = f.compile()
    image = picture((9, 40), tm.float32)
    for place in (0, 2, 4):
        given = turned(5)
        given[place] = np.float32(wrong)
        with np.errstate(all="ignore"):
            wanted = f.evaluate(image, *given)
        np.testing.assert_array_equal(kernel(image, *given), wanted)


@pytest.mark.parametrize("dtype", [tm.float32, tm.uint8])
@pytest.mark.parametrize("target", TARGETS)
def test_no_processor_reads_outside_the_array(dtype, target):
    flags, register = TARGETS[target]
    f = warp(dtype)
    compiled = Compiled(lower(f.program), "-O0", *flags, *SANITISERS, register=register)
    size = (9, 48)  # the first rows are read as windows, the last ones are not
    image, given = picture(size, dtype), turned(5)
    names = dict(zip(("a00", "a01", "b0", "a10", "a11", "b1"), given, strict=True))
    found = compiled.sanitised({"H": 9, "W": 48}, image=image, **names, out=np.empty(size, dtype.numpy))
    np.testing.assert_array_equal(found["out"], f.evaluate(image, *given))


@pytest.mark.parametrize("dtype", [tm.float32, tm.uint8])
@pytest.mark.parametrize("target", TARGETS)
def test_turned_either_way_and_mirrored_maps_are_right_on_every_processor(dtype, target):
    """Eight places lie in one row, in two, three or four, forwards and backwards, or further apart."""
    flags, register = TARGETS[target]
    f = warp(dtype)
    compiled = Compiled(lower(f.program), "-O2", *flags, register=register)
    size, middle = (40, 64), np.array([32, 20])
    image = picture(size, dtype)
    for degrees, scale in ((0, 1.0), (5, 1.0), (-12, 0.9), (21, 1.0), (35, 1.0), (159, 1.0), (-175, 1.9), (90, 1.0)):
        c, s = scale * np.cos(np.radians(degrees)), scale * np.sin(np.radians(degrees))
        shift = middle - np.array([[c, s], [-s, c]]) @ middle
        given = [np.float32(v) for v in (c, s, shift[0], -s, c, shift[1])]
        names = dict(zip(("a00", "a01", "b0", "a10", "a11", "b1"), given, strict=True))
        found, wanted = np.empty(size, dtype.numpy), f.evaluate(image, *given)
        compiled({"H": size[0], "W": size[1]}, image=image, **names, out=found)
        assert np.count_nonzero(wanted) > 500
        np.testing.assert_array_equal(found, wanted)


def test_neighbours_are_one_call_and_what_they_share_is_computed_once():
    text = warp(tm.float32).source()["warp.c"]
    strip = text[text.index("x += 16") : text.index("for (int64_t x = x_end")]
    assert strip.count("TM_NEIGHBOURS(") == 1
    assert strip.count("floorf") == 2
    assert "TM_GATHER(" not in strip
    assert "int64x16" not in strip  # all lanes are of 32 bits


def test_values_that_are_joined_to_a_store_load_their_neighbours_in_one_call_each():
    loops = warp(tm.uint8).show("lowered", 16)
    text = emit(loops)["warp.c"]
    strip = text[text.index("x += 16") : text.index("for (int64_t x = x_end")]
    assert strip.count("TM_NEIGHBOURS(uint8x4,") == 4, "four parts of sixteen lanes"
    assert "TM_GATHER(" not in strip


@pytest.mark.parametrize("lanes", [4, 8, 32])
def test_other_numbers_of_lanes_are_as_right(lanes):
    f = warp(tm.float32, lanes)
    image = picture((7, 70), tm.float32)
    np.testing.assert_array_equal(f.compile()(image, *turned(20)), f.evaluate(image, *turned(20)))


@pytest.mark.parametrize("dtype", [tm.int16, tm.float64, tm.int32])
def test_other_types_are_as_right(dtype):
    f = warp(dtype)
    image = picture((7, 70), dtype)
    np.testing.assert_array_equal(f.compile()(image, *turned(20)), f.evaluate(image, *turned(20)))


def taken(lanes: int) -> tm.Function:
    """Elements at computed rows; the whole array is one row, so that the index of one is a product in 64 bits."""
    f = tm.Function("taken", params=[H, W], assume="H >= 1 and W >= 1")
    image, at = f.input("image", tm.float32, [H, W]), f.input("at", tm.int32, [W], values=(0, H))
    out = f.computation("out", {x: W}, image[at[x], x])
    f.outputs(out)
    out.vectorize(x, lanes)
    return f


@pytest.mark.parametrize("level", ["x86-64-v3", None])
@pytest.mark.parametrize("lanes", [8, 16])
def test_indices_of_64_bits_gather_as_many_elements_as_there_are(level, lanes):
    if level:
        require_target(level)
    values, rows = picture((5, 37), tm.float32), np.random.default_rng(1).integers(0, 5, 37, np.int32)
    kernel = taken(lanes).compile(target=level)
    wide = tm.target(level).vector_bytes >= lanes * tm.float32.bytes
    assert (f"TM_GATHER_AT_32x{lanes}(" in kernel.source["taken.c"]) == wide
    np.testing.assert_array_equal(kernel(values, rows), values[rows, np.arange(37)])


@pytest.mark.optimised
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine code is that of x86")
def test_indices_of_64_bits_stay_in_registers():
    """Two gathers have the two halves of sixteen places, which are not stored to be loaded again."""
    known = Processor("x86-64-v4")
    text = assembly(taken(16).show("lowered", known.cpu.vector_bytes), known)
    (loop,) = [
        each for each in innermost_loops(text) if sum("gather" in str(every) for every in each.instructions) == 2
    ]
    assert not loop.spilled()


def test_without_a_bound_on_sizes_indices_are_compared_in_64_bits():
    f = warp(tm.float32, assume="H >= 2 and W >= 2")
    image = picture((7, 70), tm.float32)
    np.testing.assert_array_equal(f.compile()(image, *turned(20)), f.evaluate(image, *turned(20)))
    assert any("32-bit index arithmetic" in line for line in f.check().trusted)
    assert not any("32-bit" in line for line in warp(tm.float32).check().trusted)


@pytest.mark.parametrize("remainder", ["mask", "overlap"])
def test_a_remainder_in_vectors_reads_nothing_of_lanes_that_are_not_there(remainder):
    f = warp(tm.float32, 0)
    f["out"].vectorize(x, 16, remainder=remainder)
    kernel = f.compile()
    for size in ((2, 5), (6, 35)):
        image = picture(size, tm.float32)
        np.testing.assert_array_equal(kernel(image, *turned(5)), f.evaluate(image, *turned(5)))


def test_a_prefetch_of_computed_places_changes_no_value():
    f = warp(tm.float32)
    f["out"].prefetch(f["image"], y, 8)
    assert f.source()["warp.c"].count("TM_PREFETCH") == 2
    image = picture((33, 70), tm.float32)
    np.testing.assert_array_equal(f.compile()(image, *turned(5)), f.evaluate(image, *turned(5)))


def test_a_branch_that_a_size_guards_is_read_only_where_it_is_taken():
    N = tm.params("N")[0]
    (i,) = tm.iters("i")
    f = tm.Function("guarded", params=[N], assume="N >= 2 and N <= 1000")
    table, at = f.input("table", tm.float32, [N, N]), f.input("at", tm.int32, [N])
    row = tm.clip(at[i], 0, N - 2)

    def tap(p, q):
        return table[row + p, row + q]

    near = tap(0, 0) + tap(0, 1) + tap(1, 0) + tap(1, 1)
    o = f.computation("o", {i: N}, tm.select(i < N - 1, near, 0.0))
    f.outputs(o)
    o.vectorize(i, 16)
    for n in (2, 17, 50):
        values = np.random.default_rng(n).random((n, n), dtype=np.float32)
        places = np.random.default_rng(n).integers(-5, n + 5, n).astype(np.int32)
        np.testing.assert_array_equal(f.compile()(values, places), f.evaluate(values, places))
