"""Every operation on every type in kernels: on the simulator as in NumPy, and without a warning of nvcc."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.c.expressions.test_c_arithmetic import (
    ARITHMETIC,
    BITWISE,
    COMPARE,
    COUNT,
    DIVISION,
    EXACT,
    FLOATS,
    FUNCTIONS,
    INTEGERS,
    Case,
    _bits,
    binaries,
    samples,
)
from tests.programs.loop_ir.gpu_files import (
    NVCC,
    Simulated,
    below,
    block,
    kernel,
    launch,
    let,
    moved,
    nvcc,
    on_gpu,
    parameter,
    thread,
)
from tests.programs.loop_ir.short_names import function, given, load, number, result, size, store, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Cast, Const, binary, call, select, unary
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir import Block, If, LoopFunction, Node

N, i = size("N"), var("i")
#: Cases, and the x and y that they are for.
Made = tuple[dict[str, Case], Any, Any]


def elementwise(cases: Mapping[str, Case], dtype: DType) -> LoopFunction:
    """A kernel that computes ``r_case[i] = value(x[i], y[i])`` for each case."""
    values = {name: case.value(load("x", i, dtype=dtype), load("y", i, dtype=dtype)) for name, case in cases.items()}
    stores = tuple(store(f"r_{name}", i, e, e.dtype) for name, e in values.items())
    body = let("i", number(32 * block() + thread()), If(below(i, N), Block(stores)))
    given_types = {"x": dtype, "y": dtype}
    found_types = {f"r_{name}": e.dtype for name, e in values.items()}
    arrays = [parameter(name, N, dtype=t) for name, t in given_types.items()]
    arrays += [parameter(name, N, dtype=t, constant=False) for name, t in found_types.items()]
    each = kernel("each", "N", arrays, (32, 1, 1), body)
    steps: list[Node] = [moved(name, (N,), up=True, dtype=t) for name, t in given_types.items()]
    steps += [launch(each, (number((N + 31) // 32),))]
    steps += [moved(name, (N,), up=False, dtype=t) for name, t in found_types.items()]
    whole: Node = Block(tuple(steps))
    for name, t in {**given_types, **found_types}.items():
        whole = on_gpu(f"{name}@gpu0", (N,), whole, dtype=t)
    arguments = [given(name, N, dtype=t) for name, t in given_types.items()]
    arguments += [result(name, N, dtype=t) for name, t in found_types.items()]
    return function("f", "N", arguments, whole, kernels=(each,), devices=1)  # type: ignore[arg-type]


def check(cases: Mapping[str, Case], dtype: DType, x: Any, y: Any, folder: Path) -> None:
    """Kernels give what NumPy gives, bit for bit (of NaNs, that they are NaN), and nvcc has nothing to say."""
    generated = elementwise(cases, dtype)
    results = [np.zeros(COUNT, a.dtype.numpy) for a in generated.arguments[2:]]
    Simulated(generated)({"N": COUNT}, x, y, *results)
    compare(cases, x, y, results)
    if NVCC is not None:
        nvcc(generated, folder, ("sm_90",))


def compare(cases: Mapping[str, Case], x: Any, y: Any, results: Sequence[Any]) -> None:
    """Each result is what NumPy gives, bit for bit where that can be."""
    for (name, case), found in zip(cases.items(), results, strict=True):
        want = np.asarray(case.want).astype(found.dtype)
        if case.exact:
            bad = np.flatnonzero(_bits(found) != _bits(want))
            assert bad.size == 0, (name, [(x[k], y[k], found[k], want[k]) for k in bad[:5]])
        else:
            tolerance = {2: 2e-2, 4: 2e-6, 8: 1e-14}[want.dtype.itemsize]
            np.testing.assert_allclose(found.astype(float), want.astype(float), rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def literals(dtype: DType) -> dict[str, Case]:
    """The awkward literals of a type."""
    if dtype.is_float:
        values: tuple[Any, ...] = (0.1, 1 / 3, -0.0, 1e-7, float("inf"), float("-inf"), float("nan"), 5.0)
    else:
        info = np.iinfo(dtype.numpy)
        values = (int(info.min), int(info.max), int(info.max) // 2)
    return {
        f"literal_{k}": Case(lambda a, b, v=v: select(a == a, Const(v, dtype), Const(v, dtype)), np.full(COUNT, v))  # type: ignore[misc]
        for k, v in enumerate(values)
    }


def conversions(dtype: DType, x: Any) -> dict[str, Case]:
    """To every type; floats in the range of the target."""
    cases = {}
    for t in (ty.bool_, *INTEGERS, *FLOATS):
        if dtype.is_float and t == ty.uint32:  # NumPy's answer out of range depends on the position in the array
            continue
        cases[f"to_{t}"] = Case(lambda a, b, t=t: Cast(a, t), x.astype(t.numpy))  # type: ignore[misc]
    return cases


def of_arithmetic(dtype: DType) -> Iterator[Made]:
    """Arithmetic, comparisons, choices, division, conversions and literals of a type of numbers."""
    x, y = samples(dtype, 1), samples(dtype, 2)
    y[::3] = x[::3]
    if dtype.is_float:
        x = np.where(np.isfinite(x) & (np.abs(x) > 1e9), 3, x).astype(dtype.numpy)
    cases = binaries({**ARITHMETIC, **COMPARE}, x, y)
    cases["minus_x"] = Case(lambda a, b: unary("-", a), np.negative(x))
    cases["size"] = Case(lambda a, b: call("abs", a), np.abs(x))
    cases["chosen"] = Case(lambda a, b: select((a > b) & (b < 3), a, b), np.where((x > y) & (y < 3), x, y))
    if dtype.is_float:
        cases["ratio"] = Case(lambda a, b: binary("/", a, b), np.divide(x, y))
    if dtype != ty.bfloat16:  # the extension's floor division has an algorithm of its own
        cases |= binaries(DIVISION, x, y)
    yield {**cases, **conversions(dtype, x), **literals(dtype)}, x, y


def of_integers(dtype: DType) -> Iterator[Made]:
    """Bits, shifts and powers of a type of integers."""
    x, y = samples(dtype, 7), samples(dtype, 8)
    y[::2] = np.arange(len(y[::2])) % (dtype.bits + 2)
    cases = binaries({**BITWISE, "left": ("<<", np.left_shift), "right": (">>", np.right_shift)}, x, y)
    cases["complement"] = Case(lambda a, b: unary("~", a), np.invert(x))
    cases["left_3"] = Case(lambda a, b: a << 3, x << 3)
    cases["over_8"] = Case(lambda a, b: a // 8, x // 8)
    cases["rest_7"] = Case(lambda a, b: a % 7, x % 7)
    power = np.abs(y % 9).astype(dtype.numpy)
    cases["power"] = Case(lambda a, b: binary("**", a, call("abs", b % 9)), np.power(x, power))
    yield cases, x, y


def of_conditions(dtype: DType) -> Iterator[Made]:
    """What conditions are combined with."""
    x, y = samples(dtype, 15), samples(dtype, 16)
    table = {
        "plus": ("+", np.add),
        "times": ("*", np.multiply),
        "least": ("min", np.minimum),
        "most": ("max", np.maximum),
    }
    cases = binaries({**BITWISE, **table, **COMPARE}, x, y)
    cases["no"] = Case(lambda a, b: unary("~", a), ~x)
    cases["choice"] = Case(lambda a, b: select(a, b, ~b), np.where(x, y, ~y))
    yield {**cases, **conversions(dtype, x)}, x, y


def of_floats(dtype: DType) -> Iterator[Made]:
    """Mathematical functions: those that are exact, and the others near what they are used for."""
    x, y = samples(dtype, 21), samples(dtype, 22)

    def unary_case(name: str, exact: bool, operand: Any) -> Case:
        return Case(lambda a, b: call(name, a), getattr(np, name)(operand), exact)

    cases = {f"do_{name}": unary_case(name, True, x) for name in (*EXACT, "isnan", "isinf", "isfinite")}
    cases["sign_of"] = Case(lambda a, b: call("copysign", a, b), np.copysign(x, y))
    yield cases, x, y
    x = np.abs(np.where(np.isfinite(x), x, 1)).astype(np.float64).clip(0, 20).astype(dtype.numpy)
    cases = {f"do_{name}": unary_case(name, False, x) for name in FUNCTIONS}
    cases["length"] = Case(lambda a, b: call("hypot", a, a), np.hypot(x, x), False)
    cases["raised"] = Case(lambda a, b: binary("**", a, Const(2.0, dtype)), np.power(x, dtype.numpy.type(2)), False)
    yield cases, x, y


#: All operations that there are: by what they are for, of which types.
OPERATIONS: Mapping[str, tuple[Callable[[DType], Iterator[Made]], tuple[DType, ...]]] = {
    "arithmetic": (of_arithmetic, (*INTEGERS, *FLOATS)),
    "bits": (of_integers, INTEGERS),
    "conditions": (of_conditions, (ty.bool_,)),
    "functions": (of_floats, FLOATS),
}


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_arithmetic_in_kernels_is_that_of_numpy(dtype: DType, tmp_path: Path) -> None:
    for cases, x, y in of_arithmetic(dtype):
        check(cases, dtype, x, y, tmp_path)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_shifts_and_powers_of_integers_in_kernels_are_those_of_numpy(dtype: DType, tmp_path: Path) -> None:
    for cases, x, y in of_integers(dtype):
        check(cases, dtype, x, y, tmp_path)


def test_conditions_in_kernels_combine_as_those_of_numpy_do(tmp_path: Path) -> None:
    for cases, x, y in of_conditions(ty.bool_):
        check(cases, ty.bool_, x, y, tmp_path)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mathematical_functions_in_kernels_agree_with_numpy(dtype: DType, tmp_path: Path) -> None:
    for cases, x, y in of_floats(dtype):
        check(cases, dtype, x, y, tmp_path)
