"""Weighted sums of vectors: one multiplication for each different weight, and the same bits."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType
from tiramisu_py.interpret.evaluator import bound
from tiramisu_py.ir import Load, Ramp
from tiramisu_py.passes.vectors.equal_weights import grouped

LANES = 64
TYPES = (ty.uint8, ty.int8, ty.uint16, ty.int16, ty.uint32, ty.int32, ty.uint64, ty.int64)


def vector(seed: int, dtype: DType) -> Expr:
    """A vector that wraps around in every narrow type: multiples of a large odd number."""
    ramp = Ramp(Const(seed, ty.int64), LANES)
    return Binary("^", Cast(ramp, dtype), Const(dtype.limits[1] // (seed + 3), dtype), dtype)


def summed(weights: list[int], dtype: DType, left: bool = True) -> Expr:
    """Weights times different vectors, added one after another."""
    terms = []
    for k, weight in enumerate(weights):
        sides = (vector(k, dtype), Const(weight, dtype))
        terms.append(Binary("*", *(sides if left else sides[::-1]), dtype))
    total: Expr = terms[0]
    for term in terms[1:]:
        total = Binary("+", total, term, dtype)
    return total


def products(e: Expr) -> int:
    return sum(isinstance(node, Binary) and node.op == "*" for node in walk(e))


def value(e: Expr) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.broadcast_to(bound({})(e), LANES)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("left", [True, False])
def test_terms_of_equal_weight_are_added_before_they_are_multiplied(dtype: DType, left: bool) -> None:
    e = summed([2, 3, 1, 2, 3, 2, 1, 7], dtype, left)
    found = grouped(e)
    np.testing.assert_array_equal(value(found), value(e), strict=True)
    assert products(found) == 3


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_random_weighted_sums_have_the_same_bits(dtype: DType) -> None:
    rng = random.Random(7)
    low, high = dtype.limits
    for _ in range(30):
        weights = rng.choices([0, 1, 2, 5, low, high, high // 2], k=rng.randint(2, 12))
        e = summed(weights, dtype)
        found = grouped(e)
        np.testing.assert_array_equal(value(found), value(e), strict=True)
        assert products(found) <= len(set(weights) - {1}) or found is e


def test_a_sum_inside_an_operand_is_grouped_too() -> None:
    inner = summed([5, 5], ty.uint16)
    e = Binary("max", inner, vector(9, ty.uint16), ty.uint16)
    assert products(grouped(e)) == 1
    np.testing.assert_array_equal(value(grouped(e)), value(e), strict=True)


def test_sums_that_would_gain_nothing_stay_as_they_are() -> None:
    for e in (summed([1, 2, 3], ty.uint16), vector(0, ty.uint16)):
        assert grouped(e) is e


def test_floats_are_not_touched() -> None:
    x, y, two = (Cast(Ramp(Const(k, ty.int64), LANES), ty.float32) for k in (0, 1, 2))
    e = Binary("+", Binary("*", x, two, ty.float32), Binary("*", y, two, ty.float32), ty.float32)
    assert grouped(e) is e


def test_widened_values_are_left_to_the_instructions_that_multiply_pairs() -> None:
    parts = [Cast(vector(k, ty.uint8), ty.int32) for k in range(2)]
    terms = [Binary("*", part, Const(3, ty.int32), ty.int32) for part in parts]
    e = Binary("+", *terms, ty.int32)
    assert grouped(e) is e


def test_indices_are_not_touched() -> None:
    at = Binary("+", Ramp(Const(0, ty.int64), LANES), Const(1, ty.int64), ty.int64)
    twice = Binary("+", *[Binary("*", at, Const(2, ty.int64), ty.int64)] * 2, ty.int64)
    assert grouped(e := Load("a", (twice,), ty.uint16)) is e


@pytest.mark.parametrize("dtype", [tm.uint8, tm.uint16, tm.int16, tm.int32, tm.uint64], ids=str)
def test_a_kernel_with_repeated_weights_is_exact(dtype: tm.DType) -> None:
    (N,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("weighted", params=[N])
    a = f.input("a", dtype, [N + 6])
    terms = [a[i + k] * weight for k, weight in enumerate([3, 5, 3, 100, 5, 3, 100])]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    out = f.computation("out", {i: N}, total)
    f.outputs(out)
    out.vectorize(i, 16, remainder="mask")
    low, high = dtype.limits
    given = np.random.default_rng(0).integers(low, high, 61, dtype=dtype.numpy, endpoint=True)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(a=given), strict=True)
