"""Rows in registers on GPUs: sums of a row are trees, and nothing of it is in shared memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import CASES, declared, softmax
from tests.language.test_masks_left_out import module_of
from tests.selection import some
from tiramisu_py.ir import Allocate
from tiramisu_py.ir.rewriting import walk

M, N = tm.params("M N")
WARP_OF_FLOATS = 32 * 4


def rows(lanes: int, columns: Any = N, assume: str = "") -> tuple[tm.Function, Any]:
    """Softmax of rows that are as long as a block, or shorter."""
    f = tm.Function("rows", params=[M, N] if columns is N else [M], assume=assume)
    x, y = f.input("x", tm.float32, [M, columns]), f.array("y", tm.float32, [M, columns])
    run = softmax[M](x, y, LANES=lanes)
    f.outputs(y)
    return f, run


def expected(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def drawn(rows: int, columns: int) -> Any:
    return np.random.default_rng(columns).normal(size=(rows, columns)).astype(np.float32)


def registers(f: tm.Function) -> dict[str, list[int]]:
    """The extents of arrays in registers of the kernel, by name."""
    (kernel,) = f.show("lowered").gpus.kernels
    found = [each for each in walk(kernel.body) if isinstance(each, Allocate) and each.register]
    return {each.buffer: [int(str(extent)) for extent in each.extents] for each in found}


def test_a_masked_row_is_in_registers_and_its_sums_are_trees() -> None:
    f, run = rows(64, assume="1 <= N <= 64")
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    assert set(re.findall(r"(\w+)\.store_in\(tm\.REGISTER\)", text)) == {v.name for v in run.values} - {"y"}
    assert "tm.SHARED" not in text and text.count("combine=tm.TREE") == 2
    f.derive_transfers()
    report = f.check()
    assert report.ok and "bits given up by summed.update" in report.bits and "largest preserved" in report.bits, report
    (facts,) = f.cost("kernels")
    assert facts.shared_bytes <= WARP_OF_FLOATS
    kernel = f.compile(device="simulator", sanitize=True)
    for columns in (1, 33, 64):
        x = drawn(3, columns)
        for each in (kernel, kernel.seeded(1, "lazy")):
            np.testing.assert_allclose(each(x), expected(x), rtol=1e-5)


@pytest.mark.parametrize("warps", some([1, 2, 8], lambda each: each == 2))
def test_whole_rows_are_loaded_by_16_bytes(warps: int) -> None:
    f, run = rows(256, 256)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=warps)
    assert ("vectorize(" in text) == (warps < 4)  # each of 256 threads has one element
    f.derive_transfers()
    assert f.check().ok
    each = [2, 4] if warps == 1 else [4] if warps == 2 else []
    assert registers(f)["e"] == each or (not each and max(registers(f)["e"], default=1) == 1)
    x = drawn(2, 256)
    np.testing.assert_allclose(f.compile(device="simulator", sanitize=True)(x), expected(x), rtol=1e-5)


@pytest.mark.slow
def test_layer_norm_shares_its_scalars_alone() -> None:
    f, run = module_of("layer_norm").normalised()
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    shared = set(re.findall(r"(\w+)\.store_in\(tm\.SHARED\)", text))
    assert {len(value.domain) for value in run.values if value.name in shared} == {1}  # one number for each program
    f.derive_transfers()
    assert f.check().ok
    x, w, b = drawn(5, 50), drawn(1, 50)[0], drawn(2, 50)[1]
    y, *_ = f.compile(device="simulator", sanitize=True)(x, w, b, eps=1e-5)
    normalised = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, normalised * w + b, rtol=1e-4, atol=1e-5)


def test_what_the_user_keeps_elsewhere_stays_there() -> None:
    f, run = rows(64, assume="1 <= N <= 64")
    e = next(value.name for value in run.values if value.name.startswith("e"))
    run[e].store_in(tm.SHARED)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    assert f"{e}.store_in" not in text and "combine=tm.TREE" in text
    f.derive_transfers()
    assert f.check().ok
    _, run = rows(64, assume="1 <= N <= 64")
    run["summed"].store_in(tm.SHARED)
    assert "TREE" not in tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)


@tm.jit
def halves(X, Y, LANES: tl.constexpr):
    """Rows of two lengths: no thread has the same elements of both."""
    row, lane, half = tl.program_id(0), tl.arange(0, LANES), tl.arange(0, LANES // 2)
    x = tl.load(X[row, lane])
    tl.store(Y[row, half], tl.load(X[row, half]) / tl.sum(x, axis=0))


def test_rows_of_two_lengths_and_sums_in_loops_are_as_before() -> None:
    f = tm.Function("halves", params=[M])
    x, y = f.input("x", tm.float32, [M, 64]), f.array("y", tm.float32, [M, 32])
    run = halves[M](x, y, LANES=64)
    f.outputs(y)
    assert "TREE" not in tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    _, run = declared(next(case for case in CASES if case.name == "attention"))
    assert "TREE" not in tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)


@pytest.mark.slow
def test_sums_that_an_iteration_replaces_are_those_of_one_thread() -> None:
    f, run = module_of("attention").attended()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=4)
    f.derive_transfers()
    assert registers(f)["acc"] == [2, 2]  # 32 by 16 of 128 threads, once for all iterations
