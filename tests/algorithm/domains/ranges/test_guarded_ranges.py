"""Conditions of computations and reductions bound the values in the indices that they guard."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.sanitizers import check_clean

N, M = tm.params("N M")
i, j, b = tm.iters("i j b")
EXTENT = 50
BYTES = np.arange(-128, 128).astype(np.int8)


def picked(
    where: Callable[[Any], Any], index: Any = lambda x: x, dtype: Any = tm.int8, claim: Any = None
) -> tm.Function:
    """The sum of the elements of a table at values for which a condition holds."""
    f = tm.Function("picked", params=[N], assume="N >= 1")
    x, table = f.input("x", dtype, [N]), f.input("table", tm.int64, [EXTENT])
    f.outputs(f.reduction("o", {}, {i: N}, tm.sum, table[index(x[i])], where=where(x[i])))
    return f


INSIDE = {
    "both ends": lambda x: (x >= 0) & (x < 50),
    "from the other side": lambda x: ~(x > 49) & ~(x < 0),
    "a negation": lambda x: ~((x < 0) | (x >= 50)),
    "one of two": lambda x: ((x >= 0) & (x < 20)) | ((x >= 30) & (x < 50)),
    "a number": lambda x: x == 7,
    "two conditions, one of them on more": lambda x: (x >= 0) & (x < 50) & (x * x > 3),
}
UNSIGNED = {
    "from above": lambda x: x < EXTENT,
    "to a number": lambda x: ~(x > EXTENT - 1),
    "two ends": lambda x: (x > 3) & (x <= 20),
}
OUTSIDE = {
    "one more": lambda x: (x >= 0) & (x <= 50),
    "one less": lambda x: (x >= -1) & (x < 50),
    "one end": lambda x: x < 50,
    "a difference that wraps around": lambda x: (x - 10 >= -10) & (x < 50),
    "a sum that wraps around": lambda x: (x >= 0) & (x + 100 < 120),
    "a product that wraps around": lambda x: (x >= 0) & (2 * x < 100),
    "one of two": lambda x: (x >= 0) | (x < 50),
    "another element": lambda x: x > 200 - i,
}


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("way", ["", "vectorize", "private", "atomic", "split"])
def test_values_under_a_condition_are_in_its_range(name: str, way: str) -> None:
    f = picked(INSIDE[name])
    if way == "vectorize":
        f["o"].update.vectorize(i, 8, combine=tm.PRIVATE)
    elif way in ("private", "atomic"):
        f["o"].update.parallelize(i, combine=tm.PRIVATE if way == "private" else tm.ATOMIC)
    elif way == "split":
        f["o"].update.split(i, 4, b, j)
    assert f.check().ok
    table = np.arange(EXTENT) ** 2
    found = f.compile()(BYTES, table)
    assert found == f.evaluate(x=BYTES, table=table)
    inside = BYTES[(BYTES >= 0) & (BYTES < EXTENT)]
    if name in ("both ends", "from the other side", "a negation"):
        assert found == np.sum(table[inside])


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("dtype", [tm.uint8, tm.uint32, tm.uint64], ids=str)
def test_values_without_a_sign_are_bounded_from_above(name: str, dtype: Any) -> None:
    f = picked(UNSIGNED[name], dtype=dtype)
    assert f.check().ok
    x, table = np.arange(256).astype(dtype.numpy), np.arange(EXTENT) ** 2
    x[-1] = np.iinfo(dtype.numpy).max
    inside = x[UNSIGNED[name](x)]
    assert f.compile()(x, table) == np.sum(table[inside])
    assert not picked(lambda x: UNSIGNED[name](x) | (x == EXTENT), dtype=dtype).check().ok


@pytest.mark.parametrize("name", OUTSIDE)
def test_values_that_a_condition_does_not_bound_are_refused(name: str) -> None:
    assert {violation.kind for violation in picked(OUTSIDE[name]).check().violations} == {"bounds"}


def test_a_condition_on_another_element_says_nothing() -> None:
    f = tm.Function("other", params=[N], assume="N >= 1")
    x, table = f.input("x", tm.int32, [N + 1]), f.input("table", tm.int64, [EXTENT])
    f.outputs(f.reduction("o", {}, {i: N}, tm.sum, table[x[i]], where=(x[i + 1] >= 0) & (x[i + 1] < EXTENT)))
    assert not f.check().ok


def test_a_condition_does_not_guard_itself() -> None:
    f = tm.Function("itself", params=[N], assume="N >= 1")
    x, table = f.input("x", tm.int32, [N]), f.input("table", tm.int64, [EXTENT])
    where = (x[i] >= 0) & (x[i] < EXTENT) & (table[x[i]] > 0)
    f.outputs(f.reduction("o", {}, {i: N}, tm.sum, table[x[i]], where=where))
    assert not f.check().ok


def test_a_choice_between_two_values_reads_both() -> None:
    f = tm.Function("choice", params=[N], assume="N >= 1")
    x, table = f.input("x", tm.int32, [N]), f.input("table", tm.int64, [EXTENT])
    f.outputs(f.computation("o", {i: N}, tm.select((x[i] >= 0) & (x[i] < EXTENT), table[x[i]], 0)))
    assert not f.check().ok


def test_results_under_a_condition_have_its_range() -> None:
    f = tm.Function("least", params=[N, M], assume="N >= 1")
    x, table = f.input("x", tm.int32, [N, M]), f.input("table", tm.int64, [EXTENT])
    least = f.reduction("least", {i: N}, {j: M}, tm.max, x[i, j], where=(x[i, j] >= -3) & (x[i, j] < EXTENT))
    f.outputs(f.computation("o", {i: N}, table[tm.max(least[i], 0)]))
    assert f.check().ok
    given = np.array([[-9, 3, 60], [70, -50, 80], [49, 1, 0]], dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given, np.arange(EXTENT)), [3, 0, 49])


@pytest.mark.parametrize("way", ["", "vectorize", "split"])
def test_a_computation_has_values_only_where_its_condition_holds(way: str) -> None:
    f = tm.Function("some", params=[N, M], assume="N >= 1 and M >= 1")
    x, table = f.input("x", tm.int32, [N]), f.input("table", tm.int32, [M])
    c = f.computation("c", {i: N}, 2 * table[x[i]], where=(x[i] >= 0) & (x[i] < M))
    f.outputs(c)
    if way == "vectorize":
        c.vectorize(i, 8)
    elif way == "split":
        c.split(i, 4, b, j)
    assert f.check().ok
    given, elements = np.array([-5, 0, 3, 9, 100, 7, -1, 2, 2, 4, 8], dtype=np.int32), np.arange(9, dtype=np.int32)
    wanted = np.where((given >= 0) & (given < 9), 2 * elements[np.clip(given, 0, 8)], -7)
    found = np.full(11, -7, np.int32)
    f.compile()(given, elements, c=found)
    np.testing.assert_array_equal(found, wanted)


def columns() -> tm.Function:
    """Elements of a table at values in the columns of a matrix, in vectors across its rows."""
    f = tm.Function("columns", params=[N, M], assume="N >= 1 and M >= 1")
    x, table = f.input("x", tm.int32, [M, N]), f.input("table", tm.float32, [EXTENT])
    h = f.reduction("h", {i: N}, {j: M}, tm.max, table[x[j, i]], where=(x[j, i] >= 0) & (x[j, i] < EXTENT))
    f.outputs(h)
    h.update.reorder(j, i)
    h.update.vectorize(i, 8)
    return f


def test_vectors_load_only_where_the_condition_holds() -> None:
    f = columns()
    assert f.check().ok
    x = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, (11, 13)).astype(np.int32)
    x[::2] %= EXTENT
    table = np.arange(EXTENT, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(x, table), f.evaluate(x=x, table=table))


def test_bins_and_weights_of_values_that_are_outside_are_left_out() -> None:
    f = tm.Function("weighted", params=[N])
    x, weight = f.input("x", tm.int32, [N]), f.input("weight", tm.int32, [EXTENT])
    h = f.reduction("h", {b: EXTENT}, {i: N}, tm.sum, weight[x[i]], where=b == x[i])
    f.outputs(h)
    assert f.check().ok
    x, weight = np.array([-5, 0, 3, 49, 50, 3, -1, 2**31 - 1], dtype=np.int32), np.arange(EXTENT, dtype=np.int32)
    np.testing.assert_array_equal(
        f.compile()(x, weight), weight * np.bincount(x[(x >= 0) & (x < EXTENT)], minlength=EXTENT)
    )


def random_condition(draw: random.Random, x: Any, depth: int) -> Any:
    if depth and draw.random() < 0.7:
        left, right = (random_condition(draw, x, depth - 1) for _ in range(2))
        return draw.choice((left & right, left & right, left | right, ~left & right))
    side = draw.choice((x, x, x, x + draw.choice((1, -3, 90)), 2 * x, -x, x // 3, tm.cast(tm.int32, x) - 7, x % 64))
    bound = draw.choice((0, 1, 10, 40, 49, 50, -1, -100))
    return draw.choice((side >= bound, side < bound, side > bound, side <= bound, side == bound))


def test_random_conditions_that_are_accepted_leave_no_value_outside() -> None:
    accepted, table = 0, np.arange(EXTENT) * 3 - 20
    for seed in range(250):
        draw = random.Random(seed)
        dtype = draw.choice((tm.int8, tm.int8, tm.int16))
        index = draw.choice((lambda x: x, lambda x: x, lambda x: tm.cast(tm.int32, x) - 1, lambda x: x // 2))
        f = picked(lambda x, draw=draw: (x >= 0) & (x < 60) & random_condition(draw, x, 2), index, dtype)
        if f.check().ok:
            accepted += 1
            x = BYTES.astype(dtype.numpy)
            f.evaluate(x=x, table=table)  # which refuses an index outside
            if accepted % 8 == 0:
                assert f.compile()(x, table) == f.evaluate(x=x, table=table), seed
    assert accepted >= 40


def test_guarded_reads_are_clean_under_the_sanitizers() -> None:
    check_clean("tests.algorithm.domains.ranges.guards_under_sanitizers")
