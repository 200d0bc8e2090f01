"""Words that `test_words` has not, each beside a formula of NumPy: interpreted, evaluated, and on cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl

BLOCK, ROW = 8, 4
Array = np.ndarray[Any, Any]


@tm.jit
def doubled_and_more(x, more: tl.constexpr = 1):
    return 2 * x, x + more


@tm.jit
def calls(X, Y, B: tl.constexpr):
    """Another kernel with two results."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    double, more = doubled_and_more(tl.load(X[i], mask=inside, other=0), more=3)
    tl.store(Y[i], double - more, mask=inside)


@tm.jit
def powers(X, Y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=1)
    tl.store(Y[i], tl.exp2(x / 4) + tl.log2(tl.abs(x) + 1) + tl.sin(x) * tl.cos(x) + (x + 0.5) ** 2, mask=inside)


@tm.jit
def known(X, Y, B: tl.constexpr):
    """cdiv, assume, multiple_of and static_assert where they hold: each element and the sum of all."""
    tl.static_assert(B % 4 == 0, "four at a time")
    tl.assume(X.shape[0] >= 1)
    i = tl.multiple_of(tl.program_id(0) * B, B) + tl.arange(0, B)
    inside = i < X.shape[0]
    total = tl.zeros((B,), tl.float32)
    for k in tl.range(tl.cdiv(X.shape[0], B)):
        at = k * B + tl.arange(0, B)
        total += tl.load(X[at], mask=at < X.shape[0], other=0)
    tl.store(Y[i], tl.load(X[i], mask=inside, other=0) + tl.sum(total), mask=inside)


@tm.jit
def added(X, Y, B: tl.constexpr):
    """All programs add to the same elements."""
    i, at = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    tl.atomic_add(Y[at], tl.load(X[i], mask=i < X.shape[0], other=0), mask=at < Y.shape[0])


@tm.jit
def converted(X, Y, B: tl.constexpr):
    """Towards zero, to 16 bits and back, conditions as numbers; // and % are Python's."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=0)
    whole = (x * 1.5).to(tl.int32)
    half = (x / 3).to(tl.float16).to(tl.float32)
    tl.store(Y[i], whole.to(tl.float32) + half + (x > 2).to(tl.float32) + (whole // 2 % 3).to(tl.float32), mask=inside)


@tm.jit
def conditions(X, Y, B: tl.constexpr):
    """if, elif and else on programs and sizes, with and, or, not."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=0)
    p, n = tl.program_id(0), tl.num_programs(0)
    if p == 0 and n > 1:
        y = x + 1
    elif not p >= n - 1 or X.shape[0] > 100:
        y = x * 3
    else:
        y = x - 2 if p > 2 else -x
    tl.store(Y[i], y, mask=inside)


@tm.jit
def bits(X, Y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=0)
    tl.store(Y[i], ((x & 5) | (x << 2)) ^ (x >> 1) ^ ~x, mask=inside)


@tm.jit
def products(X, Y, B: tl.constexpr):
    """@, trans, [:, None] and [None, :], and a block under its diagonal."""
    i, j = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, 4)
    x = tl.load(X[i[:, None], j[None, :]], mask=i[:, None] < X.shape[0], other=0)
    low = tl.where(j[:, None] >= j, tl.trans(x) @ x, 0)
    r = x @ low
    tl.store(Y[i[:, None], j], r + tl.sum(r, axis=1)[:, None], mask=i[:, None] < X.shape[0])


@tm.jit
def cubes(X, Y, B: tl.constexpr):
    """trans and permute of three dimensions, split and join, the first of several largest."""
    i, j = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, 4)
    x = tl.load(X[i[:, None], j], mask=i[:, None] < X.shape[0], other=0)
    turned = tl.trans(tl.reshape(x, (B, 2, 2)), 2, 0, 1)
    left, right = tl.split(tl.permute(turned, (1, 2, 0)))
    back = tl.reshape(tl.join(right, left), (B, 4))
    wide = tl.broadcast_to(tl.max(back, axis=1)[:, None], (B, 4))
    ends = (tl.argmax(back, axis=1) * 10 + tl.argmin(back, axis=1)).to(tl.float32)
    tl.store(Y[i[:, None], j], tl.cumsum(back, axis=1) + wide + ends[:, None], mask=i[:, None] < X.shape[0])


