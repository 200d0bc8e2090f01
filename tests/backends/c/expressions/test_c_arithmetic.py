"""Every operation on every type, in scalar and in vector code, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.backends.compiled import Compiled
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Cast, Const, Expr, binary, call, select, unary
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir import ArrayArgument, LoopFunction, Node, ScalarArgument
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


@dataclass
class Case:
    """A value of x[i] and y[i], and what NumPy gives for it."""

    value: Callable[[Expr, Expr], Expr]
    want: Any
    exact: bool = True


def over_two(cases: Mapping[str, Case], dtype: DType, second: DType) -> LoopFunction:
    """For each case ``s_case[i] = v_case[i] = value(x[i], y[i])``, first one by one, then in vectors."""
    n, i = size("N"), var("i")
    arrays: list[ArrayArgument | ScalarArgument] = [given("x", n, dtype=dtype), given("y", n, dtype=second)]
    loops: list[Node] = []
    for name, case in cases.items():
        e = case.value(load("x", i, dtype=dtype), load("y", i, dtype=second))
        arrays += [result(f"s_{name}", n, dtype=e.dtype), result(f"v_{name}", n, dtype=e.dtype)]
        loops.append(loop("i", n, store(f"s_{name}", i, e, e.dtype)))
        loops.append(loop("i", n, store(f"v_{name}", i, e, e.dtype), tag=Vector(8)))
    return function("f", "N", arrays, *loops)


def check(cases: Mapping[str, Case], dtype: DType, x: Any, y: Any, second: DType | None = None) -> None:
    """Scalar and vector code give what NumPy gives, bit for bit (of NaNs, that they are NaN)."""
    generated = over_two(cases, dtype, second or dtype)
    results = {a.name: np.zeros(COUNT, a.dtype.numpy) for a in generated.arguments[2:]}
    Compiled(generated, "-O1", "-march=native")({"N": COUNT}, x=x, y=y, **results)
    for name, found in results.items():
        case = cases[name[2:]]
        want = np.asarray(case.want).astype(found.dtype)
        if case.exact:
            bad = np.flatnonzero(_bits(found) != _bits(want))
            assert bad.size == 0, (name, [(x[k], y[k], found[k], want[k]) for k in bad[:5]])
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


def binaries(table: Mapping[str, tuple[str, Any]], x: Any, y: Any) -> dict[str, Case]:
    """A case for each operator: its name in C, the operator and NumPy's function."""

    def case(op: str, function: Any) -> Case:
        return Case(lambda a, b: binary(op, a, b), function(x, y))

    return {name: case(op, function) for name, (op, function) in table.items()}


ARITHMETIC = {
    "plus": ("+", np.add), "minus": ("-", np.subtract), "times": ("*", np.multiply), "least": ("min", np.minimum),
    "most": ("max", np.maximum),
}  # fmt: skip
DIVISION = {"div": ("//", np.floor_divide), "mod": ("%", np.remainder)}
COMPARE = {
    "lt": ("<", np.less), "le": ("<=", np.less_equal), "gt": (">", np.greater), "ge": (">=", np.greater_equal),
    "eq": ("==", np.equal), "ne": ("!=", np.not_equal),
}  # fmt: skip
BITWISE = {"both": ("&", np.bitwise_and), "either": ("|", np.bitwise_or), "one": ("^", np.bitwise_xor)}


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_arithmetic_is_that_of_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 1), samples(dtype, 2)
    cases = binaries(ARITHMETIC, x, y)
    cases["minus_x"] = Case(lambda a, b: unary("-", a), np.negative(x))
    cases["size"] = Case(lambda a, b: call("abs", a), np.abs(x))
    if dtype.is_float:
        cases["ratio"] = Case(lambda a, b: binary("/", a, b), np.divide(x, y))
    if dtype is ty.bfloat16:  # the extension's floor division has an algorithm of its own
        for name, (op, in_numpy) in DIVISION.items():
            want = in_numpy(x.astype(np.float32), y.astype(np.float32))
            cases[name] = Case(lambda a, b, op=op: binary(op, a, b), want)  # type: ignore[misc]
    else:
        cases |= binaries(DIVISION, x, y)
    check(cases, dtype, x, y)


