"""tl.reduce: along an axis by functions that are known to be associative, and refused by any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl

ROWS, COLUMNS = 4, 8


@tm.jit
def plus(a, b):
    return a + b


@tm.jit
def times(a, b):
    return b * a


@tm.jit
def either(a, b):
    return a | b


@tm.jit
def both(a, b):
    return a & b


@tm.jit
def larger(a, b):
    return tl.maximum(a, b)


@tm.jit
def difference(a, b):
    return a - b


@tm.jit
def doubled(a, b):
    return a + a


@tm.jit
def mean(a, b):
    return (a + b) / 2


@tm.jit
def combined(X, Y, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr, WAY: tl.constexpr, OTHER: tl.constexpr):
    """The way of combining is a number; R rows and C columns are loaded, outside of X with OTHER."""
    r, c = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, C)
    x = tl.load(X[r[:, None], c], mask=(r[:, None] < X.shape[0]) & (c < X.shape[1]), other=OTHER)
    if WAY == 0:
        found = tl.reduce(x, AXIS, plus, keep_dims=True)
    if WAY == 1:
        found = tl.reduce(x, AXIS, times, keep_dims=True)
    if WAY == 2:
        found = tl.reduce(x, AXIS, larger, keep_dims=True)
    if WAY == 3:
        found = tl.reduce(x, AXIS, tl.minimum, keep_dims=True)
    if WAY == 4:
        found = tl.reduce(x, AXIS, either, keep_dims=True)
    if WAY == 5:
        found = tl.reduce(x, AXIS, both, keep_dims=True)
    if WAY == 6:
        found = tl.reduce(x > 5, AXIS, either, keep_dims=True).to(tl.int32)
    if WAY == 7:
        found = tl.reduce(x > 1, AXIS, both, keep_dims=True).to(tl.int32)
    tl.store(Y[r[:, None], c], tl.broadcast_to(found, R, C), mask=(r[:, None] < Y.shape[0]) & (c < Y.shape[1]))


WAYS: list[tuple[int, Any]] = [
    (0, np.add.reduce), (1, np.multiply.reduce), (0, np.maximum.reduce), (99, np.minimum.reduce),
    (0, np.bitwise_or.reduce), (-1, np.bitwise_and.reduce),
    (0, lambda x, axis, keepdims: (x > 5).any(axis, keepdims=keepdims)),
    (9, lambda x, axis, keepdims: (x > 1).all(axis, keepdims=keepdims)),
]  # fmt: skip


def expected(x: Any, axis: int | None, way: int) -> Any:
    """What NumPy makes of it, a program's block of rows at a time."""
    other, function = WAYS[way]
    whole = np.full((-(-len(x) // ROWS) * ROWS, COLUMNS), other, np.int32)
    whole[: x.shape[0], : x.shape[1]] = x
    blocks = [
        np.broadcast_to(function(whole[at : at + ROWS], axis=axis, keepdims=True), (ROWS, COLUMNS))
        for at in range(0, len(whole), ROWS)
    ]
    return np.concatenate(blocks)[: x.shape[0], : x.shape[1]].astype(np.int32)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_elements_are_combined_as_numpy_does(way: int, axis: int | None) -> None:
    m, n = tm.params("M N")
    f = tm.Function("combined", params=[m, n], assume=f"N <= {COLUMNS}")
    x, y = f.input("x", tm.int32, [m, n]), f.array("y", tm.int32, [m, n])
    constants = {"R": ROWS, "C": COLUMNS, "AXIS": axis, "WAY": way, "OTHER": WAYS[way][0]}
    combined[tl.cdiv(m, ROWS)](x, y, **constants)
    f.outputs(y)
    assert f.check().ok, f.check()
    for shape in ((1, 1), (7, 5), (8, 8)):
        given = np.random.default_rng(sum(shape)).integers(1, 8, shape).astype(np.int32)
        interpreted = np.zeros_like(given)
        with np.errstate(over="ignore"):
            combined.interpret[-(-shape[0] // ROWS)](given, interpreted, **constants)
        np.testing.assert_array_equal(interpreted, expected(given, axis, way))
        np.testing.assert_array_equal(f.evaluate(given), interpreted)


def test_a_product_is_compiled_in_its_order() -> None:
    """Floats: the bits tell the order of the factors."""
    x = np.random.default_rng(5).normal(1, 0.5, (9, 8)).astype(np.float32)
    found, interpreted = np.zeros_like(x), np.zeros_like(x)
    combined.interpret[3](x, interpreted, R=ROWS, C=COLUMNS, AXIS=1, WAY=1, OTHER=1)
    combined[3](x, found, R=ROWS, C=COLUMNS, AXIS=1, WAY=1, OTHER=1)
    np.testing.assert_allclose(found, interpreted, rtol=1e-6)
    np.testing.assert_allclose(found[:, 0], x.astype(np.float64).prod(1), rtol=1e-6)


@tm.jit
def by_difference(X, Y, B: tl.constexpr):
    tl.store(Y[0], tl.reduce(tl.load(X[tl.arange(0, B)]), 0, difference))


@tm.jit
def by_one_of_two(X, Y, B: tl.constexpr):
    tl.store(Y[0], tl.reduce(tl.load(X[tl.arange(0, B)]), 0, doubled))


@tm.jit
def by_mean(X, Y, B: tl.constexpr):
    tl.store(Y[0], tl.reduce(tl.load(X[tl.arange(0, B)]), 0, mean))


@tm.jit
def of_several(X, Y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Y[0], tl.reduce((tl.load(X[i]), i), 0, plus))


@tm.jit
def sum_of_conditions(X, Y, B: tl.constexpr):
    tl.store(Y[0], tl.reduce(tl.load(X[tl.arange(0, B)]) > 0, 0, plus))


@tm.jit
def bits_of_floats(X, Y, B: tl.constexpr):
    tl.store(Y[0], tl.reduce(tl.load(X[tl.arange(0, B)]), 0, either))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (by_difference, "difference is not known to be associative: combine two elements by a \\+ b, a \\* b, tl.max"),
        (by_one_of_two, "doubled is not known to be associative"),
        (by_mean, "mean is not known to be associative"),
        (of_several, "tl.reduce takes one block: of values and their places tl.argmax and tl.argmin"),
        (sum_of_conditions, "the block is of conditions: combine them by a & b or a | b, or count with"),
        (bits_of_floats, r"\| needs integers or conditions"),
    ],
)
def test_other_functions_are_refused(kernel: Any, words: str) -> None:
    with pytest.raises(tm.DeclarationError, match=words):
        kernel[1](np.zeros(8, np.float32), np.zeros(1, np.float32), B=8)
