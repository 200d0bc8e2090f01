"""Every operation on every type, in scalar and in vector code, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.backends.building import function, given, load, loop, result, size, store, var
from tests.backends.compiled import Compiled
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Cast, Const, Expr, binary, call, select, unary
from tiramisu_py.algorithm.types import DType
from tiramisu_py.lower.ir import LoopFunction
from tiramisu_py.program.loops import Vector

INTEGERS = (ty.int8, ty.int16, ty.int32, ty.int64, ty.uint8, ty.uint16, ty.uint32, ty.uint64)
FLOATS = (ty.float16, ty.bfloat16, ty.float32, ty.float64)
COUNT = 83


def samples(dtype: DType, seed: int) -> Any:
    """Values with all the awkward ones."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, COUNT).astype(bool)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        awkward = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 2, info.min // 2]
        if dtype.kind == "i":
            awkward += [-1, -2, -7]
        small = rng.integers(max(info.min, -100), 100, COUNT).astype(dtype.numpy)
        large = rng.integers(info.min, info.max, COUNT, dtype=dtype.numpy, endpoint=True)
        found = np.where(rng.random(COUNT) < 0.5, small, large)
        found[rng.permutation(COUNT)[: 2 * len(awkward)]] = awkward * 2
        return found
    values = rng.normal(0, 10, COUNT)
    awkward = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 3.0, -7.25, 1e-7, 70000.0]
    values[rng.permutation(COUNT)[: 3 * len(awkward)]] = awkward * 3
    return values.astype(dtype.numpy)


def over_two(value: Callable[[Expr, Expr], Expr], dtype: DType, second: DType | None = None) -> LoopFunction:
    """``s[i] = v[i] = value(x[i], y[i])``, first one by one, then in vectors."""
    n, i = size("N"), var("i")
    second = second or dtype
    e = value(load("x", i, dtype=dtype), load("y", i, dtype=second))
    target = e.dtype
    return function(
        "f",
        "N",
        [given("x", n, dtype=dtype), given("y", n, dtype=second), result("s", n, dtype=target), result("v", n, dtype=target)],
        loop("i", n, store("s", i, e, target)),
        loop("i", n, store("v", i, e, target), tag=Vector(8)),
    )


def check(function: LoopFunction, x: Any, y: Any, want: Any, exact: bool = True) -> None:
    """Scalar and vector code give what NumPy gives, bit for bit (of NaNs, that they are NaN)."""
    target = function.arguments[2].dtype.numpy
    s, v = np.zeros(COUNT, target), np.zeros(COUNT, target)
    Compiled(function)({"N": COUNT}, x=x, y=y, s=s, v=v)
    want = np.asarray(want).astype(target)
    for name, found in (("scalar", s), ("vector", v)):
        if exact:
            same = _bits(found) == _bits(want)
            bad = np.flatnonzero(~same)
            assert same.all(), (name, [(x[k], y[k], found[k], want[k]) for k in bad[:5]])
        else:
            tolerance = {2: 2e-2, 4: 2e-6, 8: 1e-14}[want.dtype.itemsize]
            np.testing.assert_allclose(found.astype(float), want.astype(float), rtol=tolerance, atol=tolerance)


def _bits(a: Any) -> Any:
    if a.dtype.kind in "biu":
        return a
    wide = a.astype(np.float64)
    return np.where(np.isnan(wide), np.uint64(0x7FF8000000000000), wide.view(np.uint64))


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


ARITHMETIC: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum, "//": np.floor_divide,
    "%": np.remainder,
}  # fmt: skip
COMPARE: dict[str, Any] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_is_that_of_numpy(op: str, dtype: DType) -> None:
    x, y = samples(dtype, 1), samples(dtype, 2)
    if dtype is ty.bfloat16 and op in ("//", "%"):
        want = ARITHMETIC[op](x.astype(np.float32), y.astype(np.float32)).astype(ml_dtypes.bfloat16)
    else:
        want = ARITHMETIC[op](x, y)
    check(over_two(lambda a, b: binary(op, a, b), dtype), x, y, want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division_is_that_of_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 3), samples(dtype, 4)
    check(over_two(lambda a, b: binary("/", a, b), dtype), x, y, np.divide(x, y))


