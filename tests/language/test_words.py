"""Each word, interpreted on NumPy and evaluated as values: the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers


@tm.jit
def shapes(X, Y, B: tl.constexpr):
    """Reshape, permute, join, split, expand_dims and broadcast_to."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X[i], mask=i < X.shape[0], other=1)
    cube = tl.reshape(x, (2, 4, 2))
    first, second = tl.split(tl.permute(cube, 1, 0, 2))
    both = tl.join(first + 1, second * 2)
    wide = tl.broadcast_to(tl.expand_dims(tl.sum(both, axis=2), 2), (4, 2, 2))
    tl.store(Y[i], tl.reshape(wide - both, (B,)), mask=i < X.shape[0])


@tm.jit
def ends(X, Y, B: tl.constexpr):
    """argmax, argmin, cumsum, min, and sums of conditions."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.reshape(tl.load(X[i], mask=i < X.shape[0], other=0), 4, 4)
    a = tl.argmax(x, axis=1) + 10 * tl.argmin(x, axis=1)
    b = tl.sum(x > 2, axis=1) + tl.cumsum(x, axis=1).to(tl.int64).T
    c = tl.min(x) * tl.max(x, axis=0)
    tl.store(Y[i], tl.reshape((a + b) + c[:, None], B), mask=i < X.shape[0])


@tm.jit
def functions(X, Y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X[i], mask=i < X.shape[0], other=1)
    y = tl.exp(-x) + tl.sqrt(x) + tl.sigmoid(x) + tl.rsqrt(x + 1) + tl.log(x + 1) + tl.abs(3 - x) + tl.floor(x / 2)
    z = tl.where((i % 3 == 0) | ~(x > 2), y, -y) + tl.minimum(x, 2) + tl.maximum(x, tl.tanh(x)) + tl.erf(x)
    tl.store(Y[i], z, mask=i < X.shape[0])


@tm.jit
def choices(X, Y, B: tl.constexpr):
    """if on sizes and programs, static loops, augmented assignment, conditional expressions."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=0)
    scale = 2 if B > 4 else 3
    for k in tl.static_range(3):
        x += k
    if tl.program_id(0) % 2 == 0:
        x = x * scale
        if X.shape[0] > 20:
            x = x - 1
    else:
        x = -x
    x -= 1.0 if tl.num_programs(0) > 1 else 0.5
    tl.store(Y[i], x, mask=inside)


@tm.jit
def stores_in_parts(X, Y, B: tl.constexpr):
    """Two stores, one under a condition on programs: each element is stored once."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=0)
    if tl.program_id(0) == 0:
        tl.store(Y[i], x + 1, mask=inside)
    else:
        tl.store(Y[i], x - 1, mask=inside)


@tm.jit
def boxes(X, Y, B: tl.constexpr):
    x, y = (tl.make_tensor_descriptor(each, [0], [1], [B]) for each in (X, Y)) if False else (X, Y)
    left = tl.make_tensor_descriptor(x, [0], [1], [B])
    right = tl.make_tensor_descriptor(y, [0], [1], [B])
    start = tl.program_id(0) * B
    right.store([start], left.load([start]) + left.load([start - 1]))


@tm.jit
def carried(X, Y, B: tl.constexpr):
    """Loops that carry a place, an integer, a sum with another start, and a value that is swapped."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    total, last, other, n = tl.full((B,), 1, tl.float32), tl.zeros((B,), tl.float32), tl.full((B,), 5, tl.float32), 0
    place = X + i
    for k in tl.range(1, X.shape[0], 3):
        x = tl.load(X[(i + k) % 4], mask=(i + k) % 4 < X.shape[0], other=0)
        total = total + x
        last, other = other, x + last
        n += 2
    left = i < X.shape[0]
    tl.store(Y[i], total + last * 10 + other + n + tl.load(place, mask=left, other=0), mask=left)


