"""Expressions over every type, operator and schedule: compiled code gives what `evaluate` gives, to the bit.

``TIRAMISU_FUZZ=200`` tries 200 batches of random expressions, not the usual few.
"""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.loop_ir.random_expressions import (
    ROUNDED,
    ROUNDED_2,
    Batch,
    N,
    bits,
    i,
    samples,
)
from tests.sanitizers import check_clean, sanitized_process
from tiramisu_py.algorithm.expressions import Expr, call
from tiramisu_py.algorithm.types import STRONG, DType
from tiramisu_py.toolchain import processor_for

BATCHES = int(os.environ.get("TIRAMISU_FUZZ", "2"))
SIZES = (0, 1, 2, 31, 67)
(M,) = tm.params("M")
j, k, k0, k1 = tm.iters("j k k0 k1")

Values = Callable[..., Any]
Make = Callable[[dict[str, Expr]], Any]

SCHEDULES: dict[str, Callable[[Any], object]] = {
    "scalar": lambda c: None,
    "unrolled": lambda c: c.unroll(i, 4),
    "vectors of 2": lambda c: c.vectorize(i, 2),
    "vectors of 16": lambda c: c.vectorize(i, 16),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def agree(makes: dict[str, Make], **compiled: Any) -> None:
    """For every expression under every schedule, the kernel and `evaluate` agree; `makes` get ``x[i]`` of each type.

    Each expression has a function of its own: gcc takes longer for all of them in one.
    """
    for label, make in makes.items():
        f = tm.Function("agree", params=[N])
        arrays = {str(dtype): f.input(f"x_{dtype}", dtype, [N]) for dtype in STRONG}
        outputs = []
        for schedule in SCHEDULES.values():
            outputs.append(f.computation(f"o{len(outputs)}", {i: N}, make({name: x[i] for name, x in arrays.items()})))
            schedule(outputs[-1])
        f.outputs(*outputs)
        kernel = f.compile(**compiled)
        for n in (0, 3, 67):
            given = {f"x_{dtype}": samples(dtype, n, n) for dtype in STRONG}
            for words, want, got in zip(SCHEDULES, f.evaluate(**given), kernel(**given), strict=True):
                np.testing.assert_array_equal(bits(got), bits(want), err_msg=f"{label}, {words}, N = {n}")


# -- at random


def found_in(seed: int, count: int = 8, **compiled: Any) -> list[str]:
    """What a batch of random expressions computes otherwise than `evaluate`."""
    batch = Batch.of(seed, count)
    kernel = batch.f.compile(**compiled)
    return [line for n in SIZES for line in batch.disagreements(kernel, n, seed + n)]


@pytest.mark.optimised
@pytest.mark.parametrize("seed", range(BATCHES))
def test_random_expressions_are_computed_as_evaluate_computes_them(seed):
    assert found_in(seed) == []


@pytest.mark.optimised
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_random_expressions_do_not_depend_on_the_processor(target):
    if platform.machine() != "x86_64" or processor_for(target).missing:
        pytest.skip(f"this machine does not run code for {target}")
    assert found_in(1000, 4, target=target) == []


def test_random_expressions_are_clean_under_the_sanitizers():
    check_clean("tests.backends.c.expressions.test_expression_fuzz", "2000", "4")


# -- found by chance once, and kept


@pytest.mark.optimised
def test_int64_values_that_wrap_are_not_folded_as_indices_are():
    agree(
        {
            "quotient": lambda x: (x["int64"] * 4) // 2,
            "remainder": lambda x: (x["int64"] * 4 + 1) % 3,
            "comparison": lambda x: x["int64"] + 1 > x["int64"],
            "minimum": lambda x: tm.minimum(x["int64"] + 1, x["int64"]),
        }
    )


def test_factors_beyond_the_word_are_taken_modulo_the_word():
    agree(
        {
            "of a value": lambda x: x["int64"] * 2**62 * 6 + 2**62 + 2**62,
            "of an iterator": lambda x: (i * 2**40) * 2**40 + x["int64"],
            "of a quotient": lambda x: tm.cast(tm.int64, i) * 2**62 // 2**61,
            "of a size": lambda x: tm.cast(tm.int64, N) * 2**62 // 2**61,
            "the smallest": lambda x: x["int64"] - (-(2**63)),
        }
    )


def test_scalars_of_narrow_types_are_spread_over_vectors():
    agree(
        {
            "size in a condition": lambda x: (N > 5) & (x["int8"] > 1),
            "condition alone": lambda x: N > 5,
            "narrow choice": lambda x: tm.select(N > 5, tm.cast(tm.int8, N), tm.cast(tm.int8, 1)) + x["int8"],
            "size of a condition": lambda x: abs(x["bool"]) & (x["float64"] > 0.5),
        }
    )


@pytest.mark.parametrize("target", [tm.int8, tm.int32, tm.uint32, tm.uint64], ids=str)
def test_floats_out_of_the_range_of_an_integer_become_the_same_everywhere(target: DType):
    sources = ("float16", "bfloat16", "float32", "float64")
    agree({source: lambda x, source=source: tm.cast(target, x[source]) for source in sources})  # type: ignore[misc]


def test_floats_out_of_range_become_the_smallest_integer_or_its_lower_bits():
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.float64, [N])
    f.outputs(*[f.computation(f"o_{t}", {i: N}, tm.cast(t, x[i])) for t in STRONG if t.is_integer])
    found = dict(
        zip(
            [str(t) for t in STRONG if t.is_integer],
            f.evaluate(x=np.array([np.nan, 1e300, -3e9, 2.0**63])),
            strict=True,
        )
    )
    smallest = -(2**63)
    assert found["int32"].tolist() == [-(2**31)] * 4
    assert found["int64"].tolist() == [smallest, smallest, -3_000_000_000, smallest]
    assert found["int8"].tolist() == found["uint16"].tolist() == [0] * 4
    assert found["uint64"].tolist() == [2**63, 0, 2**64 - 3_000_000_000, 2**63]


