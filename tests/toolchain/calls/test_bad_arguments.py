"""Whatever is passed from Python, a kernel answers with an error that names the argument, and never with a crash."""

from __future__ import annotations

import decimal
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Const, Param
from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import ArrayArgument, ScalarArgument

N = Param("N")


def good() -> dict[str, Any]:
    return {
        "a": 2.0,
        "k": 1,
        "image": np.ones((6, 5), np.float32),
        "column": np.array([0, 1, 2, 0], np.int32),
        "state": np.zeros(4, np.uint8),
    }


class Liar:
    """An object that has no array although it says so."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise ValueError("not today")


class Copying:
    """An object that can only be copied."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a copy is needed")
        return np.ones((6, 5), np.float32)


def misaligned() -> np.ndarray:
    return np.zeros(6 * 5 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 5)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


IMAGES: dict[str, tuple[Any, str]] = {
    "a text": ("picture", "str"),
    "bytes": (b"\0" * 120, "bytes"),
    "None": (None, "None"),
    "a number": (3.5, "float"),
    "a NumPy number": (np.float32(1), "float32"),
    "a list": ([[1.0] * 5] * 6, "list"),
    "a tuple": ((1.0, 2.0), "tuple"),
    "a dict": ({}, "dict"),
    "an object": (object(), "object"),
    "a type": (np.ndarray, "type"),
    "a decimal": (decimal.Decimal(1), "Decimal"),
    "a failing __array__": (Liar(), "not today"),
    "an object that must be copied": (Copying(), "Copying"),
    "a masked array": (np.ma.masked_array(np.ones((6, 5), np.float32)), "filled"),
    "float64": (np.ones((6, 5)), r"np\.float32"),
    "integers": (np.ones((6, 5), np.int32), "int32"),
    "complex": (np.ones((6, 5), np.complex64), "complex64"),
    "bfloat16": (np.ones((6, 5), ml_dtypes.bfloat16), "bfloat16"),
    "objects": (np.full((6, 5), None), "object"),
    "dates": (np.zeros((6, 5), "M8[s]"), "datetime64"),
    "records": (np.zeros((6, 5), [("x", "f4")]), "x"),
    "texts": (np.full((6, 5), "x"), "U1"),
    "big-endian": (np.ones((6, 5), ">f4" if np.little_endian else "<f4"), "byte order"),
    "one dimension": (np.ones(30, np.float32), "1 dimensions"),
    "three dimensions": (np.ones((6, 5, 1), np.float32), "3 dimensions"),
    "no dimension": (np.ones((), np.float32), "0 dimensions"),
    "every second column": (np.ones((6, 10), np.float32)[:, ::2], "np.ascontiguousarray"),
    "reversed": (np.ones((6, 5), np.float32)[::-1], "np.ascontiguousarray"),
    "column-major": (np.ones((6, 5), np.float32, order="F"), "np.ascontiguousarray"),
    "broadcast": (np.broadcast_to(np.float32(1), (6, 5)), "np.ascontiguousarray"),
    "a non-contiguous memoryview": (memoryview(np.ones((6, 10), np.float32))[::2], "contiguous"),
    "misaligned": (misaligned(), r"aligned.*image\.copy\(\)"),
    "too few rows": (np.ones((5, 5), np.float32), r"R"),
    "too small for any size": (np.ones((1, 5), np.float32), r"R \+ 2 = 1"),
    "too few columns": (np.ones((6, 1), np.float32), r"C \+ 2 = 1"),
}


@pytest.mark.parametrize("image, says", IMAGES.values(), ids=IMAGES)
def test_an_array_that_does_not_fit_is_refused_by_name(mix, image, says):
    with pytest.raises(ArgumentError, match=f"(?s)image.*{says}|{says}.*image"):
        mix.compile()(**{**good(), "image": image})