@pytest.mark.parametrize("dtype", [ty.bool_, *INTEGERS, *FLOATS], ids=str)
def test_comparisons_are_those_of_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 5), samples(dtype, 6)
    y[::3] = x[::3]
    check(binaries(COMPARE, x, y), dtype, x, y)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_shifts_and_powers_of_integers_are_those_of_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 7), samples(dtype, 8)
    y[::2] = np.arange(len(y[::2])) % (dtype.bits + 2)
    cases = binaries({**BITWISE, "left": ("<<", np.left_shift), "right": (">>", np.right_shift)}, x, y)
    cases["complement"] = Case(lambda a, b: unary("~", a), np.invert(x))
    cases["left_3"] = Case(lambda a, b: a << 3, x << 3)
    cases["right_3"] = Case(lambda a, b: a >> 3, x >> 3)
    cases["over_8"] = Case(lambda a, b: a // 8, x // 8)
    cases["rest_8"] = Case(lambda a, b: a % 8, x % 8)
    cases["over_7"] = Case(lambda a, b: a // 7, x // 7)
    cases["rest_7"] = Case(lambda a, b: a % 7, x % 7)
    power = np.abs(y % 9).astype(dtype.numpy)
    cases["power"] = Case(lambda a, b: binary("**", a, call("abs", b % 9)), np.power(x, power))
    check(cases, dtype, x, y)


def test_conditions_combine_as_those_of_numpy_do() -> None:
    x, y = samples(ty.bool_, 15), samples(ty.bool_, 16)
    table = {
        "plus": ("+", np.add),
        "times": ("*", np.multiply),
        "least": ("min", np.minimum),
        "most": ("max", np.maximum),
    }
    cases = binaries({**BITWISE, **table}, x, y)
    cases["no"] = Case(lambda a, b: unary("~", a), ~x)
    cases["choice"] = Case(lambda a, b: select(a, b, ~b), np.where(x, y, ~y))
    cases["known"] = Case(lambda a, b: a & Const(True, ty.bool_), x)
    check(cases, ty.bool_, x, y)


def test_conditions_over_operands_of_several_widths_combine() -> None:
    x, y = samples(ty.float64, 17), samples(ty.int16, 18)
    want = np.where(((x > 1) & (y < 3)) | (x == y), y, x.astype(np.int16))
    case = Case(lambda a, b: select(((a > 1.0) & (b < 3)) | (a == b), b, Cast(a, ty.int16)), want)
    check({"chosen": case}, ty.float64, x, y, ty.int16)


@pytest.mark.parametrize("dtype", [ty.bool_, *INTEGERS, *FLOATS], ids=str)
def test_conversions_are_those_of_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 19), samples(dtype, 20)
    if dtype.is_float:  # to uint32, NumPy's answer for what is out of range depends on the position in the array
        x = np.where(np.isfinite(x) & (np.abs(x) > 1e9), 3, x).astype(dtype.numpy)
    cases = {f"to_{t}": Case(lambda a, b, t=t: Cast(a, t), x.astype(t.numpy)) for t in (ty.bool_, *INTEGERS, *FLOATS)}  # type: ignore[misc]
    if dtype.is_float:
        inside = np.where(np.isfinite(x), x, 3).astype(dtype.numpy)
        cases["to_uint32"] = Case(
            lambda a, b: Cast(select(call("isfinite", a), a, Const(3.0, dtype)), ty.uint32), inside.astype(np.uint32)
        )
    check(cases, dtype, x, y)


FUNCTIONS = ("exp", "log1p", "sin", "arctan", "tanh", "cbrt")
EXACT = ("sqrt", "floor", "ceil", "trunc", "rint")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mathematical_functions_agree_with_numpy(dtype: DType) -> None:
    x, y = samples(dtype, 21), samples(dtype, 22)

    def unary_case(name: str, exact: bool, operand: Any) -> Case:
        return Case(lambda a, b: call(name, a), getattr(np, name)(operand), exact)

    cases = {name: unary_case(name, True, x) for name in (*EXACT, "isnan", "isinf", "isfinite")}
    cases["sign_of"] = Case(lambda a, b: call("copysign", a, b), np.copysign(x, y))
    check({f"do_{name}": case for name, case in cases.items()}, dtype, x, y)
    x = np.abs(np.where(np.isfinite(x), x, 1)).astype(np.float64).clip(0, 20).astype(dtype.numpy)
    cases = {f"do_{name}": unary_case(name, False, x) for name in FUNCTIONS}
    cases["length"] = Case(lambda a, b: call("hypot", a, a), np.hypot(x, x), False)
    check(cases, dtype, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_literals_have_exactly_the_value_that_numpy_gives_them(dtype: DType) -> None:
    x, y = np.zeros(COUNT, dtype.numpy), np.zeros(COUNT, dtype.numpy)
    values = (0.1, 1 / 3, -0.0, 1e-7, 12345.678, float("inf"), float("-inf"), float("nan"), 5.0)

    def literal(value: float) -> Case:
        return Case(lambda a, b: select(a == 0, Const(value, dtype), a), np.full(COUNT, dtype.numpy.type(value)))

    check({f"v{k}": literal(value) for k, value in enumerate(values)}, dtype, x, y)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_largest_and_smallest_literals_of_a_type_are_exact(dtype: DType) -> None:
    x, y = np.zeros(COUNT, dtype.numpy), np.zeros(COUNT, dtype.numpy)
    info = np.iinfo(dtype.numpy)

    def literal(value: int) -> Case:
        return Case(lambda a, b: select(a == 0, Const(value, dtype), a), np.full(COUNT, value, dtype.numpy))

    check({f"v{k}": literal(int(value)) for k, value in enumerate((info.min, info.max, info.max // 2))}, dtype, x, y)
