"""Narrow results of widened operands are computed for even and odd lanes apart, with the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import Compiled
from tests.selection import covering
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.ir import Idiom
from tiramisu_py.ir.arithmetic.pairs import NARROWED
from tiramisu_py.ir.rewriting import all_expressions

(N,) = tm.params("N")
(i,) = tm.iters("i")
#: What to compile for, and the size of its vectors in bytes.
PROCESSORS = {
    "avx512": (("-march=native",), 64),
    "avx2": (("-march=x86-64-v3",), 32),
    "sse4.1": (("-march=x86-64-v2",), 16),
    "sse2": (("-march=x86-64",), 16),
}
Formula = Callable[[tm.Expr, tm.Expr, tm.Expr], tm.Expr]
FORMULAS: dict[str, Formula] = {
    "mean": lambda a, b, c: (a + b + c) >> 2,
    "weights": lambda a, b, c: (a * 3 + b * 5 - c * 2) >> 1,
    "bits": lambda a, b, c: ((a ^ b) * c & (a | -b)) >> 3,
    "extremes": lambda a, b, c: tm.minimum(tm.maximum(a * 2 - b, c), a + b) << 1,
}
TYPES = [(tm.uint8, tm.uint16), (tm.int8, tm.int16), (tm.uint16, tm.uint32), (tm.int16, tm.int32), (tm.uint8, tm.int16)]


def scheduled(narrow: tm.DType, wide: tm.DType, formula: Formula, lanes: int) -> tm.Function:
    f = tm.Function("narrow", params=[N], assume="N >= 1")
    a, b = f.input("a", narrow, [N + 2]), f.input("b", narrow, [N])
    y = f.computation("y", {i: N}, tm.cast(narrow, formula(*(tm.cast(wide, e) for e in (a[i], b[i], a[i + 2])))))
    y.vectorize(i, lanes, remainder="mask")
    f.outputs(y)
    return f


def sample(narrow: tm.DType, size: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    rng, (low, high) = np.random.default_rng(0), narrow.limits
    numbers = {name: rng.integers(low, high + 1, size + more) for name, more in (("a", 2), ("b", 0))}
    return {name: each.astype(narrow.numpy) for name, each in numbers.items()}


def idioms(f: tm.Function, register: int) -> int:
    return sum(
        isinstance(part, Idiom) and part.name == NARROWED
        for e in all_expressions(f.show("lowered", register).body)
        for part in walk(e)
    )


@pytest.mark.parametrize(("narrow", "wide"), TYPES, ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_pairs_have_the_bits_of_the_wide_values(narrow: tm.DType, wide: tm.DType, formula: str) -> None:
    register = tm.target().vector_bytes
    f = scheduled(narrow, wide, FORMULAS[formula], register // narrow.bytes)
    assert idioms(f, register) > 0
    for size in (1, register - 1, 3 * register + 5):
        given = sample(narrow, size)
        np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))


def test_the_interpreter_makes_them_narrow_and_wraps() -> None:
    f = scheduled(tm.uint8, tm.uint16, FORMULAS["weights"], 32)
    given = sample(tm.uint8, 70)
    assert f.validate(**given, vector_bytes=32)


def test_values_that_fit_a_register_when_wide_are_left_alone() -> None:
    f = scheduled(tm.uint8, tm.uint16, FORMULAS["mean"], 32)
    assert idioms(f, 64) == 0 and idioms(f, 32) > 0


def test_values_that_are_wide_in_memory_are_in_two_registers_as_before() -> None:
    f = tm.Function("mixed", params=[N], assume="N >= 1")
    a, w = f.input("a", tm.uint8, [N]), f.input("w", tm.uint16, [N])
    y = f.computation("y", {i: N}, tm.cast(tm.uint8, (tm.cast(tm.uint16, a[i]) * 3 + w[i]) >> 2))
    y.vectorize(i, 32, remainder="mask")
    f.outputs(y)
    assert idioms(f, 32) == 0
    given = {"a": sample(tm.uint8, 75)["b"], "w": sample(tm.uint16, 75)["b"]}
    np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))


def test_values_beside_others_that_are_split_are_split_with_them() -> None:
    """A part of a vector, which has fewer lanes, is wide in one register."""
    f = tm.Function("table", params=[N], assume="N >= 1")
    a, t = f.input("a", tm.int16, [N]), f.input("t", tm.int32, [256])
    level = tm.clip(tm.cast(tm.int16, (tm.cast(tm.int32, a[i]) * 5 + 7) >> 3), 0, 255)
    y = f.computation("y", {i: N}, tm.cast(tm.int16, t[level]))
    y.vectorize(i, 16, remainder="mask")
    f.outputs(y)
    assert idioms(f, 32) == 0
    given = {"a": sample(tm.int16, 75)["b"], "t": np.arange(256, dtype=np.int32) * 3}
    np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))


SUMS: dict[str, Callable[[list[tm.Expr], list[tm.Expr]], tm.Expr]] = {
    "two": lambda a, w: a[0] * w[0] + w[1] * a[1],
    "three": lambda a, w: a[0] * w[0] + a[1] * w[1] + a[2] * w[2],
    "with a rounding": lambda a, w: a[0] * w[0] + a[1] * w[1] + a[2] * w[2] + 128,
    "with a weight": lambda a, w: w[2] + a[0] * w[0],
    "with an operand": lambda a, w: a[0] * w[0] + a[1],
    "with a number that is wide": lambda a, w: a[0] * w[0] + a[1] * w[1] + 70000,
    "of operands": lambda a, w: a[0] * a[1] + a[2] * a[0],
    "of both kinds": lambda a, w: a[0] * a[1] + a[2] * w[0] + a[1] * -7,
    "wide weights": lambda a, w: a[0] * (w[0] + w[1]) + a[1] * w[1],
    "a difference": lambda a, w: a[0] * w[0] - a[1] * w[1],
}


@pytest.mark.parametrize(("name", "target"), covering(list(SUMS), list(PROCESSORS)), ids=str)
def test_products_of_int16_have_the_bits_of_those_of_int32(name: str, target: str) -> None:
    """At the ends of int16, where the sum of two products leaves int32, too."""
    flags, register = PROCESSORS[target]
    f = tm.Function("weighted", params=[N], assume="N >= 1")
    a, w = f.input("a", tm.int16, [N + 2]), f.input("w", tm.int16, [3])
    wide = [tm.cast(tm.int32, each) for each in (a[i], a[i + 1], a[i + 2])]
    total = SUMS[name](wide, [tm.cast(tm.int32, w[k]) for k in range(3)])
    y = f.computation("y", {i: N}, tm.cast(tm.int16, total >> 8))
    y.vectorize(i, register // 2, remainder="mask")
    f.outputs(y)
    assert idioms(f, register) > 0
    compiled = Compiled(f.show("lowered", register), "-O2", *flags, register=register)
    assert ("products_of_pairs" in compiled.texts["weighted.c"]) == (name != "a difference")
    least = np.iinfo(np.int16).min
    for size in (1, register + 3):
        given = {"a": sample(tm.int16, size)["a"], "w": sample(tm.int16, 3)["b"]}
        for numbers in (given, {"a": np.full(size + 2, least, np.int16), "w": np.full(3, least, np.int16)}):
            found = np.zeros(size, np.int16)
            compiled({"N": size}, **numbers, y=found)
            np.testing.assert_array_equal(found, f.evaluate(**numbers))


def test_indices_are_made_narrow_in_pairs() -> None:
    """A table of bytes is read at places that are computed as wide values."""
    f = tm.Function("toned", params=[N], assume="N >= 1")
    a, w, t = f.input("a", tm.int16, [N]), f.input("w", tm.int16, [2]), f.input("t", tm.uint8, [1024])
    warm = tm.cast(tm.int32, w[0]) * tm.cast(tm.int32, a[i]) + tm.cast(tm.int32, w[1])
    y = f.computation("y", {i: N}, t[tm.clip(tm.cast(tm.int16, warm >> 8), 0, 1023)])
    y.vectorize(i, 16, remainder="mask")
    f.outputs(y)
    assert idioms(f, 32) > 0
    given = {"a": sample(tm.int16, 75)["b"], "w": sample(tm.int16, 2)["b"], "t": sample(tm.uint8, 1024)["b"]}
    np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))
    assert f.validate(**given, vector_bytes=32)