@pytest.mark.optimised
def test_rounding_to_a_narrower_type_and_back_is_not_left_out():
    agree(
        {
            "double to float and back": lambda x: tm.cast(tm.float64, tm.cast(tm.float32, x["float64"])),
            "double to float to int": lambda x: tm.cast(tm.int32, tm.cast(tm.float32, x["float64"])),
            "double to int and back": lambda x: tm.cast(tm.float64, tm.cast(tm.int32, x["float64"])),
            "float to int and back": lambda x: tm.cast(tm.float32, tm.cast(tm.int64, x["float32"])),
            "lane by lane": lambda x: tm.select(
                x["bool"], tm.cast(tm.float16, x["float64"]), tm.cast(tm.float32, x["float64"])
            ),
        }
    )


@pytest.mark.optimised
def test_of_equal_zeros_minimum_and_maximum_give_the_one_that_numpy_gives():
    zeros = np.array([0.0, -0.0, 0.0, -0.0] * 9)
    for dtype in (t for t in STRONG if t.is_float):
        f = tm.Function("f", params=[N])
        x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
        low = f.computation("low", {i: N}, tm.minimum(x[i], y[i]))
        high = f.computation("high", {i: N}, tm.maximum(x[i], y[i]))
        f.outputs(low, high)
        low.vectorize(i, 8)
        given = {"x": zeros.astype(dtype.numpy), "y": zeros[::-1].astype(dtype.numpy)}
        for want, got in zip(f.evaluate(**given), f.compile()(**given), strict=True):
            np.testing.assert_array_equal(bits(got), bits(want), err_msg=str(dtype))


@pytest.mark.optimised
def test_what_a_type_makes_constant_compiles_without_warnings():
    agree(
        {
            "complement": lambda x: tm.cast(tm.bool, tm.cast(tm.int64, ~x["uint16"])),
            "bit": lambda x: tm.cast(tm.bool, tm.cast(tm.uint32, x["float32"]) | 3),
            "beyond": lambda x: tm.cast(tm.int32, 2**31 - 1) + tm.cast(tm.int32, 1) + x["int32"],
            "twice": lambda x: (x["bool"] == x["bool"]) ^ (x["uint8"] >= 0),
        }
    )


def test_a_function_of_the_user_is_called_only_where_its_condition_holds():
    table = """
    static int32_t looked_up(int32_t k) {
        static const int32_t table[4] = {5, 6, 7, 8};
        if (k < 0 || k > 3) abort();
        return table[k];
    }"""
    looked_up = tm.extern("looked_up", [tm.int32], tm.int32, lambda q: [5, 6, 7, 8][int(q)], source=table)
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.int32, [N])
    o = f.computation("o", {i: N}, tm.select((x[i] >= 0) & (x[i] < 4), looked_up(x[i]), -1))
    f.outputs(o)
    o.vectorize(i, 8)
    given = np.arange(-20, 21, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(given))


def test_external_functions_of_every_type_agree_in_vectors():
    f = tm.Function("f", params=[N])
    outputs = []
    for dtype in (tm.bool, tm.int8, tm.uint16, tm.int64, tm.float32, tm.float64, tm.float16):
        x = f.input(f"x_{dtype}", dtype, [N])
        text = f"static {dtype.c_name} first_{dtype}({dtype.c_name} a, {dtype.c_name} b) {{ (void)b; return a; }}"
        first = tm.extern(f"first_{dtype}", [dtype, dtype], dtype, lambda a, b: a, source=text)
        for width in (2, 16):
            outputs.append(f.computation(f"o{len(outputs)}", {i: N}, first(x[i], x[N - 1 - i])))
            outputs[-1].vectorize(i, width)
    f.outputs(*outputs)
    given = {name: samples(a.dtype, 67, 5) for name, a in f.algorithm.inputs.items()}
    for want, got in zip(f.evaluate(**given), f.compile()(**given), strict=True):
        np.testing.assert_array_equal(bits(got), bits(want))