@pytest.mark.parametrize("dtype", [ty.bool_, *INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("op", COMPARE)
def test_comparisons_are_those_of_numpy(op: str, dtype: DType) -> None:
    x, y = samples(dtype, 5), samples(dtype, 6)
    y[::3] = x[::3]
    check(over_two(lambda a, b: binary(op, a, b), dtype), x, y, COMPARE[op](x, y))


@pytest.mark.parametrize("dtype", [ty.bool_, *INTEGERS], ids=str)
@pytest.mark.parametrize("op", ["&", "|", "^"])
def test_bitwise_operations_are_those_of_numpy(op: str, dtype: DType) -> None:
    x, y = samples(dtype, 7), samples(dtype, 8)
    want = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[op](x, y)
    check(over_two(lambda a, b: binary(op, a, b), dtype), x, y, want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["<<", ">>"])
def test_shifts_by_any_count_are_those_of_numpy(op: str, dtype: DType) -> None:
    x, y = samples(dtype, 9), samples(dtype, 10)
    y[::2] = np.arange(len(y[::2])) % (dtype.bits + 2)
    want = (np.left_shift if op == "<<" else np.right_shift)(x, y)
    check(over_two(lambda a, b: binary(op, a, b), dtype), x, y, want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_powers_of_integers_are_those_of_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 11), np.abs(samples(dtype, 12) % 9).astype(dtype.numpy)
    check(over_two(lambda a, b: binary("**", a, b), dtype), x, y, np.power(x, y))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_negation_absolute_value_and_complement_are_those_of_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 13), samples(dtype, 14)
    check(over_two(lambda a, b: unary("-", a), dtype), x, y, np.negative(x))
    check(over_two(lambda a, b: call("abs", a), dtype), x, y, np.abs(x))
    if dtype.is_integer:
        check(over_two(lambda a, b: unary("~", a), dtype), x, y, np.invert(x))


def test_conditions_combine_as_those_of_numpy_do() -> None:
    x, y = samples(ty.bool_, 15), samples(ty.bool_, 16)
    for op in ("+", "*", "min", "max"):
        want = {"+": x | y, "*": x & y, "min": x & y, "max": x | y}[op]
        check(over_two(lambda a, b, op=op: binary(op, a, b), ty.bool_), x, y, want)
    check(over_two(lambda a, b: unary("~", a), ty.bool_), x, y, ~x)
    check(over_two(lambda a, b: select(a, b, ~b), ty.bool_), x, y, np.where(x, y, ~y))


def test_conditions_over_operands_of_several_widths_combine() -> None:
    x, y = samples(ty.float64, 17), samples(ty.int16, 18)
    chosen = over_two(lambda a, b: select((a > 1.0) & (b < 3) | (a == b), b, Cast(a, ty.int16)), ty.float64, ty.int16)
    want = np.where((x > 1) & (y < 3) | (x == y), y, x.astype(np.int16))
    check(chosen, x, y, want)


@pytest.mark.parametrize("target", [ty.bool_, *INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("dtype", [ty.bool_, *INTEGERS, *FLOATS], ids=str)
def test_conversions_are_those_of_numpy(dtype: DType, target: DType) -> None:
    x, y = samples(dtype, 19), samples(dtype, 20)
    if dtype.is_float and target is ty.uint32:  # out of range, NumPy's own answer depends on the position in the array
        x = np.where(np.isfinite(x) & (np.abs(x) < 1e9), x, 3).astype(dtype.numpy)
    check(over_two(lambda a, b: Cast(a, target), dtype), x, y, x.astype(target.numpy))


FUNCTIONS = ("sqrt", "floor", "ceil", "trunc", "rint", "exp", "log1p", "sin", "arctan", "tanh", "cbrt")
EXACT = ("sqrt", "floor", "ceil", "trunc", "rint")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_mathematical_functions_agree_with_numpy(name: str, dtype: DType) -> None:
    x, y = samples(dtype, 21), samples(dtype, 22)
    if name not in EXACT:
        x = np.abs(np.where(np.isfinite(x), x, 1)).astype(np.float64).clip(0, 20).astype(dtype.numpy)
    want = getattr(np, name)(x)
    check(over_two(lambda a, b: call(name, a), dtype), x, y, want, exact=name in EXACT)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_two_arguments_and_predicates_agree_with_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 23), samples(dtype, 24)
    check(over_two(lambda a, b: call("copysign", a, b), dtype), x, y, np.copysign(x, y))
    for name in ("isnan", "isinf", "isfinite"):
        check(over_two(lambda a, b, name=name: call(name, a), dtype), x, y, getattr(np, name)(x))
    finite = np.where(np.isfinite(x), x, 1).astype(dtype.numpy)
    check(over_two(lambda a, b: call("hypot", a, a), dtype), finite, y, np.hypot(finite, finite), exact=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_literals_have_exactly_the_value_that_numpy_gives_them(dtype: DType) -> None:
    x, y = np.zeros(COUNT, dtype.numpy), np.zeros(COUNT, dtype.numpy)
    for value in (0.1, 1 / 3, -0.0, 1e-7, 12345.678, float("inf"), float("-inf"), float("nan"), 5.0):
        e = over_two(lambda a, b, value=value: select(a == 0, Const(value, dtype), a), dtype)
        check(e, x, y, np.full(COUNT, dtype.numpy.type(value)))