OUTPUTS: dict[str, tuple[Any, str]] = {
    "a number": (1.0, "float"),
    "a list": ([[0.0] * 3] * 4, "list"),
    "float64": (np.zeros((4, 3)), r"dtype np\.float32"),
    "transposed": (np.zeros((3, 4), np.float32).T, "np.empty"),
    "another shape": (np.zeros((4, 4), np.float32), "C"),
    "another rank": (np.zeros(12, np.float32), "1 dimensions"),
    "read-only": (read_only(np.zeros((4, 3), np.float32)), "read-only"),
    "read-only memory": (memoryview(bytes(48)).cast("f", (4, 3)), "read-only"),
    "misaligned": (np.zeros(49, np.uint8)[1:].view(np.float32).reshape(4, 3), "aligned"),
}


@pytest.mark.parametrize("by, says", OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_that_does_not_fit_is_refused_by_name(mix, by, says):
    with pytest.raises(ArgumentError, match=f"(?s)by.*{says}"):
        mix.compile()(**good(), by=by)


@pytest.mark.parametrize("wrong", ["2", None, [1.0], np.ones(2), 1j, True, 1e39, -1e39, 10**400, object], ids=repr)
def test_a_float_scalar_that_does_not_fit_is_refused_by_name(mix, wrong):
    with pytest.raises(ArgumentError, match=r"^a "):
        mix.compile()(**{**good(), "a": wrong})


@pytest.mark.parametrize("wrong", ["2", None, 1.0, np.float32(1), 128, -129, 2**70, True, np.int64(200), 1j], ids=repr)
def test_an_integer_scalar_that_does_not_fit_is_refused_by_name(mix, wrong):
    with pytest.raises(ArgumentError, match=r"^k "):
        mix.compile()(**{**good(), "k": wrong})


@pytest.mark.parametrize("wrong", [1, 0, "True", None, 1.0], ids=repr)
def test_a_bool_scalar_takes_nothing_but_truth_values(make, wrong):
    out = ArrayArgument("z", ty.bool_, (), is_input=False, is_output=True)
    kernel = make("(void)N; *z = flag;", ScalarArgument("flag", ty.bool_), out).compile()
    with pytest.raises(ArgumentError, match="flag"):
        kernel(wrong, N=0)


@pytest.mark.parametrize("wrong", [-1, 2**63, 2**200, 1.0, "4", True, [4], np.array([4]), 5], ids=repr)
def test_a_parameter_that_does_not_fit_is_refused_by_name(mix, wrong):
    with pytest.raises(ArgumentError, match=r"\bR\b"):
        mix.compile()(**good(), R=wrong)


def test_sizes_that_contradict_each_other_name_both_arguments(mix):
    with pytest.raises(
        ArgumentError, match=r"column has shape \(5,\), but its extent 0, R, is 4, not 5: image has shape \(6, 5\)"
    ):
        mix.compile()(**{**good(), "column": np.zeros(5, np.int32)})


@pytest.mark.parametrize("name", ["image", "column", "state", "a", "k"])
def test_a_missing_input_is_named(mix, name):
    given = good()
    del given[name]
    with pytest.raises(ArgumentError, match=f"^{name} is missing"):
        mix.compile()(**given)


def test_no_arguments_at_all_name_the_first_that_is_missing(mix):
    with pytest.raises(ArgumentError, match=r"^a is missing.*image"):
        mix.compile()()


def test_too_many_arguments_are_refused_with_those_that_there_are(mix):
    with pytest.raises(ArgumentError, match=r"mix takes 5 arguments by position \(a, k, image, column, state\), 6"):
        mix.compile()(*good().values(), np.zeros((4, 3), np.float32))


def test_an_unknown_name_is_refused_with_the_one_that_was_meant(mix):
    with pytest.raises(ArgumentError, match=r"mix has no argument imagee \(did you mean image\?\)"):
        mix.compile()(**good(), imagee=1)
    with pytest.raises(ArgumentError, match="self"):
        mix.compile()(**good(), self=1)


def test_an_argument_given_twice_is_refused(mix):
    with pytest.raises(ArgumentError, match=r"^a was given twice"):
        mix.compile()(1.0, **good())


def overlapping(name: str) -> tuple[dict[str, Any], str]:
    memory = np.zeros(4096, np.uint8)
    given = good()
    image = memory[:120].view(np.float32).reshape(6, 5)
    match name:
        case "output and input":
            return {**given, "image": image, "by": memory[116:164].view(np.float32).reshape(4, 3)}, "by.*image"
        case "output within input":
            return {**given, "image": image, "by": memory[16:64].view(np.float32).reshape(4, 3)}, "by.*image"
        case "two outputs":
            by, total = memory[:48].view(np.float32).reshape(4, 3), memory[40:72].view(np.float64)
            return {**given, "by": by, "total": total}, "by.*total|total.*by"
        case "in-place and input":
            return {**given, "image": image, "state": memory[119:123]}, "state.*image"
        case _:
            return {**given, "state": memory[:4], "by": memory[:48].view(np.float32).reshape(4, 3)}, "state|by"


@pytest.mark.parametrize(
    "case", ["output and input", "output within input", "two outputs", "in-place and input", "in-place and output"]
)
def test_an_output_that_shares_memory_is_refused(mix, case):
    given, names = overlapping(case)
    with pytest.raises(ArgumentError, match=f"(?:{names}).*shares memory|shares memory.*(?:{names})|{names}"):
        mix.compile()(**given)


def test_an_output_too_large_for_the_machine_is_refused_by_name(make):
    out = ArrayArgument("z", ty.float64, (N, N), is_input=False, is_output=True)
    kernel = make("(void)z; (void)N;", out).compile()
    for size in (2**31, 2**40, 2**62):
        with pytest.raises(ArgumentError, match=r"z of shape .* cannot be allocated"):
            kernel(N=size)


# -- declared facts


def test_a_value_outside_its_declared_range_is_named_with_its_element(mix):
    given = good()
    given["column"][2] = 300
    with pytest.raises(ArgumentError, match=r"column\[2\] = 300, .*at least 0 and less than 3"):
        mix.compile()(**given)
    given["column"][2] = -1
    with pytest.raises(ArgumentError, match=r"column\[2\] = -1"):
        mix.compile()(**given)


def test_facts_are_trusted_where_that_was_asked_for(make):
    x = ArrayArgument("x", ty.int32, (N,), True, False)
    z = ArrayArgument("z", ty.int32, (N,), False, True)
    written = make("for (int64_t i = 0; i < N; i++) z[i] = x[i];", x, z, facts={"x": {"values": LIMITS}})
    given = np.array([1, 5], np.int32)
    with pytest.raises(ArgumentError, match=r"x\[1\] = 5"):
        written.compile()(given)
    np.testing.assert_array_equal(written.compile(verify_values=False)(given), given)


LIMITS = (Const(0, ty.int64), Const(5, ty.int64))


@pytest.mark.parametrize("dtype", [t for t in ty.STRONG if t.is_integer], ids=str)
def test_ranges_are_verified_for_every_type(make, dtype):
    kernel = make("(void)N; (void)x;", ArrayArgument("x", dtype, (N,), True, False), facts={"x": {"values": LIMITS}})
    call = kernel.compile()
    call(np.array([0, 4, 3], dtype.numpy))
    call(np.array([], dtype.numpy))
    for wrong in [5, 100] + ([] if dtype.kind == "u" else [-1]):
        with pytest.raises(ArgumentError, match=r"x\[1\]"):
            call(np.array([0, wrong, 3], dtype.numpy))


@pytest.mark.parametrize(
    "low, high, holds", [(-300, 300, True), (0, 2**62, True), (-(2**62), 10, True), (300, 400, False)]
)
def test_ranges_beyond_the_type_are_compared_as_numbers(make, low, high, holds):
    facts = {"x": {"values": (Const(low, ty.int64), Const(high, ty.int64))}}
    kernel = make("(void)N; (void)x;", ArrayArgument("x", ty.uint8, (N,), True, False), facts=facts).compile()
    given = np.array([7, 3], np.uint8)
    if holds:
        kernel(given)
    else:
        with pytest.raises(ArgumentError, match=r"x\[0\] = 7"):
            kernel(given)


def test_a_scalar_has_declared_facts_too(make):
    kernel = make("(void)N; (void)s;", ScalarArgument("s", ty.int32), facts={"s": {"values": LIMITS}}).compile()
    kernel(4, N=0)
    with pytest.raises(ArgumentError, match=r"^s = 5, "):
        kernel(5, N=0)


@pytest.mark.parametrize("size", [2, 5, 300_000])
def test_a_descent_in_a_monotone_input_is_named_wherever_it_is(make, size):
    facts = {"x": {"monotone": True}}
    kernel = make("(void)N; (void)x;", ArrayArgument("x", ty.int64, (N,), True, False), facts=facts).compile()
    x = np.arange(size) // 2
    kernel(x)
    for at in {1, size // 2, size - 1} - {0}:
        wrong = x + 10
        wrong[at:] -= 10
        with pytest.raises(ArgumentError, match=rf"x\[{at}\] = {wrong[at]}, which is less.*monotone"):
            kernel(wrong)


def test_monotone_holds_along_the_last_dimension_of_each_row(make):
    array = ArrayArgument("x", ty.int64, (N, Const(3, ty.int64)), True, False)
    kernel = make("(void)N; (void)x;", array, facts={"x": {"monotone": True}}).compile()
    kernel(np.array([[5, 6, 7], [1, 1, 2]]))
    with pytest.raises(ArgumentError, match=r"x\[1, 2\] = 0"):
        kernel(np.array([[5, 6, 7], [1, 1, 0]]))


@pytest.mark.parametrize("wrong, at", [([0, 1, 1, 3], 2), ([0, 4, 2, 3], 1), ([-1, 0, 1, 2], 0), ([3, 3, 3, 3], 1)])
def test_what_is_no_permutation_is_named_at_its_first_fault(make, wrong, at):
    facts = {"x": {"permutation": True}}
    kernel = make("(void)N; (void)x;", ArrayArgument("x", ty.int32, (N,), True, False), facts=facts).compile()
    kernel(np.array([2, 0, 3, 1], np.int32))
    with pytest.raises(ArgumentError, match=rf"x\[{at}\] = {wrong[at]}, .*permutation"):
        kernel(np.array(wrong, np.int32))


def test_a_byte_that_is_no_bool_is_refused(make):
    kernel = make("(void)N; (void)x;", ArrayArgument("x", ty.bool_, (N,), True, False)).compile()
    kernel(np.array([True, False]))
    with pytest.raises(ArgumentError, match=r"x\[1\] holds the byte 2"):
        kernel(np.array([1, 2], np.uint8).view(np.bool_))


def anything() -> list[Any]:
    """What a program might pass by mistake, good arguments among it."""
    arrays = [
        np.zeros(shape, dtype) for shape in [(), (0,), (1,), (4,), (6, 5), (4, 3), (0, 5)] for dtype in "fdibBlqe?O"
    ]
    odd = [
        np.ones((6, 10), np.float32)[:, ::2],
        misaligned(),
        np.broadcast_to(np.float32(1), (6, 5)),
        Copying(),
        Liar(),
    ]
    views = [
        memoryview(b"1234"),
        bytearray(4),
        np.arange(4, dtype=np.int32)[::-1],
        np.arange(4).astype(np.int32) * 1000,
    ]
    plain = [
        None,
        "x",
        b"x",
        0,
        1,
        -1,
        4,
        3,
        2.5,
        1e300,
        2**63,
        10**400,
        True,
        1j,
        float("nan"),
        (),
        [],
        {},
        object(),
        int,
    ]
    return [*arrays, *odd, *views, *plain, *(value for _ in range(10) for value in good().values())]


def test_any_arguments_at_all_give_a_result_or_an_error_that_says_why(mix):
    kernel, pool = mix.compile(), anything()
    choose = np.random.default_rng(0)
    outcomes = {"right": 0, "refused": 0}
    for turn in range(3000):
        call = good()
        for name in choose.choice([*call, "by", "total", "R", "C", "nothing"], size=turn % 4, replace=False):
            call[str(name)] = pool[choose.integers(len(pool))]
        try:
            assert len(kernel(**call)) == 3
            outcomes["right"] += 1
        except ArgumentError as error:
            assert len(str(error)) > 10
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 100, outcomes
