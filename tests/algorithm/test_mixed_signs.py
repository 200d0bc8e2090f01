"""Signed integers beside uint64: compared as the numbers that they are, and computed in float64, as in NumPy 2."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
(i,) = tm.iters("i")
COMPARED = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
UNSIGNED = (0, 1, 127, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
SIGNED = (0, 1, -1, 127, -128, 2**31, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63))


def pairs(signed: tm.DType) -> tuple[Any, Any]:
    """All pairs of awkward values."""
    info = np.iinfo(signed.numpy)
    left = np.array([value for value in SIGNED if info.min <= value <= info.max], signed.numpy)
    right = np.array(UNSIGNED, np.uint64)
    return np.repeat(left, len(right)), np.tile(right, len(left))


def comparisons(signed: tm.DType, lanes: int) -> tm.Function:
    """Each comparison of two arrays, both ways round, a bit of a number each."""
    f = tm.Function("compared", params=[N])
    s, u = f.input("s", signed, [N]), f.input("u", tm.uint64, [N])
    bits: Any = tm.cast(tm.int32, 0)
    for k, compare in enumerate(COMPARED):
        for way, both in enumerate(((s[i], u[i]), (u[i], s[i]))):
            bits = bits | tm.cast(tm.int32, compare(*both)) << 2 * k + way
    o = f.computation("o", {i: N}, bits)
    f.outputs(o)
    if lanes:
        o.vectorize(i, lanes, remainder="mask")
    return f


def wanted(s: Any, u: Any) -> Any:
    exact = [(int(a), int(b)) for a, b in zip(s, u, strict=True)]
    both = [[(a, b), (b, a)] for a, b in exact]
    return np.array(
        [sum(int(c(*way[w])) << 2 * k + w for k, c in enumerate(COMPARED) for w in (0, 1)) for way in both], np.int32
    )


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("signed", [tm.int8, tm.int32, tm.int64], ids=str)
def test_they_are_compared_as_numbers(signed: tm.DType, lanes: int) -> None:
    f = comparisons(signed, lanes)
    s, u = pairs(signed)
    np.testing.assert_array_equal(f.evaluate(s, u), wanted(s, u))
    np.testing.assert_array_equal(f.compile()(s, u), wanted(s, u))


def test_numpy_says_the_same() -> None:
    s, u = pairs(tm.int64)
    for compare in COMPARED:
        np.testing.assert_array_equal(compare(s, u), [compare(int(a), int(b)) for a, b in zip(s, u, strict=True)])


def test_an_iterator_below_zero_is_less_than_any_uint64() -> None:
    f = tm.Function("below", params=[N])
    u = f.input("u", tm.uint64, [N])
    o = f.computation("o", {i: N}, tm.cast(tm.int32, i - 3 < u[i]))
    f.outputs(o)
    values = np.array([0, 2**63, 0, 0, 0, 2**64 - 1, 3, 4], np.uint64)
    want = [int(k - 3 < int(value)) for k, value in enumerate(values)]
    np.testing.assert_array_equal(f.evaluate(values), want)
    np.testing.assert_array_equal(f.compile()(values), want)


def test_a_literal_cast_to_a_signed_type_is_a_signed_number() -> None:
    f = tm.Function("literal", params=[N])
    u = f.input("u", tm.uint64, [N])
    bits = tm.cast(tm.int32, u[i] > tm.cast(tm.int64, -1)) + 2 * tm.cast(tm.int32, u[i] == tm.cast(tm.int64, 2**53 + 1))
    o = f.computation("o", {i: N}, bits)
    f.outputs(o)
    values = np.array([0, 2**53, 2**53 + 1, 2**53 + 2, 2**64 - 1], np.uint64)
    np.testing.assert_array_equal(f.evaluate(values), [1, 1, 3, 1, 1])
    np.testing.assert_array_equal(f.compile()(values), [1, 1, 3, 1, 1])


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, tm.minimum, tm.maximum])
def test_arithmetic_is_of_float64_as_in_numpy(op: Any) -> None:
    f = tm.Function("mixed", params=[N])
    s, u = f.input("s", tm.int64, [N]), f.input("u", tm.uint64, [N])
    o = f.computation("o", {i: N}, op(s[i], u[i]))
    f.outputs(o)
    given = pairs(tm.int64)
    numpy = {tm.minimum: np.minimum, tm.maximum: np.maximum}.get(op, op)
    found = f.compile()(*given)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, numpy(*given))
    np.testing.assert_array_equal(f.evaluate(*given), numpy(*given))


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift])
def test_bits_of_them_are_refused_as_in_numpy(op: Any) -> None:
    f = tm.Function("mixed", params=[N])
    s, u = f.input("s", tm.int64, [N]), f.input("u", tm.uint64, [N])
    with pytest.raises(tm.TiramisuError, match="needs integers or conditions"):
        op(s[i], u[i])
    with pytest.raises(TypeError):
        op(*pairs(tm.int64))