@tm.jit
def moved(X, Y, B: tl.constexpr):
    """Boxes of two dimensions: down and to the right."""
    x, y = tl.make_tensor_descriptor(X, X.shape, None, [B, 4]), tl.make_tensor_descriptor(Y, Y.shape, None, [B, 4])
    r = tl.program_id(0) * B
    y.store([r, 0], x.load([r - 1, -2]) + tl.full((B, 4), 1, tl.float32))


def _powers(x: Array) -> Array:
    return np.exp2(x / 4) + np.log2(abs(x) + 1) + np.sin(x) * np.cos(x) + (x + 0.5) ** 2


def _converted(x: Array) -> Array:
    whole = np.trunc(x * 1.5)
    return whole + (x / 3).astype(np.float16) + (x > 2) + whole // 2 % 3


def _conditions(x: Array) -> Array:
    n, found = -(-len(x) // BLOCK), np.empty_like(x)
    for p in range(n):
        own = slice(p * BLOCK, (p + 1) * BLOCK)
        last = x[own] - 2 if p > 2 else -x[own]
        found[own] = x[own] + 1 if p == 0 and n > 1 else x[own] * 3 if p < n - 1 or len(x) > 100 else last
    return found


def _products(x: Array) -> Array:
    found = [b @ np.tril(b.T @ b) for b in (x[p : p + BLOCK] for p in range(0, len(x), BLOCK))]
    return np.concatenate([r + r.sum(1)[:, None] for r in found])


def _cubes(x: Array) -> Array:
    back = x.reshape(-1, 2, 2)[:, :, ::-1].reshape(-1, 4)
    return back.cumsum(1) + back.max(1)[:, None] + (back.argmax(1) * 10 + back.argmin(1))[:, None]


def _moved(x: Array) -> Array:
    return np.pad(x, ((1, 0), (2, 0)))[: len(x), :ROW] + 1


CASES: list[tuple[Any, bool, Any, Callable[[Array], Array]]] = [
    (calls, False, np.float32, lambda x: x - 3),
    (powers, False, np.float32, _powers),
    (known, False, np.float32, lambda x: x + x.sum()),
    (added, False, np.float32, lambda x: np.pad(x, (0, -len(x) % BLOCK)).reshape(-1, BLOCK).sum(0)),
    (converted, False, np.float32, _converted),
    (conditions, False, np.float32, _conditions),
    (bits, False, np.int32, lambda x: ((x & 5) | (x << 2)) ^ (x >> 1) ^ ~x),
    (products, True, np.float32, _products),
    (cubes, True, np.float32, _cubes),
    (moved, True, np.float32, _moved),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "is_plane", "dtype", "by_numpy"), CASES, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_word_is_the_formula(kernel: Any, is_plane: bool, dtype: Any, by_numpy: Callable[[Array], Array]) -> None:
    (n,) = tm.params("N")
    f = tm.Function("words", params=[n], assume="N >= 1")
    shape: list[Any] = [n, ROW] if is_plane else [n]
    kind = tm.int32 if dtype is np.int32 else tm.float32
    x, y = f.input("x", kind, shape), f.array("y", kind, [BLOCK] if kernel is added else shape)
    run = kernel[tl.cdiv(n, BLOCK)](x, y, B=BLOCK)
    f.outputs(y)
    assert f.check().ok, f.check()
    for size in (1, 5, 8, 19, 35):
        a = np.random.default_rng(size).integers(-7, 8, (size, ROW) if is_plane else size).astype(dtype)
        expected = by_numpy(a)
        interpreted = np.full(expected.shape, 99, dtype)
        kernel.interpret[-(-size // BLOCK)](a, interpreted, B=BLOCK, seed=size)
        np.testing.assert_allclose(interpreted, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(f.evaluate(a), expected, rtol=1e-5, atol=1e-5)
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok, f.check()
    np.testing.assert_allclose(f.compile()(a), expected, rtol=1e-5, atol=1e-5)
