"""Sums that programs share in any order: blocks that add atomically, or threads do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers

M, N = tm.params("M N")


@tm.jit
def total(X, Y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(Y[0], tl.sum(tl.load(X[i], mask=i < X.shape[0], other=0), axis=0))


@tm.jit
def sums_of_rows(X, Y, TM: tl.constexpr, TN: tl.constexpr, COMBINE: tl.constexpr):
    i, j = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (i[:, None] < X.shape[0]) & (j < X.shape[1])
    x = tl.load(X[i[:, None], j], mask=inside, other=0)
    tl.accumulate(Y[i], tl.sum(x, axis=1), mask=i < X.shape[0], combine=COMBINE)


def one_sum() -> tuple[tm.Function, Any]:
    f = tm.Function("one", params=[N], assume="N >= 1")
    x, y = f.input("x", tm.float32, [N]), f.array("y", tm.float32, [1])
    run = total[tl.cdiv(N, 8)](x, y, B=8)
    f.outputs(y)
    return f, run


def row_sums(combine: Any = tm.ATOMIC) -> tuple[tm.Function, Any]:
    f = tm.Function("rows", params=[M, N], assume="N >= 1")
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M])
    run = sums_of_rows[tl.cdiv(M, 4), tl.cdiv(N, 8)](x, y, TM=4, TN=8, COMBINE=combine)
    f.outputs(y)
    return f, run


CASES: list[tuple[Callable[[], Any], tuple[int, ...], int | None]] = [(one_sum, (21,), None), (row_sums, (5, 17), 1)]


@pytest.mark.parametrize(("make", "shape", "axis"), CASES, ids=["one", "rows"])
def test_blocks_add_in_any_order(make: Callable[[], Any], shape: tuple[int, ...], axis: int | None) -> None:
    f, run = make()
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    (line,) = [each for each in text.splitlines() if "ATOMIC" in each]
    assert line.startswith("y.update.tag_gpu(blocks=[p0") and ("p1" in line) == (axis == 1)
    f.derive_transfers()
    report = f.check()
    assert report.ok and "the order may be another one in each run" in str(report.bits), report
    x = numbers(*shape)
    kernel = f.compile(device="simulator", sanitize=True)
    for each in (kernel, kernel.seeded(1, "lazy")):
        np.testing.assert_array_equal(each(x), np.atleast_1d(x.sum(axis)))


def test_programs_that_add_to_one_place_are_dealt_out_to_threads() -> None:
    f, run = one_sum()
    assert "y.update.parallelize(p0, combine=tm.ATOMIC)" in tm.recipes.blocks(run, on=tm.cores())
    x = numbers(43)
    np.testing.assert_array_equal(f.compile()(x), [x.sum()])


def test_programs_that_add_in_turn_are_parts_of_one_block() -> None:
    f, run = row_sums(tm.ORDERED)
    assert "blocks=[p0])" in tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    f.derive_transfers()
    assert str(f.check().bits) == "bits preserved"
