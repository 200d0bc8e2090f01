"""The short words in `evaluate()`: all pairs of bytes, awkward values of wider types, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.c.expressions.test_c_arithmetic import FLOATS, INTEGERS, _bits, samples
from tests.backends.c.expressions.word_cases import Word, of_floats, of_integers, wanted
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DeclarationError, DTypeError

(N,) = tm.params("N")
(i,) = tm.iters("i")


def evaluated(word: Word, dtype: DType, x: Any, y: Any) -> Any:
    f = tm.Function("f", params=[N])
    a, b = f.input("a", dtype, [N]), f.input("b", dtype, [N])
    f.outputs(f.computation("c", {i: N}, word[0](a[i], b[i])))
    return f.evaluate(a=x, b=y)


@pytest.mark.parametrize("dtype", [tm.uint8, tm.int8], ids=str)
@pytest.mark.parametrize("name", of_integers(tm.uint8))
def test_words_on_all_pairs_of_bytes_are_exact(dtype: DType, name: str) -> None:
    every = np.arange(256).astype(np.uint8).view(dtype.numpy)
    x, y = np.repeat(every, 256), np.tile(every, 256)
    word = of_integers(dtype)[name]
    found = evaluated(word, dtype, x, y)
    np.testing.assert_array_equal(found, wanted(word, x, y, _type(found)))


def _type(values: Any) -> DType:
    return getattr(tm, values.dtype.name)  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_words_on_awkward_values_are_exact(dtype: DType) -> None:
    x, y = samples(dtype, 31), samples(dtype, 32)
    for name, word in (of_floats(dtype) if dtype.is_float else of_integers(dtype)).items():
        found = evaluated(word, dtype, x, y)
        np.testing.assert_array_equal(_bits(found), _bits(wanted(word, x, y, _type(found))), err_msg=name)


def test_absd_has_the_unsigned_type_of_the_width() -> None:
    for bits in (8, 16, 32, 64):
        a = tm.cast(f"int{bits}", i)
        assert tm.absd(a, a).dtype.name == f"uint{bits}"
    assert tm.absd(i, 3).dtype.weak
    assert tm.absd(tm.cast(tm.float32, i), 1).dtype is tm.float32


def test_lerp_of_floats_is_the_weighted_mean() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("c", {i: N}, tm.lerp(a[i], 10.0, tm.cast(tm.float32, 0.25))))
    np.testing.assert_array_equal(f.evaluate(a=np.float32([0, 2, -6])), np.float32([2.5, 4.0, -2.0]))


def test_mux_reads_only_what_it_chooses() -> None:
    f = tm.Function("f", params=[N])
    a, b = f.input("a", tm.int32, [N]), f.input("b", tm.int32, [1])
    (c,) = tm.iters("c")
    f.outputs(f.computation("c", {i: N, c: 3}, tm.mux(c, [a[i], b[c - 1], -1])))
    assert f.check().ok
    want = [[5, 9, -1], [6, 9, -1]]
    np.testing.assert_array_equal(f.evaluate(a=np.int32([5, 6]), b=np.int32([9])), want)
    np.testing.assert_array_equal(f.compile()(a=np.int32([5, 6]), b=np.int32([9])), want)


def test_literals_are_converted_at_once() -> None:
    f = tm.Function("f")
    f.outputs(f.computation("c", {i: 2}, tm.select(i == 0, tm.reinterpret(tm.float32, 0xC0490FDB), 1.0)))
    np.testing.assert_array_equal(f.evaluate(), np.float32([-np.pi, 1]))
    assert tm.reinterpret(tm.uint64, 1.5).dtype is tm.uint64
    assert tm.popcount(tm.cast(tm.int8, -1)).dtype is tm.int8


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda x, b: tm.saturating_cast(tm.bool, x), DTypeError, r"write x\[i\] != 0"),
        (lambda x, b: tm.absd(b, b), DTypeError, r"write \(x\[i\] > 0\) \^"),
        (lambda x, b: tm.lerp(x, x, 0.5), DTypeError, "has a weight without a sign"),
        (lambda x, b: tm.lerp(x, x, tm.cast(tm.uint64, 1)), DTypeError, "of at most 64 bits together"),
        (lambda x, b: tm.lerp(1.0, tm.cast(tm.float32, x), x), DTypeError, "a weight from 0.0 to 1.0"),
        (lambda x, b: tm.lerp(i, 3, tm.cast(tm.uint8, 1)), DTypeError, "numbers that have a type"),
        (lambda x, b: tm.mux(1.5, [x]), DTypeError, "index of mux is 1.5"),
        (lambda x, b: tm.mux(i, []), DeclarationError, "among a list of values"),
        (lambda x, b: tm.reinterpret(tm.float64, x), DTypeError, "int32, which has 32, not 64 like float64"),
        (lambda x, b: tm.reinterpret(tm.uint8, b), DTypeError, "for the bits of numbers"),
        (lambda x, b: tm.popcount(tm.cast(tm.float32, x)), DTypeError, "counts the bits of an integer"),
    ],
)
def test_words_refuse_what_has_no_meaning(make: Any, error: type[Exception], says: str) -> None:
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.int32, [N])
    with pytest.raises(error, match=says):
        make(x[i], x[i] > 0)
