"""The oracle against NumPy and against plain Python loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse

from tests.effort import calls
from tests.programs.miniature import Small, iters, params
from tiramisu_py.algorithm import functions as tm
from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.evaluate.evaluate import evaluate
from tiramisu_py.algorithm.expressions import Expr, binary, cast, select
from tiramisu_py.errors import ArgumentError, DeclarationError, TiramisuError

i, j, k, p, t = iters("i j k p t")
N, M, T, R, C = params("N M T R C")


def randoms(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape).astype(dtype)


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape
    if ty.as_dtype(a.dtype).is_float:  # exact in float64, where NumPy compares NaN and signs of zero
        a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))
    np.testing.assert_array_equal(a, b)


# -- stencils


@pytest.mark.parametrize("size", [(1, 1), (33, 17), (480, 641)])
def test_a_blur_has_numpys_bits_and_is_computed_whole_arrays_at_a_time(size: tuple[int, int]) -> None:
    f = Small("R C", "R >= 1 and C >= 1")
    image = f.input("image", "float32", [R + 2, C + 2])
    bx = f.computation("bx", {i: R + 2, j: C}, (image[i, j] + image[i, j + 1] + image[i, j + 2]) / 3)
    f.computation("by", {i: R, j: C}, (bx[i, j] + bx[i + 1, j] + bx[i + 2, j]) / 3)
    picture = randoms(size[0] + 2, size[1] + 2)
    picture.setflags(write=False)
    found = []
    assert calls(lambda: found.append(f.evaluate(image=picture))) < 5_000  # at any size
    got = found[0]
    rows = (picture[:, :-2] + picture[:, 1:-1] + picture[:, 2:]) / np.float32(3)
    same_bits(got, (rows[:-2] + rows[1:-1] + rows[2:]) / np.float32(3))


@pytest.mark.parametrize(("steps", "size"), [(1, 3), (10, 100), (7, 4)])
def test_a_heat_equation_has_the_bits_of_a_loop_over_time(steps: int, size: int) -> None:
    f = Small("T N", "T >= 1 and N >= 3")
    start = f.input("start", "float32", [N])
    f.computation("heat", {t: T + 1, i: N}, lambda heat: select(
        (t == 0) | (i == 0) | (i == N - 1), start[i], (heat[t - 1, i - 1] + heat[t - 1, i] + heat[t - 1, i + 1]) / 3
    ))  # fmt: skip
    first = randoms(size)
    expected = np.tile(first, (steps + 1, 1))
    for step in range(1, steps + 1):
        old = expected[step - 1]
        expected[step, 1:-1] = (old[:-2] + old[1:-1] + old[2:]) / np.float32(3)
    same_bits(f.evaluate({"T": steps}, start=first), expected)


# -- recurrences


def test_a_recurrence_that_runs_forwards() -> None:
    f = Small("N")
    f.computation("fib", {i: N}, lambda fib: select(i < 2, i, fib[i - 1] + fib[i - 2]))
    assert f.evaluate({"N": 12}).tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


def test_a_recurrence_that_runs_backwards() -> None:
    f = Small("N")
    x = f.input("x", "float32", [N])
    f.computation("s", {i: N}, lambda s: select(i == N - 1, x[i], x[i] + s[i + 1]))
    given = randoms(50)
    same_bits(f.evaluate(x=given), np.add.accumulate(given[::-1])[::-1])


def test_a_recurrence_in_both_directions_is_a_wavefront() -> None:
    f = Small("N M")
    a = f.input("a", "float64", [N, M])
    f.computation("g", {i: N, j: M}, lambda g: a[i, j] + select(i > 0, g[i - 1, j], 0) + select(j > 0, g[i, j - 1], 0))
    given = randoms(9, 13, dtype=np.float64)
    expected = np.zeros((9, 13))
    for row in range(9):
        for column in range(13):
            up = expected[row - 1, column] if row else 0.0
            left = expected[row, column - 1] if column else 0.0
            expected[row, column] = given[row, column] + up + left
    same_bits(f.evaluate(a=given), expected)


def test_a_recurrence_whose_distance_is_not_constant() -> None:
    f = Small("N")
    f.computation("h", {i: N}, lambda h: select(i < 1, 1, h[i // 2] + h[i - 1]))
    expected = [1]
    for n in range(1, 300):
        expected.append(expected[n // 2] + expected[n - 1])
    assert f.evaluate({"N": 300}).tolist() == expected


def test_a_recurrence_whose_index_and_condition_are_its_own_values() -> None:
    f = Small("N")
    f.computation("q", {i: N}, lambda q: select(i < 2, 1, q[i - q[i - 1]] + select(q[i - 2] > 1, q[i - 1], 1)))
    expected = [1, 1]
    for n in range(2, 60):
        more = expected[n - 1] if expected[n - 2] > 1 else 1
        back = n - expected[n - 1]
        if back < 0:
            break
        expected.append(expected[back] + more)
    assert f.evaluate({"N": len(expected)}).tolist() == expected


def test_ten_thousand_values_are_computed_one_after_another() -> None:
    f = Small("N")
    x = f.input("x", "float32", [N])
    f.computation("s", {i: N}, lambda s: x[i] + select(i > 0, s[i - 1], 0))
    given = randoms(10_000)
    same_bits(f.evaluate(x=given), np.add.accumulate(given))


def test_values_that_depend_on_themselves_are_refused_by_name() -> None:
    f = Small("N")
    f.computation("h", {i: N}, lambda h: select(i == 0, 1, h[i - (i % 3)]))
    with pytest.raises(DeclarationError, match=r"h\[3\] depends on itself: it reads h\[3\]"):
        f.evaluate({"N": 8})


# -- domains


def test_values_that_nothing_computes_are_zero_or_what_was_there() -> None:
    f = Small("N")
    f.computation("c", {i: N, j: (i, N)}, 10 * i + j + 1)
    expected = np.array([[10 * a + b + 1 if b >= a else 0 for b in range(4)] for a in range(4)])
    same_bits(f.evaluate({"N": 4}), expected)
    before = np.full((4, 4), -1)
    same_bits(f.evaluate({"N": 4}, c=before), np.where(expected == 0, -1, expected))
    assert (before == -1).all()


def test_unions_and_steps() -> None:
    f = Small("N")
    f.computation("c", "[N] -> { [i] : 0 <= i < N and i mod 3 = 1; [i] : i = N + 2 }", i, dtype="int32")
    expected = np.zeros(11, dtype=np.int32)
    expected[[1, 4, 7, 10]] = [1, 4, 7, 10]
    same_bits(f.evaluate({"N": 8}), expected)


def test_values_may_have_negative_indices() -> None:
    f = Small("N")
    low = f.computation("low", {i: (-3, N)}, i * i)
    f.computation("c", {i: N}, low[i - 3] + low[i])
    assert f.evaluate({"N": 4}).tolist() == [9 + 0, 4 + 1, 1 + 4, 0 + 9]
    f.algorithm = f.algorithm.with_outputs(("low",))
    assert f.evaluate({"N": 3}).tolist() == [9, 4, 1, 0, 1, 4]


def test_an_array_whose_shape_is_declared_begins_at_index_0() -> None:
    f = Small("N")
    f.computation("low", {i: (-3, N)}, i * i, shape=[N + 3])
    f.algorithm = f.algorithm.with_outputs(("low",))
    with pytest.raises(DeclarationError, match=r"low\[-3\] has no place in the array of low"):
        f.evaluate({"N": 4})


def test_a_value_set_without_iterators_is_one_value() -> None:
    f = Small("N")
    x = f.input("x", "float64", [N])
    total = f.reduction("total", {}, {i: N}, operators.sum_, x[i])
    f.computation("share", {i: N}, x[i] / total[()])
    given = randoms(6, dtype=np.float64)
    same_bits(f.evaluate(x=given), given / np.add.accumulate(given)[-1])
    f.algorithm = f.algorithm.with_outputs(("total",))
    assert f.evaluate(x=given) == np.add.accumulate(given)[-1]


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_single_domains(size: int) -> None:
    f = Small("N")
    x = f.input("x", "float32", [N])
    c = f.computation("c", {i: N}, x[i] + 1)
    f.reduction("r", {i: N}, {k: i}, operators.sum_, c[k])
    same_bits(f.evaluate(x=np.ones(size, np.float32)), np.zeros(size, np.float32))


def test_a_shape_makes_room_beyond_the_last_value() -> None:
    f = Small("N")
    f.computation("c", {i: (1, N)}, i, shape=[N + 3])
    assert f.evaluate({"N": 3}).tolist() == [0, 1, 2, 0, 0, 0]


def test_a_shape_that_is_too_small_is_refused() -> None:
    f = Small("N")
    f.computation("c", {i: N}, i, shape=[N - 1])
    with pytest.raises(DeclarationError, match=r"c\[2\] has no place in the array of c, which has shape \(2,\)"):
        f.evaluate({"N": 3})


# -- reading


def test_a_branch_that_is_not_taken_reads_nothing() -> None:
    f = Small("N")
    x = f.input("x", "float32", [N])
    f.computation("c", {i: N}, select(i > 0, x[i - 1], 0) + select(x[i] > 0.5, x[N - 1 - i], x[i]))
    given = randoms(9)
    expected = np.where(given > 0.5, given[::-1], given)
    expected[1:] = given[:-1] + expected[1:]
    same_bits(f.evaluate(x=given), expected)


def test_a_branch_that_values_never_take_reads_nothing() -> None:
    f = Small("N")
    index = f.input("index", "int64", [N])
    x = f.input("x", "float32", [N])
    f.computation("c", {i: N}, select(index[i] < 0, 7, x[index[i]]))
    given = randoms(3)
    same_bits(f.evaluate(index=np.array([-5, 2, 0]), x=given), np.array([7, given[2], given[0]], np.float32))


def outside_the_array(f: Small) -> Any:
    x = f.input("x", "float32", [10])
    f.computation("c", {i: N}, x[i])
    return {"x": randoms(10)}


def before_the_array(f: Small) -> Any:
    x = f.input("x", "float32", [20])
    f.computation("c", {i: N}, x[i - 1])
    return {"x": randoms(20)}


def outside_the_value_set(f: Small) -> Any:
    b = f.computation("b", {i: N, j: i}, 1.0)
    f.computation("c", {i: N, j: N}, b[i, j])
    return {}


def where_a_value_leads(f: Small) -> Any:
    index = f.input("index", "int32", [N])
    x = f.input("x", "float32", [4])
    f.computation("c", {i: N}, x[index[i]])
    return {"index": np.arange(11, dtype=np.int32) - 1, "x": randoms(4)}


def what_a_guard_leaves_out(f: Small) -> Any:
    mask = f.input("mask", "bool", [N])
    b = f.computation("b", {i: N}, 1.0, where=mask[i])
    f.computation("c", {i: N}, b[i])
    return {"mask": np.arange(11) != 5}


def a_term_outside(f: Small) -> Any:
    x = f.input("x", "float32", [N])
    f.reduction("c", {i: N}, {k: 3}, operators.sum_, x[i + k])
    return {"x": randoms(11)}


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (outside_the_array, r"c\[10\] reads x\[10\], which is outside x, which has shape \(10,\)"),
        (before_the_array, r"c\[0\] reads x\[-1\], which is outside x"),
        (outside_the_value_set, r"c\[0, 0\] reads b\[0, 0\], which is outside the value set of b"),
        (where_a_value_leads, r"c\[0\] reads x\[-1\], which is outside x"),
        (what_a_guard_leaves_out, r"c\[5\] reads b\[5\], which is outside the value set of b"),
        (a_term_outside, r"c\[9\] \(at k = 2\) reads x\[11\], which is outside x"),
    ],
)
def test_reading_outside_is_refused_by_element(declare: Callable[[Small], Any], message: str) -> None:
    f = Small("N")
    arguments = declare(f)
    with pytest.raises(TiramisuError, match=message):
        f.evaluate({"N": 11}, **arguments)


# -- arithmetic

VALUES = {
    "b": [False, True, True, False, True],
    "i": [-7, 3, 0, -1, 100],
    "u": [7, 3, 0, 250, 100],
    "f": [-7.25, 3.5, 0.0, 1e-3, 250.0],
}
OTHERS = {
    "b": [True, True, False, False, True],
    "i": [2, -3, 0, 5, -100],
    "u": [2, 3, 0, 5, 100],
    "f": [2.5, -0.75, 0.0, 5.0, -3.0],
}
OPERATORS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder,
    "min": np.minimum, "max": np.maximum, "<": np.less, "<=": np.less_equal, ">": np.greater, "==": np.equal,
    "!=": np.not_equal, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("a", ty.STRONG, ids=str)
@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_computes_what_numpy_computes(op: str, a: ty.DType) -> None:
    for b in (a, ty.int8, ty.uint16, ty.float32, ty.int64):
        left, right = np.array(VALUES[a.kind]).astype(a.numpy), np.array(OTHERS[b.kind]).astype(b.numpy)
        f = Small("N")
        x, y = f.input("x", a, [N]), f.input("y", b, [N])
        try:
            expression = binary(op, x[i], y[i])
        except TiramisuError:
            continue
        f.computation("c", {i: N}, expression)
        with np.errstate(all="ignore"):
            common = ty.promote(a, b).numpy
            expected = OPERATORS[op](left.astype(common), right.astype(common))
        same_bits(f.evaluate(x=left, y=right), expected)


def over(dtype: Any, values: list[Any], expression: Callable[[Expr], Any]) -> np.ndarray:
    """An expression of one input."""
    f = Small("N")
    x = f.input("x", dtype, [N])
    f.computation("c", {i: N}, expression(x[i]))
    return f.evaluate(x=np.array(values, dtype=ty.as_dtype(dtype).numpy))


def test_integers_wrap_and_a_division_by_zero_is_zero() -> None:
    assert over("int8", [127, -128], lambda x: x + 1).tolist() == [-128, -127]
    assert over("uint8", [0, 255], lambda x: x - 1).tolist() == [255, 254]
    assert over("int32", [5, -5, 0], lambda x: x // 0).tolist() == [0, 0, 0]
    assert over("int32", [5, -5, 0], lambda x: x % 0).tolist() == [0, 0, 0]
    assert over("int64", [-(2**63)], lambda x: x // -1).tolist() == [-(2**63)]
    assert over("int8", [-128], abs).tolist() == [-128]


def test_floor_division_and_modulo_round_down_for_all_signs() -> None:
    values = list(range(-7, 8))
    for divisor in (3, -3, 5, -1):
        assert over("int32", values, lambda x, d=divisor: x // d).tolist() == [v // divisor for v in values]
        assert over("int32", values, lambda x, d=divisor: x % d).tolist() == [v % divisor for v in values]
        floats = over("float64", values, lambda x, d=divisor: x % d)
        assert floats.tolist() == [float(v % divisor) for v in values]


def test_shifts_beyond_the_width_are_numpys() -> None:
    for count in (0, 3, 7, 8, 31, 64):
        given = np.array([1, -1, 77], dtype=np.int8)
        same_bits(over("int8", given.tolist(), lambda x, n=count: x << n), given << np.int8(count))
        same_bits(over("int8", given.tolist(), lambda x, n=count: x >> n), given >> np.int8(count))


def test_a_negative_power_of_an_integer_is_refused() -> None:
    assert over("int32", [2, -3, 0], lambda x: x**3).tolist() == [8, -27, 0]
    with pytest.raises(ArgumentError, match=r"c computes .*negative"):
        over("int32", [2, -1], lambda x: 2**x)


def test_each_operation_in_half_precision_rounds() -> None:
    values = [0.1, 1000.5, 3.3]
    given = np.array(values, dtype=np.float16)
    expected = (given * np.float16(1.1)).astype(np.float16) + np.float16(0.3)
    same_bits(over("float16", values, lambda x: x * 1.1 + 0.3), expected)


def test_each_operation_in_bfloat16_rounds() -> None:
    values = [0.1, 1000.5, 3.3]
    given = np.array(values, dtype=ml_dtypes.bfloat16)
    step = (given.astype(np.float32) * np.float32(ml_dtypes.bfloat16(1.1))).astype(ml_dtypes.bfloat16)
    expected = (step.astype(np.float32) + np.float32(ml_dtypes.bfloat16(0.3))).astype(ml_dtypes.bfloat16)
    same_bits(over("bfloat16", values, lambda x: x * 1.1 + 0.3), expected)


def test_iterators_are_numbers_of_python_until_they_meet_a_type() -> None:
    f = Small("N")
    x = f.input("x", "uint8", [N])
    f.computation("c", {i: N}, (300 * i // 100) * x[i])
    assert f.evaluate(x=np.full(4, 2, np.uint8)).tolist() == [0, 6, 12, 18]


def test_an_iterator_is_compared_exactly_with_a_small_integer() -> None:
    f = Small("N")
    x = f.input("x", "int8", [N])
    f.computation("c", {i: N}, x[i] < i)
    assert f.evaluate(x=np.zeros(300, np.int8)).tolist() == [n > 0 for n in range(300)]


def test_casts_are_those_of_astype() -> None:
    assert over("float64", [2.9, -2.9, 0.0], lambda x: cast("int32", x)).tolist() == [2, -2, 0]
    assert over("int32", [300, -1], lambda x: cast("uint8", x)).tolist() == [44, 255]
    assert over("float32", [0.0, 0.5], lambda x: cast("bool", x)).tolist() == [False, True]


@pytest.mark.parametrize("name", ["sqrt", "exp", "log1p", "sin", "arctan", "floor", "rint", "tanh", "cbrt", "ceil"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_functions_are_numpys(name: str, dtype: str) -> None:
    given = np.array([0.5, 1.5, 2.5, 9.0]).astype(dtype)
    computed_in = given if dtype != "int32" else given.astype(np.float64)
    same_bits(over(dtype, given.tolist(), getattr(tm, name)), getattr(np, name)(computed_in))


@pytest.mark.parametrize("name", ["exp", "cbrt", "arctan", "sqrt"])
def test_functions_of_bfloat16_round_to_it(name: str) -> None:
    given = np.array([0.5, 1.5, 9.0], dtype=ml_dtypes.bfloat16)
    expected = getattr(np, name)(given.astype(np.float32)).astype(ml_dtypes.bfloat16)
    same_bits(over("bfloat16", given.tolist(), getattr(tm, name)), expected)


def test_the_error_function_is_that_of_the_standard_library() -> None:
    values = [-1.5, 0.0, 0.3, 4.0]
    assert over("float64", values, tm.erf).tolist() == [math.erf(v) for v in values]


def test_functions_of_two_arguments_and_predicates() -> None:
    values = [-1.5, 0.0, 0.3, float("inf"), float("nan")]
    given = np.array(values)
    same_bits(over("float64", values, lambda x: tm.arctan2(x, 2)), np.arctan2(given, 2))
    same_bits(over("float64", values, tm.isfinite), np.isfinite(given))
    same_bits(over("float64", values, lambda x: tm.clip(x, -1, 1)), np.minimum(np.maximum(given, -1), 1))
    same_bits(over("float64", values, lambda x: tm.where(x > 0, x, -x)), np.where(given > 0, given, -given))


@pytest.mark.parametrize("python", [lambda a, b: a * 10 + b, np.hypot], ids=["function", "ufunc"])
def test_external_functions_run_through_their_python_equivalent(python: Any) -> None:
    mix = tm.extern("mix", ["float64", "float64"], "float64", python)
    got = over("float32", [1.0, 2.0], lambda x: mix(x, 3))
    assert got.tolist() == [float(python(1.0, 3.0)), float(python(2.0, 3.0))] and got.dtype == np.float64


@pytest.mark.parametrize(
    ("result", "returned", "message"),
    [
        ("float64", "text", "'text' for mix(2.0, 3.0); it must return one number that fits float64"),
        ("float64", "3", "'3' for mix(2.0, 3.0); it must return one number that fits float64"),
        ("int32", None, "None for mix(2.0, 3.0); it must return one number that fits int32"),
        ("bool", "text", "'text' for mix(2.0, 3.0); it must return one number that fits bool"),
        ("int32", float("inf"), "inf for mix(2.0, 3.0); it must return one number that fits int32"),
        ("int32", np.float64("nan"), "np.float64(nan) for mix(2.0, 3.0); it must return one number that fits int32"),
        ("uint8", 300, "300 for mix(2.0, 3.0); it must return one number that fits uint8"),
        ("float32", (1, 2), "(1, 2) for mix(2.0, 3.0); it must return one number that fits float32"),
        ("float32", 1j, "1j for mix(2.0, 3.0); it must return one number that fits float32"),
    ],
)
@pytest.mark.parametrize("kind", ["function", "ufunc"])
def test_an_external_function_whose_equivalent_returns_no_such_number_is_named(
    result: str, returned: object, message: str, kind: str
) -> None:
    def python(x: float, y: float) -> object:
        return 1 if x < 2 else returned

    mix = tm.extern(
        "mix", ["float64", "float64"], result, python if kind == "function" else np.frompyfunc(python, 2, 1)
    )
    with pytest.raises(
        DeclarationError, match=r"the Python equivalent of the external function mix returned"
    ) as refused:
        over("float32", [1.0, 2.0], lambda x: mix(x, 3))
    assert message in str(refused.value)


def test_external_functions_never_see_values_that_are_not_known_yet() -> None:
    def positive(x: float) -> float:
        assert x > 0
        return x + 1

    step = tm.extern("step", ["float64"], "float64", positive)
    f = Small("N")
    f.computation("h", {i: N}, lambda h: select(i == 0, 1.0, step(h[i - 1])))
    assert f.evaluate({"N": 5}).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


# -- reductions


def folded(op: Callable[[Any, Any], Any], identity: Any, terms: np.ndarray) -> Any:
    """A reduction as a loop: one term after another, rounded each time."""
    result = np.array(identity, dtype=terms.dtype)
    with np.errstate(all="ignore"):
        for term in terms:
            result = op(result, term).astype(terms.dtype)
    return result


OPS: list[tuple[operators.Operator, Any, Any]] = [
    (operators.sum_, np.add, 0), (operators.product, np.multiply, 1),
    (operators.min_, np.minimum, None), (operators.max_, np.maximum, None),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float32", "float64", "uint32"])
@pytest.mark.parametrize("op", range(len(OPS)))
@pytest.mark.parametrize("shape", [(5, 3), (2, 40), (1, 1), (40, 2)], ids=str)
def test_a_reduction_rounds_after_each_term_in_order(op: int, dtype: str, shape: tuple[int, int]) -> None:
    operator, ufunc, identity = OPS[op]
    f = Small("N M")
    a = f.input("a", dtype, [N, M])
    f.reduction("r", {i: N}, {k: M}, operator, a[i, k])
    given = (randoms(*shape, dtype=np.float64) * 9 - 3).astype(np.int8 if dtype[0] in "iu" else np.float64)
    given = given.astype(ty.as_dtype(dtype).numpy)
    expected = [folded(ufunc, row[0] if identity is None else identity, row) for row in given]
    same_bits(f.evaluate(a=given), np.array(expected, dtype=given.dtype))


def test_an_empty_reduction_is_the_identity() -> None:
    for operator, expected in [
        (operators.sum_, 0.0),
        (operators.product, 1.0),
        (operators.min_, math.inf),
        (operators.max_, -math.inf),
    ]:
        f = Small("N M")
        a = f.input("a", "float32", [N, M])
        f.reduction("r", {i: N}, {k: M}, operator, a[i, k])
        assert f.evaluate(a=np.zeros((2, 0), np.float32)).tolist() == [expected] * 2


def test_a_sum_of_conditions_counts_and_conjunctions_conjoin() -> None:
    given = randoms(6, 9)
    for operator, expected in [
        (operators.sum_, (given > 0.3).sum(axis=1)),
        (operators.logical_and, (given > 0.3).all(axis=1)),
        (operators.logical_or, (given > 0.3).any(axis=1)),
    ]:
        f = Small("N M")
        a = f.input("a", "float32", [N, M])
        f.reduction("r", {i: N}, {k: M}, operator, a[i, k] > 0.3)
        same_bits(f.evaluate(a=given), expected)


def test_a_users_operator_is_applied_as_written() -> None:
    either = tm.operator("hypotenuse", lambda a, b: tm.sqrt(a * a + b * b), 0)
    f = Small("N M")
    a = f.input("a", "float32", [N, M])
    f.reduction("r", {i: N}, {k: M}, either, a[i, k])
    given = randoms(4, 7)
    expected = [folded(lambda x, y: np.sqrt(x * x + y * y), 0, row) for row in given]
    same_bits(f.evaluate(a=given), np.array(expected))


def test_a_reduction_over_a_triangle_and_two_iterators() -> None:
    f = Small("N")
    f.reduction("r", {i: N}, {j: i + 1, k: (j, i + 1)}, operators.sum_, 100 * j + k)
    expected = [sum(100 * b + c for b in range(a + 1) for c in range(b, a + 1)) for a in range(7)]
    assert f.evaluate({"N": 7}).tolist() == expected


def test_terms_are_taken_in_the_order_of_the_reduction_iterators() -> None:
    f = Small("N")
    last = tm.operator("last", lambda a, b: b, -1)
    f.reduction("r", {i: N}, {j: 3, k: 4}, last, 10 * j + k, where=(j + k) % 2 == 0)
    assert f.evaluate({"N": 2}).tolist() == [22, 22]


def test_a_matrix_product_has_the_bits_of_the_loop_over_k() -> None:
    f = Small("N M K")
    a, b = f.input("A", "float32", [N, params("K")[0]]), f.input("B", "float32", [params("K")[0], M])
    f.reduction("C", {i: N, j: M}, {k: params("K")[0]}, operators.sum_, a[i, k] * b[k, j])
    left, right = randoms(33, 64), randoms(64, 31, seed=1)
    expected = np.zeros((33, 31), np.float32)
    for depth in range(64):
        expected += left[:, depth, None] * right[None, depth]
    same_bits(f.evaluate(A=left, B=right), expected)


def test_a_reduction_may_read_itself_where_its_values_come_first() -> None:
    f = Small("N")
    f.reduction("r", {i: N}, {k: i}, operators.sum_, lambda r: 1 + r[k])
    assert f.evaluate({"N": 9}).tolist() == [2**n - 1 for n in range(9)]


# -- bounds and indices that are values


@pytest.mark.parametrize(("rows", "columns", "density"), [(200, 300, 0.05), (40, 7, 0.9), (5, 5, 0.0), (1, 2000, 1.0)])
def test_a_sparse_product_has_the_bits_of_a_loop_over_rows(rows: int, columns: int, density: float) -> None:
    f = Small("N M NNZ")
    (nnz,) = params("NNZ")
    start = f.input("start", "int32", [N + 1], values=(0, nnz + 1), monotone=True)
    column = f.input("column", "int32", [nnz], values=(0, M))
    value = f.input("value", "float32", [nnz])
    x = f.input("x", "float32", [M])
    f.reduction("y", {i: N}, {p: (start[i], start[i + 1])}, operators.sum_, value[p] * x[column[p]])
    s = scipy.sparse.random(rows, columns, density=density, format="csr", dtype=np.float32, random_state=2)
    v = randoms(columns)
    expected = [
        folded(np.add, 0, s.data[a:b] * v[s.indices[a:b]]) for a, b in zip(s.indptr[:-1], s.indptr[1:], strict=True)
    ]
    same_bits(f.evaluate(start=s.indptr, column=s.indices, value=s.data, x=v), np.array(expected, np.float32))


def test_guarded_values_are_computed_where_the_guard_holds() -> None:
    f = Small("N")
    x = f.input("x", "float32", [N])
    f.computation("c", {i: N}, 1 / x[i], where=x[i] > 0.5)
    given = randoms(20)
    expected = np.zeros(20, np.float32)
    expected[given > 0.5] = np.float32(1) / given[given > 0.5]
    same_bits(f.evaluate(x=given), expected)


def test_a_ragged_domain() -> None:
    f = Small("N M")
    size = f.input("size", "uint8", [N], values=(0, M + 1))
    f.computation("c", {i: N, j: size[i]}, 1, shape=[N, M])
    assert f.evaluate({"M": 4}, size=np.array([0, 4, 2], np.uint8)).tolist() == [[0] * 4, [1] * 4, [1, 1, 0, 0]]


def test_a_histogram_reduces_over_values_that_say_where() -> None:
    f = Small("N M")
    key = f.input("key", "int64", [N], values=(0, M))
    f.reduction("h", {i: M}, {k: N}, operators.sum_, 1, where=key[k] == i)
    given = np.random.default_rng(1).integers(0, 6, 100)
    same_bits(f.evaluate({"M": 6}, key=given), np.bincount(given, minlength=6))


# -- arguments


def example() -> Small:
    f = Small("R C", "R >= 1 and C >= 1")
    image = f.input("image", "float32", [R + 2, 2 * C])
    gain = f.scalar("gain", "float32")
    index = f.input("index", "int32", [R], values=(0, R), permutation=True)
    start = f.input("start", "int16", [C], monotone=True)
    f.computation("c", {i: R, j: C}, image[index[i], j] * gain + start[j])
    return f


def good(**changed: Any) -> dict[str, Any]:
    arguments = {
        "image": randoms(5, 8), "gain": 2,
        "index": np.array([2, 0, 1], np.int32), "start": np.arange(4, dtype=np.int16),
    }  # fmt: skip
    return {name: value for name, value in {**arguments, **changed}.items() if value is not None}


def test_good_arguments_are_accepted_and_give_the_sizes() -> None:
    arguments = good()
    expected = arguments["image"][[2, 0, 1], :4] * np.float32(2) + arguments["start"].astype(np.float32)
    same_bits(example().evaluate(**arguments), expected)
    same_bits(example().evaluate({"R": 3}, **arguments, C=4), expected)
    same_bits(example().evaluate(**good(gain=np.float32(2))), expected)
    same_bits(example().evaluate(**good(image=np.asfortranarray(arguments["image"]))), expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"image": None}, "the argument image is missing"),
        ({"picture": 1}, "f has no argument picture; its arguments are image, gain, index, start, c, R, C"),
        ({"image": [[1.0]]}, "image is a NumPy array of float32, not list"),
        ({"image": "image"}, "image is a NumPy array of float32, not str"),
        ({"image": randoms(5, 8, dtype=np.float64)}, "image is an array of float32, but one of float64 was passed"),
        ({"image": randoms(5)}, r"image has 1 dimensions, shape \(5,\); it is declared as \[R \+ 2, 2 \* C\]"),
        ({"image": randoms(6, 8)}, r"index has shape \(3,\), but its extent 0, R, is 4, not 3: .*R \+ 2 = 6 gives"),
        ({"image": randoms(5, 7)}, r"image has shape \(5, 7\): 2 \* C = 7 has no integer solution C"),
        ({"image": randoms(1, 8)}, r"image has shape \(1, 8\): R \+ 2 = 1 gives R = -1, but parameters are at least 0"),
        ({"image": randoms(2, 8), "index": np.arange(0, dtype=np.int32)}, "f is not defined for R = 0, C = 4"),
        ({"R": 7}, r"image has shape \(5, 8\), but its extent 0, R \+ 2, is 9, not 5: R = 7 was given"),
        ({"R": 2.5}, "the parameter R is an integer, not 2.5"),
        ({"R": -1}, "R = -1 was given, but parameters are at least 0"),
        ({"gain": "2"}, "gain is a scalar of float32, not '2'"),
        ({"gain": np.ones(2)}, "gain is a scalar of float32"),
        ({"index": np.array([0, 1, 3], np.int32)}, r"index\[2\] = 3, but its values are declared to be at least 0 and"),
        ({"index": np.array([0, 1, 1], np.int32)}, r"index\[2\] = 1, which occurs before, but .* a permutation"),
        ({"start": np.array([0, 2, 1, 4], np.int16)}, r"start\[2\] = 1, which is less than the element before it"),
        ({"c": np.zeros((3, 5), np.float32)}, r"c has shape \(3, 5\), but its extent 1, C, is 4, not 5"),
        ({"c": np.zeros((3, 4))}, "c is an array of float32, but one of float64 was passed"),
    ],
    ids=str,
)  # fmt: skip
def test_an_argument_that_does_not_fit_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        example().evaluate(**good(**changed))


def test_a_parameter_that_no_shape_gives_is_asked_for() -> None:
    f = Small("T N M")
    x = f.input("x", "float32", [N + M])
    f.computation("c", {t: T, i: N}, x[i])
    with pytest.raises(ArgumentError, match=r"the parameters T, N, M do not follow from the shapes .* give T="):
        f.evaluate(x=randoms(3))
    assert f.evaluate({"T": 2, "M": 1}, x=randoms(3)).shape == (2, 2)


def test_a_size_may_follow_from_one_that_another_array_gives() -> None:
    f = Small("N M")
    x, y = f.input("x", "float32", [N + M]), f.input("y", "float32", [(M + 1) // 2, M])
    f.computation("c", {i: N}, x[i] + y[0, 0])
    assert f.evaluate(x=randoms(7), y=randoms(2, 3)).shape == (4,)
    with pytest.raises(ArgumentError, match=r"y has shape \(1, 3\), but its extent 0, \(M \+ 1\) // 2, is 2, not 1"):
        f.evaluate(x=randoms(7), y=randoms(1, 3))


@pytest.mark.parametrize(
    ("dtype", "given"), [("int8", 300), ("uint8", -1), ("int32", 2.5), ("bool", 2), ("int8", None)]
)
def test_a_scalar_that_does_not_fit_its_type_is_refused(dtype: str, given: Any) -> None:
    f = Small("N")
    s = f.scalar("s", dtype)
    f.computation("c", {i: N}, s)
    with pytest.raises(ArgumentError, match="s"):
        f.evaluate({"N": 1}, s=given)


def test_no_argument_is_changed() -> None:
    arguments = good(c=np.ones((3, 4), np.float32))
    copies = {name: np.copy(value) for name, value in arguments.items()}
    example().evaluate(**arguments)
    for name, value in arguments.items():
        np.testing.assert_array_equal(value, copies[name])


def test_several_outputs_come_by_name_in_order_and_what_they_do_not_need_is_not_computed() -> None:
    f = Small("N")
    x = f.input("x", "float32", [N])
    f.computation("wrong", {i: N}, x[i + 1])
    a = f.computation("a", {i: N}, x[i] + 1)
    f.computation("b", {i: N}, a[i] * 2)
    algorithm = f.algorithm.with_outputs(("b", "a"))
    got = evaluate(algorithm, {"x": np.ones(3, np.float32)})
    assert list(got) == ["b", "a"]
    assert (got["a"].tolist(), got["b"].tolist()) == ([2.0] * 3, [4.0] * 3)


def test_a_scalar_stands_for_itself_in_expressions() -> None:
    f = Small("N")
    gain = f.scalar("gain", "float64")
    f.computation("c", {i: N}, select(i % 2 == 0, gain, 2 * gain[()]))
    assert f.evaluate({"N": 3}, gain=0.25).tolist() == [0.25, 0.5, 0.25]
