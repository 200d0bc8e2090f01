"""Reductions in vectors under masks: the last terms of a run are one more vector of the partial results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py import interpret

N, P = tm.params("N P")
i, p = tm.iters("i p")
LENGTHS = [0, 1, 5, 7, 8, 9, 0, 16, 23, 3, 40, 0]
TERMS = {
    "sum of products": (tm.sum, lambda a, b, x: a * x, tm.float64),
    "numbers that would be infinite": (tm.sum, lambda a, b, x: 1 / b, tm.float64),
    "a constant": (tm.sum, lambda a, b, x: tm.cast(tm.float32, 1), tm.float32),
    "maximum": (tm.max, lambda a, b, x: -abs(a) - 1, tm.float64),
    "product": (tm.product, lambda a, b, x: tm.select(a > 0, 2.0, 0.5), tm.float64),
    "integers that are divided": (tm.sum, lambda a, b, x: tm.cast(tm.int32, a) // tm.cast(tm.int32, b), tm.int32),
    "bytes": (tm.min, lambda a, b, x: tm.cast(tm.int8, a), tm.int8),
    "a condition": (tm.sum, lambda a, b, x: tm.select(a > x, a, b), tm.float64),
}


def runs(kind: str, width: int, remainder: str) -> tuple[Any, Any]:
    """A reduction over the runs of an array, in vectors."""
    op, term, _ = TERMS[kind]
    f = tm.Function("runs", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    at = f.input("at", tm.int32, [P], values=(0, N))
    a, b = (f.input(name, tm.float64, [P]) for name in "ab")
    x = f.input("x", tm.float64, [N])
    y = f.reduction("y", {i: N}, {p: (start[i], start[i + 1])}, op, term(a[p], b[p], x[at[p]]))
    f.outputs(y)
    y.update.after(y.init, i)
    y.update.vectorize(p, width, combine=tm.PRIVATE, remainder=remainder)
    return f, y


def given(lengths: list[int]) -> dict[str, Any]:
    """Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(len(lengths))
    start = np.cumsum([0, *lengths]).astype(np.int32)
    a, b, x = (rng.integers(1, 9, size).astype(np.float64) for size in (start[-1], start[-1], len(lengths)))
    at = rng.integers(0, max(len(lengths), 1), start[-1]).astype(np.int32)
    return {"start": start, "at": at, "a": a, "b": 2.0 ** (b // 4), "x": x}


@pytest.mark.parametrize("kind", TERMS)
def test_values_are_those_of_the_algorithm(kind: str) -> None:
    f, _ = runs(kind, 8, "mask")
    assert f.check().ok
    kernel = f.compile(threads=1)
    for lengths in (LENGTHS, [3], [8], []):
        arguments = given(lengths)
        np.testing.assert_array_equal(kernel(**arguments), f.evaluate(**arguments))


@pytest.mark.parametrize("width", [4, 16])
def test_vectors_of_several_registers_and_of_half_a_register(width: int) -> None:
    f, _ = runs("sum of products", width, "mask")
    arguments = given(LENGTHS)
    np.testing.assert_array_equal(f.compile(threads=1)(**arguments), f.evaluate(**arguments))


def test_lanes_without_a_term_touch_no_memory() -> None:
    f, _ = runs("sum of products", 8, "mask")
    arguments, result = given([0, 5, 9]), np.zeros(3)
    interpret.run(f.show("lowered"), {**arguments, "y": result}, {"N": 3, "P": 14})
    np.testing.assert_array_equal(result, f.evaluate(**arguments))


def test_no_term_is_computed_one_by_one() -> None:
    masked, _ = runs("sum of products", 8, "mask")
    plain, _ = runs("sum of products", 8, "scalar")
    text, other = masked.source()["runs.c"], plain.source()["runs.c"]
    loop = text[text.index("int runs(") :]
    assert "TM_GATHER_FIRST_64x8(" in loop
    assert loop.count("for (int64_t p") == 1
    assert other[other.index("int runs(") :].count("for (int64_t p") == 3


def test_a_loop_of_constant_length_and_one_of_several_results() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float64, [N, 13])
    s = f.reduction("s", {i: N}, {p: 13}, tm.sum, a[i, p])
    m = f.reduction("m", {i: N}, {p: 13}, tm.argmin, (a[i, p], p))
    f.outputs(s, m)
    for each in (s, m):
        each.update.vectorize(p, 8, combine=tm.PRIVATE, remainder="mask")
    assert f.check().ok
    rows = np.random.default_rng(0).permutation(65).reshape(5, 13).astype(np.float64)
    got, least, place = f.compile(threads=1)(rows)
    np.testing.assert_array_equal(got, rows.sum(1))
    np.testing.assert_array_equal(least, rows.min(1))
    np.testing.assert_array_equal(place, rows.argmin(1))
