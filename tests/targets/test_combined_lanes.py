"""The lanes of partial results are combined by halves, in the same order on every kind of processor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.processors import require_target
from tests.selection import some
from tests.targets.machines import PLAIN, TARGETS
from tests.targets.programs import Call, Program, printed
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise

(N,) = tm.params("N")
(i,) = tm.iters("i")
KINDS = ("gcc-avx512", "gcc-avx2", "gcc-sse2", "gcc-sanitised", "clang-avx512", "clang-generic", "gcc-neon")
LENGTHS = (0, 1, 15, 16, 17, 64, 131)
Array = np.ndarray[Any, Any]

grown = tm.operator("grown", lambda a, b: a + b + a * b, 0)
OPERATORS: dict[str, tuple[Any, Callable[[Any, Any], Any], float]] = {
    "sum": (tm.sum, lambda a, b: a + b, -0.0),
    "product": (tm.product, lambda a, b: a * b, 1),
    "min": (tm.min, np.minimum, np.inf),
    "max": (tm.max, np.maximum, -np.inf),
    "grown": (grown, lambda a, b: a + b + a * b, 0),
}
WIDTHS = {tm.float32: (2, 16, 64), tm.float64: (8, 32), tm.int32: (16, 64), tm.uint8: (16, 64), tm.int64: (2, 16)}


def reduced(operator: Any, dtype: tm.DType, lanes: int) -> tm.Function:
    """One reduction over lanes."""
    f = tm.Function("f", params=[N])
    x = f.input("x", dtype, [N])
    s = f.reduction("s", {}, {i: N}, operator, x[i])
    f.outputs(s)
    s.update.vectorize(i, lanes, combine=tm.PRIVATE)
    return f


def identity(name: str, dtype: tm.DType) -> Any:
    """The value with which a reduction starts."""
    if name in ("min", "max") and dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return dtype.numpy.type(info.max if name == "min" else info.min)
    return dtype.numpy.type(0 if name == "sum" else OPERATORS[name][2])


def in_halves(name: str, x: Array, lanes: int, dtype: tm.DType) -> Any:
    """The value in the order of the documentation: whole vectors, their halves, then the rest one by one."""
    combine = OPERATORS[name][1]
    start = identity(name, dtype)
    whole = len(x) // lanes * lanes
    partial = np.full(lanes, OPERATORS[name][2] if dtype.is_float else start, dtype.numpy)
    for row in x[:whole].reshape(-1, lanes):
        partial = combine(partial, row)
    while len(partial) > 1:
        partial = combine(*np.split(partial, 2))
    value = combine(start, partial[0]) if whole else start
    for each in x[whole:]:
        value = combine(value, each)
    return dtype.numpy.type(value)


def sample(dtype: tm.DType, length: int) -> Array:
    """Values whose sum depends on its order."""
    rng = np.random.default_rng(length)
    if dtype.is_float:
        values: Array = (rng.standard_normal(length) * 10.0 ** rng.integers(-3, 4, length)).astype(dtype.numpy)
        return values
    return rng.integers(0, 100, length).astype(dtype.numpy)


@pytest.mark.parametrize("kind", some(KINDS, PLAIN.__contains__))
def test_every_operator_type_and_width_is_combined_by_halves(kind: str, tmp_path: Path) -> None:
    target = next(each for each in TARGETS if each.name == kind)
    if target.missing:
        pytest.skip(target.missing)
    cases = [(name, dtype, lanes) for name in OPERATORS for dtype, widths in WIDTHS.items() for lanes in widths]
    functions = [reduced(OPERATORS[name][0], dtype, lanes) for name, dtype, lanes in cases]
    program = Program(target, printed([optimise(lower(f.program), target.register) for f in functions]), tmp_path)
    calls, wanted = [], []
    with np.errstate(over="ignore", invalid="ignore"):
        for k, (name, dtype, lanes) in enumerate(cases):
            for length in LENGTHS:
                x = sample(dtype, length)
                calls.append(Call(k, {"N": length}, {"x": x, "s": np.zeros((), dtype.numpy)}))
                wanted.append((name, dtype, lanes, length, in_halves(name, x, lanes, dtype)))
    for (*case, value), result in zip(wanted, program(calls), strict=True):
        np.testing.assert_array_equal(result["s"], value, err_msg=str(case))


def test_the_order_does_not_depend_on_the_registers() -> None:
    require_target("x86-64-v3")
    f = reduced(tm.sum, tm.float32, 64)
    x = sample(tm.float32, 1031)
    found = {float(f.compile(target=target)(x)) for target in ("x86-64", "x86-64-v3")}
    assert found == {float(in_halves("sum", x, 64, tm.float32))}


def test_not_a_number_and_infinities_come_through() -> None:
    kernel = reduced(tm.max, tm.float32, 16).compile()
    for place in (0, 15, 16, 40):
        x = sample(tm.float32, 41)
        x[place] = np.nan
        assert np.isnan(kernel(x))
        x[place] = np.inf
        assert kernel(x) == np.inf
        assert kernel(np.full(41, -np.inf, np.float32)) == -np.inf


def test_a_sum_of_minus_zeros_starts_at_zero() -> None:
    kernel = reduced(tm.sum, tm.float32, 16).compile()
    assert not np.signbit(kernel(np.full(35, -0.0, np.float32)))