# -- mathematical functions


@pytest.mark.parametrize("dtype", [t for t in STRONG if t.is_float], ids=str)
def test_mathematical_functions_are_close_to_those_of_numpy(dtype: DType):
    f = tm.Function("f", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
    values = (
        [call(name, x[i]) for name in ROUNDED] + [call(name, x[i], y[i]) for name in ROUNDED_2] + [abs(x[i]) ** y[i]]
    )
    outputs = [f.computation(f"o{number}", {i: N}, value) for number, value in enumerate(values)]
    f.outputs(*outputs)
    for output in outputs[::2]:
        output.vectorize(i, 4)
    given = {"x": samples(dtype, 67, 1), "y": samples(dtype, 67, 2)}
    for value, want, got in zip(values, f.evaluate(**given), f.compile()(**given), strict=True):
        close = {2: 2e-2 if dtype == tm.bfloat16 else 2e-3, 4: 1e-6, 8: 1e-14}[dtype.bytes]
        least = 2.0**-24 if dtype == tm.float16 else 1e-300  # what its smallest numbers are multiples of
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=close, atol=least, err_msg=str(value))


# -- reductions

SMALLEST = {t: False if t.is_bool else float("-inf") if t.is_float else int(np.iinfo(t.numpy).min) for t in STRONG}
BIGGER = tm.operator("bigger", lambda a, b: tm.select(a < b, b, a), lambda dtype: SMALLEST[dtype])
OPERATORS = (tm.sum, tm.product, tm.min, tm.max, tm.logical_and, tm.logical_or, BIGGER)
REORDERED: dict[str, Callable[[Any], object]] = {
    "vectors": lambda c: c.update.vectorize(k, 8, combine=tm.PRIVATE),
    "private": lambda c: c.update.parallelize(k, combine=tm.PRIVATE),
    "atomic": lambda c: c.update.parallelize(k, combine=tm.ATOMIC),
    "both": lambda c: (
        c.update.split(k, 32, k0, k1).parallelize(k0, combine=tm.PRIVATE).vectorize(k1, 4, combine=tm.PRIVATE)
    ),
}


@pytest.mark.parametrize("dtype", [tm.bool, tm.int8, tm.uint64, tm.float16], ids=str)
def test_reductions_with_every_operator_give_the_same_in_any_order(dtype: DType):
    f = tm.Function("f", params=[N])
    x, chosen = f.input("x", dtype, [2, N]), f.input("chosen", tm.bool, [N])
    outputs, labels = [], []
    for operator in OPERATORS:
        if dtype.is_float and operator.name.startswith("logical"):
            continue
        for number, (words, schedule) in enumerate(REORDERED.items()):
            if (number + len(outputs)) % 2 and dtype not in (tm.bool, tm.int8):
                continue
            term = tm.select(chosen[k], x[j, k], x[j, N - 1 - k])
            guard = k % 3 != 1 if number == 0 else None
            labels.append(f"{operator.name}, {words}")
            outputs.append(f.reduction(f"o{len(outputs)}", {j: 2}, {k: N}, operator, term, where=guard, dtype=dtype))
            schedule(outputs[-1])
    f.outputs(*outputs)
    kernel = f.compile()
    for n in (0, 1, 5, 67):
        rng = np.random.default_rng(n)
        values = rng.choice([-1.0, 1.0, 2.0, 0.5], (2, n)) if dtype.is_float else samples(dtype, 2 * n, n).reshape(2, n)
        given = {"x": values.astype(dtype.numpy), "chosen": rng.random(n) < 0.5}
        for label, want, got in zip(labels, f.evaluate(**given), kernel(**given), strict=True):
            np.testing.assert_array_equal(bits(got), bits(want), err_msg=f"{label}, N = {n}")


# -- sizes


def test_a_call_with_nothing_to_write_does_not_run_through_the_other_dimension():
    f = tm.Function("f", params=[N, M])
    x = f.input("x", tm.float32, [N, M])
    o = f.computation("o", {i: N, j: M}, x[i, j] + 1)
    p = f.computation("p", {i: N, j: M}, o[i, j] + o[i, M - 1 - j])
    f.outputs(p)
    o.compute_at(p, i)
    kernel = f.compile()
    assert kernel(np.zeros((2**45, 0), np.float32)).shape == (2**45, 0)
    assert kernel(np.zeros((0, 2**45), np.float32)).shape == (0, 2**45)


def main(seed: int, count: int) -> None:
    """Run in a process of its own, with sanitizers."""
    found = found_in(seed, count, sanitize=("address", "undefined"))
    print("\n".join(found) or "clean")


if __name__ == "__main__":
    sanitized_process()
    main(int(sys.argv[1]), int(sys.argv[2]))
