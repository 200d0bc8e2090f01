"""Masks with remainders: isl cuts the programs under them into pieces, of which the code has one guarded statement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl


@tm.jit
def two_of_three(X: Any, Y: Any, T: tl.constexpr) -> None:
    r = tl.program_id(0) * T + tl.arange(0, T)
    keep = (r < X.shape[0]) & (r % 3 != 1)
    tl.store(Y[r], tl.load(X[r], mask=keep, other=0) * 2.0, mask=keep)


@pytest.fixture(scope="module")
def doubled() -> tm.Function:
    (N,) = tm.params("N,")
    f = tm.Function("doubled", params=[N], assume="N mod 64 = 0")
    x, y = f.input("x", tm.float32, [N]), f.array("y", tm.float32, [N], partial=True)
    run = two_of_three[N // 64](x, y, T=64)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    return f


def test_what_a_mask_with_a_remainder_guards_is_written_once(doubled: tm.Function) -> None:
    text = next(text for name, text in doubled.source().items() if name.endswith(".cu"))
    assert text.count("y[64*p0 + r] = ") == 1
    assert text.count("x[64*p0 + r]") == 1


def test_elements_under_a_mask_with_a_remainder_are_those_of_numpy(doubled: tm.Function) -> None:
    kernel = doubled.compile(device="simulator", sanitize=True)
    for size in (0, 64, 192):
        x, y = np.arange(size, dtype=np.float32), np.full(size, -1, np.float32)
        kernel(x, y=y)
        np.testing.assert_array_equal(y, np.where(np.arange(size) % 3 != 1, 2 * x, -1))


@tm.jit
def where_a_remainder_is(X: Any, Y: Any, T: tl.constexpr, Q: tl.constexpr, R: tl.constexpr) -> None:
    r = tl.program_id(0) * T + tl.arange(0, T)
    keep = (r < X.shape[0]) & (r % Q == R)
    tl.store(Y[r], tl.load(X[r], mask=keep, other=0) * 2.0, mask=keep)


def in_blocks(Q: int, R: int, T: int, on: tm.GpuThreads | None) -> tm.Function:
    (N,) = tm.params("N,")
    f = tm.Function("doubled", params=[N], assume=f"N mod {T} = 0")
    x, y = f.input("x", tm.float32, [N]), f.array("y", tm.float32, [N], partial=True)
    run = where_a_remainder_is[N // T](x, y, T=T, Q=Q, R=R)
    f.outputs(y)
    if on is None:
        tm.recipes.blocks(run, on=tm.cores())
        return f
    tm.recipes.blocks(run, on=on, num_warps=1)
    f.derive_transfers()
    return f


@pytest.mark.slow
@pytest.mark.parametrize(("Q", "R", "T"), [(3, 0, 8), (5, 2, 8), (9, 0, 8), (3, 2, 64)])
def test_threads_that_a_remainder_leaves_out_at_the_begin_of_a_block_keep_their_numbers(Q: int, R: int, T: int) -> None:
    """The first element under the mask differs from block to block, and thread 0 has the first one of the block."""
    kernel = in_blocks(Q, R, T, tm.gpu()).compile(device="simulator", sanitize=True)
    for size in (0, T, 5 * T):
        x, y = np.arange(size, dtype=np.float32), np.full(size, -1, np.float32)
        kernel(x, y=y)
        np.testing.assert_array_equal(y, np.where(np.arange(size) % Q == R, 2 * x, -1))


@pytest.mark.slow
def test_a_mask_that_never_holds_stores_nothing_and_is_told_where_a_kernel_would_be_empty() -> None:
    x, y = np.arange(16, dtype=np.float32), np.full(16, -1, np.float32)
    in_blocks(3, 4, 8, None).compile()(x, y=y)
    np.testing.assert_array_equal(y, -1)
    (found,) = in_blocks(3, 4, 8, tm.gpu()).check().violations
    assert "loop p0 of a kernel has no iterations for any sizes" in str(found)