@tm.jit
def backwards(X, Y, B: tl.constexpr):
    """Places that turn and jump: stride 2 in one store, the others in another."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    N = X.shape[0]
    inside = i < N
    x = tl.load(X[N - 1 - i], mask=inside, other=0)
    even = tl.where(i % 2 == 0, x, 0)
    tl.store(Y[N - 1 - i], even + x, mask=inside & (i % 2 == 0))
    tl.store(Y[N - 1 - i], x, mask=inside & (i % 2 == 1))


KERNELS = (shapes, ends, functions, choices, stores_in_parts, carried, backwards)
SIZES = (1, 5, 16, 37)


def declared(kernel: Any, block: int, dtype: tm.DType) -> tuple[tm.Function, Any]:
    (n,) = tm.params("N")
    f = tm.Function("words", params=[n])
    x, y = f.input("x", tm.float32, [n]), f.array("y", dtype, [n])
    run = kernel[tl.cdiv(n, block)](x, y, B=block)
    f.outputs(y)
    return f, run


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_a_word_is_what_numpy_makes_of_it(kernel: Any) -> None:
    dtype = tm.float64 if kernel is ends else tm.float32
    f, run = declared(kernel, 16, dtype)
    assert f.check().ok, f.check()
    for size in SIZES:
        x = numbers(size)
        expected = np.full(size, np.nan, dtype.numpy)
        kernel.interpret[-(-size // 16)](x, expected, B=16, seed=size)
        np.testing.assert_allclose(f.evaluate(x), expected, rtol=1e-6)
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok, f.check()
    found = f.compile()(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_types_are_numpys() -> None:
    """Sums of 16 bits in float32, of bytes in int32; conversions; masks of integers."""

    @tm.jit
    def product(A, B, C, T: tl.constexpr):
        i, j = tl.arange(0, T), tl.arange(0, T)
        tl.store(C[i[:, None], j], tl.dot(tl.load(A[i[:, None], j]), tl.load(B[i[:, None], j])))

    for dtype, wide in ((np.float16, np.float32), (np.int8, np.int32), (np.float64, np.float64)):
        a, b = numbers(8, 8, dtype=dtype), numbers(8, 8, dtype=dtype)
        c, d = np.zeros((8, 8), wide), np.zeros((8, 8), wide)
        product.interpret[1](a, b, c, T=8)
        product[1](a, b, d, T=8)
        np.testing.assert_array_equal(c, a.astype(wide) @ b.astype(wide))
        np.testing.assert_array_equal(c, d)


def test_boxes_have_zeros_outside() -> None:
    x = numbers(21)
    expected = x + np.concatenate([[0], x[:-1]]).astype(np.float32)
    for launch in (boxes.interpret, boxes):
        y = np.zeros(21, np.float32)
        launch[3](x, y, B=8)
        np.testing.assert_array_equal(y, expected)


def test_numbers_and_integers_of_a_call_take_the_type_of_the_other_operand() -> None:
    @tm.jit
    def scaled(X, Y, factor, shift, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(Y[i], tl.load(X[i], mask=i < X.shape[0], other=0) * factor + shift, mask=i < X.shape[0])

    x = numbers(11)
    for factor, shift in ((0.1, 3), (2.5, 7)):
        y, z = np.zeros_like(x), np.zeros_like(x)
        scaled.interpret[2](x, y, factor, shift, B=8)
        scaled[2](x, z, factor, shift, B=8)
        np.testing.assert_array_equal(y, z)
        np.testing.assert_array_equal(y, x * np.float32(factor) + np.float32(shift))
    assert len(scaled.compiled) == 1


@tm.jit
def of_any_name(X, Y, B: tl.constexpr):
    int = tl.program_id(0) * B + tl.arange(0, B)
    do = tl.load(X[int], mask=int < X.shape[0], other=0)
    for long in tl.range(0, 3):
        do = do * 2 + long.to(tl.float32)
    tl.store(Y[int], do, mask=int < X.shape[0])


def test_a_variable_may_have_a_name_that_c_keeps_to_itself() -> None:
    (n,) = tm.params("N")
    f = tm.Function("names", params=[n])
    x, y = f.input("x", tm.float32, [n]), f.array("y", tm.float32, [n])
    run = of_any_name[tl.cdiv(n, 4)](x, y, B=4)
    f.outputs(y)
    assert run["do"].name.startswith("do_")
    tm.recipes.blocks(run, on=tm.cores())
    given = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(given), 8 * given + 4)
