"""Products that one block reads are summed in its tiles, in registers; others keep a block of sums."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.test_masks_left_out import module_of

Array = np.ndarray[Any, np.dtype[Any]]
M, N = tm.params("M N")


@tm.jit
def scaled(A, B, Y, T: tl.constexpr, D: tl.constexpr, TWICE: tl.constexpr):
    """Rows of a product, with a factor that depends on the element; read a second time, or not."""
    N = B.shape[0]
    rm, rd, rn = tl.program_id(0) * T + tl.arange(0, T), tl.arange(0, D), tl.arange(0, T)
    a = tl.load(A[rm[:, None], rd], mask=rm[:, None] < A.shape[0], other=0)
    total = tl.zeros((T,), tl.float32)
    for start in tl.range(0, N, T):
        b = tl.load(B[(start + rn)[:, None], rd], mask=(start + rn)[:, None] < N, other=0)
        product = tl.dot(a, tl.trans(b))
        s = tl.where((start + rn)[None, :] <= rm[:, None], product * 2, 1)
        total += tl.sum(s + product if TWICE else s, axis=1)
    tl.store(Y[rm], total, mask=rm < A.shape[0])


def _expected(a: Array, b: Array, twice: bool) -> Array:
    product = a @ b.T
    columns = -(-len(b) // 16) * 16  # columns beyond the last one have products of zeros
    whole = np.zeros((len(a), columns), np.float32)
    whole[:, : len(b)] = product
    seen = np.arange(columns) <= np.arange(len(a))[:, None]
    return np.asarray(np.where(seen, whole * 2, 1).sum(1) + (whole.sum(1) if twice else 0))


@pytest.mark.parametrize("twice", [False, True])
def test_a_product_is_summed_where_one_block_reads_it(twice: bool) -> None:
    f = tm.Function("scaled", params=[M, N])
    A, B = f.input("A", tm.float32, [M, 8]), f.input("B", tm.float32, [N, 8])
    Y = f.array("Y", tm.float32, [M])
    run = scaled[tl.cdiv(M, 16)](A, B, Y, T=16, D=8, TWICE=twice)
    f.outputs(Y)
    text = tm.recipes.blocks(run, on=tm.cores())
    assert ("product.compute_at(s, rm_tile)" in text) is not twice
    assert ("product.store_in(tm.REGISTER)" in text) is not twice
    kernel, rng = f.compile(), np.random.default_rng(0)
    for m, n in ((0, 3), (1, 1), (13, 17), (16, 16), (17, 33), (33, 0)):
        a, b = (rng.integers(-4, 5, (size, 8)).astype(np.float32) for size in (m, n))
        np.testing.assert_array_equal(kernel(a, b), _expected(a, b, twice))


def test_scores_and_weighted_sums_of_attention_are_in_registers() -> None:
    f, run = module_of("attention").attended(16, 16, True, 16)
    text = tm.recipes.blocks(run, on=tm.cores())
    assert {"product.compute_at(s, rm_tile)", "acc_product.compute_at(acc, rm_tile)"} <= set(text.splitlines())
    assert text.count("store_in(tm.REGISTER)") == 2
    kernel = f.compile()
    for length in (1, 17, 41):
        x = np.random.default_rng(length).normal(size=(3, length, 16)).astype(np.float32)
        s = x[0].astype(np.float64) @ x[1].T * 0.25
        e = np.exp(np.where(np.tri(length, dtype=bool), s, -np.inf))
        np.testing.assert_allclose(kernel(*x, scale=0.25), e / e.sum(1, keepdims=True) @ x[2], rtol=1e-4, atol=1e-5)


def test_tiles_of_what_is_read_under_a_mask_are_as_wide_as_the_block() -> None:
    _, run = module_of("attention").attended(16, 16, False, 32)
    text = tm.recipes.blocks(run, on=tm.cores(vector=4))
    assert re.search(r"\bs\.tile\(rm, rn, \d+, 32, ", text)
