"""Programs of rows read what they load where it is, under its mask, and early for the next program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.test_masks_left_out import module_of

Array = np.ndarray[Any, np.dtype[Any]]
M, N = tm.params("M N")
SIZES = ((0, 3), (1, 1), (3, 13), (2, 31), (5, 32))


@tm.jit
def scaled(X, W, Y, LANES: tl.constexpr, TURNED: tl.constexpr, BEYOND: tl.constexpr):
    """Rows less their largest element, times a weight, and their sum at the end: exact for small integers."""
    row, lane = tl.program_id(0), tl.arange(0, LANES)
    N = W.shape[0]
    x = tl.load(X[lane, row] if TURNED else X[row, lane], mask=lane < N, other=BEYOND)
    w = tl.load(W[lane], mask=lane < N, other=0)
    y = (x - tl.max(x, axis=0)) * w + tl.sum(w * x, axis=0)
    tl.store(Y[row, lane], y, mask=lane < N)


def _run(beyond: int = -9, turned: bool = False) -> tuple[tm.Function, Any]:
    f = tm.Function("scaled", params=[M, N], assume="1 <= N <= 32 and M <= 32")
    x, w = f.input("x", tm.float32, [N, M] if turned else [M, N]), f.input("w", tm.float32, [N])
    y = f.array("y", tm.float32, [M, N])
    run = scaled[M](x, w, y, LANES=32, TURNED=turned, BEYOND=beyond)
    f.outputs(y)
    return f, run


def _expected(x: Array, w: Array, beyond: int) -> Array:
    largest = np.maximum(x.max(1, keepdims=True), beyond if x.shape[1] < 32 else -np.inf)
    return np.asarray((x - largest) * w + (w * x).sum(1, keepdims=True), np.float32)


@pytest.mark.parametrize("beyond", [-9, 9])
def test_loads_of_rows_are_read_in_place_and_are_their_other_value_beyond_the_mask(beyond: int) -> None:
    f, run = _run(beyond)
    text = tm.recipes.blocks(run, on=tm.cores())
    assert {"x_2.inline()", "w_2.inline()"} <= set(text.splitlines())
    assert text.count(".prefetch(x, p0, 1)") == 1 and ".prefetch(w" not in text
    kernel, rng = f.compile(), np.random.default_rng(0)
    for m, n in SIZES:
        x, w = rng.integers(-4, 5, (m, n)).astype(np.float32), rng.integers(-4, 5, n).astype(np.float32)
        np.testing.assert_array_equal(kernel(x, w), _expected(x, w, beyond))


def test_a_load_that_is_no_row_in_memory_keeps_its_block() -> None:
    f, run = _run(turned=True)
    text = tm.recipes.blocks(run, on=tm.cores())
    assert "x_2.inline()" not in text and "w_2.inline()" in text
    x, w = np.arange(39, dtype=np.float32).reshape(13, 3) % 7, np.arange(13, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(x, w), _expected(x.T, w, -9))


def test_a_load_with_commands_of_the_user_keeps_them_and_its_block() -> None:
    _, run = _run()
    run["x"].reorder(*tm.iters("lane p0"))
    assert "x_2.inline()" not in tm.recipes.blocks(run, on=tm.cores())


def test_a_load_that_the_user_inlines_stays_inlined() -> None:
    f, run = _run()
    run["w"].inline()
    text = tm.recipes.blocks(run, on=tm.cores())
    assert "w_2" not in text and "x_2.inline()" in text
    assert f.check().ok


def test_loads_of_products_are_panels_and_stay() -> None:
    _, run = module_of("attention").attended(16, 16, True, 16)
    assert "inline" not in tm.recipes.blocks(run, on=tm.cores())


def test_softmax_and_layer_norm_load_each_row_early() -> None:
    _, run = module_of("softmax").rows()
    assert "e.prefetch(x, p0, 1)" in tm.recipes.blocks(run, on=tm.cores()).splitlines()
    _, run = module_of("layer_norm").normalised()
    assert "centred.prefetch(x, p0, 1)" in tm.recipes.blocks(run, on=tm.cores()).splitlines()


@tm.jit
def lifted(X, Y, LANES: tl.constexpr):
    """One program for all elements: what it reads once has no axes."""
    lane = tl.arange(0, LANES)
    first = tl.load(X[0])
    x = tl.load(X[lane], mask=lane < X.shape[0], other=0)
    tl.store(Y[lane], x - first, mask=lane < X.shape[0])


def test_an_element_without_axes_is_no_row() -> None:
    f = tm.Function("lifted", params=[N], assume="1 <= N <= 16")
    x, y = f.input("x", tm.float32, [N]), f.array("y", tm.float32, [N])
    run = lifted[1](x, y, LANES=16)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.cores())
    given = np.arange(13, dtype=np.float32) + 5
    np.testing.assert_array_equal(f.compile()(given), given - 5)
