"""Ranges of values through computations and reductions: the least table is accepted, and one element less refused."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.sanitizers import check_clean

N, M = tm.params("N M")
i, j, a, b = tm.iters("i j a b")
SIZES = (1, 7, 17)


def gathered(made, dtype, extent, values=None, claim=None) -> tm.Function:
    """Elements of a table at values that a computation makes of an input."""
    f = tm.Function("gathered", params=[N], assume="N >= 1")
    x, table = f.input("x", dtype, [N], values=values), f.input("table", tm.int64, [extent])
    c = f.computation("c", {i: N}, made(x[i]), values=claim)
    f.outputs(f.computation("o", {i: N}, table[c[i]]))
    return f


def numbers(dtype, n, values=None) -> np.ndarray:
    """Values of a type: its ends, or those of a range, and others."""
    if dtype.is_float:
        return np.array([np.nan, np.inf, -np.inf, 0.25, 0.999999, 300.0, -1.0] * 3, dtype=dtype.numpy)[:n]
    least, largest = dtype.limits if values is None else (values[0], values[1] - 1)
    given = [least, largest, (least + largest) // 2, least + 1, largest - 1]
    return np.array(given * 4, dtype=dtype.numpy)[:n]


def is_refused(f: tm.Function) -> bool:
    """Whether all that is wrong is an index out of bounds."""
    kinds = {violation.kind for violation in f.check().violations}
    assert kinds <= {"bounds"}
    return bool(kinds)


CASES = {
    "a copy": (lambda x: x, tm.int32, 16, (0, 16)),
    "a remainder": (lambda x: x % 16, tm.int32, 16, None),
    "a clip": (lambda x: tm.clip(x, 0, 15), tm.int64, 16, None),
    "a narrow type": (lambda x: tm.cast(tm.uint8, x), tm.int32, 256, None),
    "a quotient": (lambda x: x // 16, tm.uint8, 16, None),
    "a mask": (lambda x: x & 10, tm.int32, 11, None),
    "a reversed byte": (lambda x: 255 - x, tm.uint8, 256, None),
    "a negative byte": (lambda x: tm.cast(tm.int16, 0) - x + 255, tm.uint8, 256, None),
    "a flipped bit": (lambda x: x ^ 1, tm.uint8, 256, None),
    "flipped bits of a range": (lambda x: x ^ 6, tm.int32, 16, (0, 16)),
    "joined bits": (lambda x: x | 5, tm.int32, 16, (0, 16)),
    "a shift to the left": (lambda x: (x << 2) + 3, tm.int32, 64, (0, 16)),
    "a shift by a value": (lambda x: 1 << x, tm.int32, 129, (0, 8)),
    "a complement": (lambda x: ~x, tm.uint8, 256, None),
    "a square": (lambda x: tm.cast(tm.int32, x) * x, tm.uint8, 65026, None),
    "a distance": (lambda x: abs(tm.cast(tm.int32, x) - 100), tm.uint8, 156, None),
    "a wide distance of a narrow number": (lambda x: tm.absolute(tm.cast(tm.int16, x)), tm.int8, 129, None),
    "a choice": (lambda x: tm.select(x > 3, 3, x), tm.uint8, 4, None),
    "a choice by a value": (lambda x: tm.select(x % 2 == 1, 3, x % 5), tm.int32, 5, None),
    "a truth value": (lambda x: tm.cast(tm.int32, x > 7), tm.int32, 2, None),
    "a sum of two": (lambda x: tm.cast(tm.int32, x) * 16 + (x & 15), tm.uint8, 4096, None),
    "a float of a byte": (lambda x: tm.cast(tm.int32, x * 0.5 + 0.5), tm.uint8, 129, None),
    "a clipped float, saturated": (
        lambda x: tm.saturating_cast(tm.uint8, tm.clip(x, 0.0, 1.0) * 9), tm.float32, 10, None,
    ),
    "a saturated float": (lambda x: tm.saturating_cast(tm.uint8, x), tm.float32, 256, None),
    "a float that is a number": (
        lambda x: tm.cast(tm.int32, tm.clip(tm.select(tm.isnan(x), 0.0, x), 0.0, 1.0) * 9), tm.float32, 10, None,
    ),
    "a float within bounds": (lambda x: tm.select((x >= 0) & (x < 9.0), tm.cast(tm.int32, x), 9), tm.float64, 10, None),
    "a converted float, clipped": (lambda x: tm.clip(tm.cast(tm.int32, x * 9), 0, 9), tm.float32, 10, None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_computed_index_is_in_bounds_and_one_element_less_is_refused(name):
    made, dtype, extent, values = CASES[name]
    f = gathered(made, dtype, extent, values)
    assert f.check().ok, f.check()
    assert is_refused(gathered(made, dtype, extent - 1, values))
    table = np.arange(extent) * 3 + 1
    stored, inlined = f.compile(), gathered(made, dtype, extent, values)
    inlined["c"].inline()
    assert inlined.check().ok, inlined.check()
    for n in SIZES:
        x = numbers(dtype, n, values)
        wanted = f.evaluate(x=x, table=table)
        np.testing.assert_array_equal(stored(x=x, table=table), wanted)
        assert set((wanted - 1) // 3) <= set(range(extent))


REFUSED = {
    "a value of which nothing is known": (lambda x: x, tm.int32, 100),
    "a remainder of a negative range": (lambda x: tm.cast(tm.int8, x) + 1, tm.uint8, 256),
    "a narrow sum that wraps": (lambda x: x + 1, tm.int8, 129),
    "the absolute value of the least byte": (lambda x: tm.absolute(x), tm.int8, 129),
    "the absolute value of the least number": (lambda x: tm.minimum(tm.absolute(x), 9), tm.int64, 10),
    "a product that wraps": (lambda x: x * x, tm.int32, 2**31 - 1),
    "a clip of NaN": (lambda x: tm.cast(tm.int32, tm.clip(x, 0.0, 1.0) * 9), tm.float32, 10),
    "a choice that keeps NaN": (lambda x: tm.select(x > 9.0, 9, tm.cast(tm.int32, tm.maximum(x, 0.0))), tm.float32, 10),
    "an infinite number": (lambda x: tm.cast(tm.int32, tm.select(x == x, x, 0.0)), tm.float32, 2**31 - 1),
    "a narrow type that keeps the low bits": (lambda x: tm.cast(tm.int8, tm.clip(x, 0, 200)), tm.int32, 201),
    "64 bits that wrap": (lambda x: tm.minimum(x % 2**30 * 2**30 * 8, 9), tm.int64, 10),
    "a product of 64 bits that wraps": (lambda x: tm.minimum((x % 2**30) * (x % 2**30) * 8, 9), tm.int64, 10),
    "a shift of 64 bits that wraps": (lambda x: tm.minimum((x % 2**30) << 40, 9), tm.int64, 10),
    "64 bits without a sign": (lambda x: tm.minimum(tm.cast(tm.int64, tm.maximum(x, 5)), 9), tm.uint64, 10),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_wraps_or_is_no_number_is_refused(name):
    made, dtype, extent = REFUSED[name]
    assert is_refused(gathered(made, dtype, extent))


def test_64_bits_that_wrap_in_the_index_itself_are_refused_and_sizes_fit_them():
    def direct(high, made) -> tm.Function:
        f = tm.Function("direct", params=[N], assume="N >= 1")
        x, table = f.input("x", tm.int64, [N], values=(0, high)), f.input("table", tm.int64, [10])
        f.outputs(f.computation("o", {i: N}, table[tm.minimum(made(x[i]), 9)]))
        return f

    assert is_refused(direct(2**31, lambda x: x * 2**30 * 8))
    assert is_refused(direct(2**31, lambda x: x * x * 8))
    assert is_refused(direct(2**62, lambda x: x + x + x))
    for f in (direct(2**31, lambda x: x * x), direct(N, lambda x: x * 100 + 3 * i), direct(N, lambda x: x + x)):
        assert f.check().ok, f.check()


def test_nothing_is_known_of_an_operator_of_the_user_with_the_name_of_another():
    f = tm.Function("products", params=[N], assume="N >= 1")
    x, table = f.input("x", tm.int64, [N, 6], values=(1, 3)), f.input("table", tm.int64, [13])
    times = tm.operator("sum", lambda p, q: p * q, 1)
    c = f.reduction("c", {i: N}, {j: 6}, times, x[i, j])
    f.outputs(f.computation("o", {i: N}, table[c[i]]))
    assert is_refused(f)


def test_the_message_for_a_clipped_float_names_nan_and_what_to_write():
    f = gathered(lambda x: tm.cast(tm.int32, tm.clip(x, 0.0, 1.0) * 9), tm.float32, 10)
    g = tm.Function("direct", params=[N], assume="N >= 1")
    x, table = g.input("x", tm.float32, [N]), g.input("table", tm.int64, [10])
    g.outputs(g.computation("o", {i: N}, table[tm.cast(tm.int32, tm.clip(x[i], 0.0, 1.0) * 9)]))
    assert "clip c with tm.clip where it is computed" in f.check().violations[0].repair
    for word in ("NaN", "tm.saturating_cast", "after the conversion"):
        assert word in g.check().violations[0].repair


@pytest.mark.parametrize("source", ["computed", "declared", "nested"])
def test_a_value_in_a_branch_that_is_not_taken_does_not_hide_the_other_branch(source):
    def read(other) -> tm.Function:
        f = tm.Function("branches", params=[N, M], assume="N >= 1")
        x, table = f.input("x", tm.int32, [M], values=(0, M)), f.input("table", tm.int64, [4])
        c = f.computation("c", {i: N}, tm.select(i < 4, i, 0))
        d = f.computation("d", {i: N}, tm.select(i == 0, 3, c[i - 1]))
        index = {
            "computed": tm.select(i == 0, other, c[i - 1]),
            "declared": tm.select(i < M, tm.minimum(x[i], 3), other),
            "nested": tm.select(i == 0, other, d[c[i - 1]]),
        }
        f.outputs(f.computation("o", {i: N}, table[index[source]]))
        return f

    assert read(3).check().ok, read(3).check()
    assert is_refused(read(4))
    assert is_refused(read(-1))


def test_a_table_may_be_empty_where_no_value_points_into_it():
    f = tm.Function("maybe_empty", params=[N, M])
    x, table = f.input("x", tm.int32, [N], values=(0, M)), f.input("table", tm.int64, [M])
    f.outputs(f.computation("o", {i: N}, table[x[i]]))
    assert f.check().ok, f.check()
    assert f.compile()(x=np.zeros(0, dtype=np.int32), table=np.zeros(0, dtype=np.int64)).size == 0


# -- through other stages, and under commands


def chain(extent) -> tuple[tm.Function, tuple[tm.Computation, ...]]:
    """A table at a value that goes through three computations."""
    f = tm.Function("chain", params=[N], assume="N >= 1")
    x, table = f.input("x", tm.int32, [N]), f.input("table", tm.int64, [extent])
    low = f.computation("low", {i: N}, x[i] % 8)
    both = f.computation("both", {i: N}, low[i] + low[N - 1 - i])
    twice = f.computation("twice", {i: N}, 2 * both[i] + 1)
    out = f.computation("out", {i: N}, table[twice[i]])
    f.outputs(out)
    return f, (low, both, twice, out)


def test_ranges_go_through_several_computations():
    assert chain(30)[0].check().ok
    assert is_refused(chain(29)[0])


@pytest.mark.parametrize("way", ["inline", "inline all", "compute_at", "vectorize", "cache", "parallelize", "pad"])
def test_ranges_hold_whatever_the_commands(way):
    for extent in (30, 29):
        f, (low, both, twice, out) = chain(extent)
        x = np.array([7, -8, 15, 0, -1] * 8, dtype=np.int32)[:19]
        wanted = chain(30)[0].evaluate(x=x, table=np.arange(30) ** 2)
        if way in ("inline", "inline all"):
            twice.inline()
            if way == "inline all":
                both.inline()
                low.inline()
        elif way == "compute_at":
            twice.compute_at(out, i)
        elif way == "vectorize":
            for each in (twice, out):
                each.vectorize(i, 8)
        elif way == "pad":
            twice.vectorize(i, 8, remainder="pad")
            out.vectorize(i, 8, remainder="mask")
        elif way == "cache":
            out.split(i, 4, a, b)
            out.copy(twice, [b], at=a)
        else:
            out.parallelize(i)
        assert f.check().ok is (extent == 30), f.check()
        if extent == 30:
            np.testing.assert_array_equal(f.compile()(x=x, table=np.arange(30) ** 2), wanted)


def half_of_a_float(x, table) -> tm.Function:
    """An index that is half of an integer, computed as a float."""
    f = tm.Function("halves", params=[N])
    x, table = f.input("x", tm.int32, [N], values=x), f.input("table", tm.int64, [table])
    y = f.computation("y", {i: N}, tm.cast(tm.float32, x[i]) * np.float32(0.5))
    f.outputs(f.computation("o", {i: N}, table[tm.cast(tm.int32, y[i])]))
    return f


@pytest.mark.parametrize("is_inlined", [False, True])
def test_facts_behind_an_index_of_floats_are_reported(is_inlined):
    f = half_of_a_float((0, 20), 10)
    if is_inlined:
        f["y"].inline()
    assert f.check().trusted == ("declared: 0 <= x < 20",)
    assert is_refused(half_of_a_float((0, 20), 9)) and is_refused(half_of_a_float(None, 10))


def test_computed_indices_are_clean_under_the_sanitizers():
    check_clean("tests.algorithm.domains.ranges.gathers_under_sanitizers")
