"""Sums that programs share: in any order, in turn, in a second kernel, or by the block that ends last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers, tensor_product
from tests.programs.gpu.changed_kernels import with_changed_text

M, N = tm.params("M N")


@tm.jit
def total(X, Y, B: tl.constexpr, COMBINE: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.sum(tl.load(X[i], mask=i < X.shape[0], other=0), axis=0)
    if COMBINE == tm.ATOMIC:
        tl.atomic_add(Y[0], x)
    else:
        tl.accumulate(Y[0], x, combine=COMBINE)


@tm.jit
def sums_of_rows(X, Y, TM: tl.constexpr, TN: tl.constexpr, COMBINE: tl.constexpr):
    i, j = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (i[:, None] < X.shape[0]) & (j < X.shape[1])
    x = tl.load(X[i[:, None], j], mask=inside, other=0)
    tl.accumulate(Y[i], tl.sum(x, axis=1), mask=i < X.shape[0], combine=COMBINE)


@tm.jit
def sum_of_all(X, Y, TM: tl.constexpr, TN: tl.constexpr):
    i, j = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (i[:, None] < X.shape[0]) & (j < X.shape[1])
    x = tl.load(X[i[:, None], j], mask=inside, other=0)
    tl.accumulate(Y[0], tl.sum(tl.sum(x, axis=1), axis=0), combine=tm.ORDERED)


def one_sum(combine: Any = tm.ATOMIC) -> tuple[tm.Function, Any]:
    f = tm.Function("one", params=[N], assume="N >= 1")
    x, y = f.input("x", tm.float32, [N]), f.array("y", tm.float32, [1])
    run = total[tl.cdiv(N, 8)](x, y, B=8, COMBINE=combine)
    f.outputs(y)
    return f, run


def row_sums(combine: Any = tm.ATOMIC) -> tuple[tm.Function, Any]:
    f = tm.Function("rows", params=[M, N], assume="N >= 1")
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M])
    run = sums_of_rows[tl.cdiv(M, 4), tl.cdiv(N, 8)](x, y, TM=4, TN=8, COMBINE=combine)
    f.outputs(y)
    return f, run


def tiles(combine: Any, dtype: tm.DType = tm.float32) -> tuple[tm.Function, Any]:
    return tensor_product(dtype, TM=16, TN=16, SPLIT=3, COMBINE=combine)


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


@pytest.mark.parametrize("make", [one_sum, row_sums, tiles], ids=["one", "rows", "tiles"])
def test_programs_that_add_in_turn_are_blocks_that_draw_their_numbers(make: Callable[..., Any]) -> None:
    f, run = make(tm.ORDERED)
    assert "combine=tm.ORDERED" in tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    f.derive_transfers()
    assert str(f.check().bits) == "bits preserved"
    source = f.source()[f"{f.name}.cu"]
    assert source.count("tm_await_turn(") == source.count("tm_draw_number(") == 1
    given, wanted = _given(make)
    kernel = f.compile(device="simulator", sanitize=True)
    for each in (kernel, *(kernel.seeded(seed, "lazy") for seed in range(3))):
        np.testing.assert_array_equal(each(*given), wanted)


def test_programs_that_add_to_two_arrays_in_turn_are_parts_of_one_block() -> None:
    f = tm.Function("two", params=[M], assume="M >= 1")
    x, y, z = f.input("x", tm.float32, [M, 3]), f.array("y", tm.float32, [M]), f.array("z", tm.float32, [M])
    run = two_sums[tl.cdiv(M, 4), 3](x, y, z, T=4)
    f.outputs(y, z)
    assert "blocks=[p0])" in tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    f.derive_transfers()
    assert str(f.check().bits) == "bits preserved"


@pytest.mark.parametrize("make", [one_sum, row_sums, tiles], ids=["one", "rows", "tiles"])
def test_programs_add_with_a_lock(make: Callable[..., Any]) -> None:
    f, run = make(tm.LOCK)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    assert text.count("combine=tm.LOCK") == 1
    f.derive_transfers()
    report = f.check()
    assert report.ok and "the order may be another one in each run" in str(report.bits), report
    source = f.source()[f"{f.name}.cu"]
    assert source.count("tm_take_lock(") == source.count("tm_give_lock(") == 1 and "tm_atomic" not in source
    given, wanted = _given(make)
    np.testing.assert_array_equal(f.evaluate(*given), wanted)
    kernel = f.compile(device="simulator", sanitize=True)
    for each in (kernel, *(kernel.seeded(seed, "lazy") for seed in range(3))):
        np.testing.assert_array_equal(each(*given), wanted)


def test_programs_with_a_lock_run_on_cores() -> None:
    f, run = one_sum(tm.LOCK)
    assert "y.update.parallelize(p0, combine=tm.ATOMIC)" in tm.recipes.blocks(run, on=tm.cores())
    x = numbers(43)
    np.testing.assert_array_equal(f.compile()(x), [x.sum()])


@pytest.mark.parametrize("combine", [tm.TWO_PASS, tm.LAST_BLOCK], ids=["two", "last"])
@pytest.mark.parametrize("make", [one_sum, row_sums, tiles])
def test_parts_are_stored_and_added_up_in_the_order_of_programs(make: Callable[..., Any], combine: Any) -> None:
    f, run = make(combine)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    assert ("counted=" in text) == (combine is tm.LAST_BLOCK)
    f.derive_transfers()
    report = f.check()
    assert report.ok and str(report.bits) == "bits preserved", report
    source = f.source()[f"{f.name}.cu"]
    assert source.count("TM_KERNEL") == (1 if combine is tm.LAST_BLOCK else 2) and "tm_atomic" not in source
    given, wanted = _given(make)
    np.testing.assert_array_equal(f.evaluate(*given), wanted)
    kernel = f.compile(device="simulator", sanitize=True)
    for each in (kernel, *(kernel.seeded(seed, "lazy") for seed in range(3))):
        np.testing.assert_array_equal(each(*given), wanted)


@pytest.mark.parametrize("make", [one_sum, tiles])
def test_parts_are_added_up_on_cores(make: Callable[..., Any]) -> None:
    f, run = make(tm.TWO_PASS)
    assert "parallelize" in tm.recipes.blocks(run, on=tm.cores())
    given, wanted = _given(make)
    assert f.check().ok
    np.testing.assert_array_equal(f.compile()(*given), wanted)


def _given(make: Callable[..., Any]) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Arrays of small integers, and what becomes of them."""
    if make is tiles:
        a, b = numbers(33, 70), numbers(20, 70)
        return [a, b], a @ b.T
    x = numbers(45) if make is one_sum else numbers(5, 33)
    return [x], np.atleast_1d(x.sum(-1))


MUTATIONS = [
    (r"\n  TM_BARRIER\(\);(?=\n  if \(threadIdx)", ""),  # all threads of the block have stored their part
    (r"TM_FENCE\(\);(?=\n    tm_last)", ""),  # who takes a later ticket sees it
    (r"TM_FENCE\(\);(?=\n  \})", ""),  # and this block the parts of others
    (r"\n  TM_BARRIER\(\);(?=\n  if \(tm_last)", ""),  # all threads know whether the block goes on
    (r"tm_reset_tickets\([^;]*;", ""),  # the next launch counts anew
]


@pytest.mark.parametrize(("line", "instead"), MUTATIONS, ids=["barrier", "fence", "fence after", "known", "reset"])
def test_a_step_of_the_last_block_that_is_left_out_is_found(line: str, instead: str) -> None:
    f, run = row_sums(tm.LAST_BLOCK)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    kernel = with_changed_text(f, "rows.cu", line, instead)
    x = numbers(9, 33)
    assert not all(_agrees(kernel.seeded(seed), x) for seed in range(3))


def _agrees(kernel: tm.Kernel, x: np.ndarray[Any, Any]) -> bool:
    """Whether a call succeeds with the sums of the rows."""
    try:
        return bool(np.array_equal(kernel(x), x.sum(1)))
    except tm.TiramisuError:
        return False


@tm.jit
def added(X, Y, B: tl.constexpr, COMBINE: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.accumulate(Y[i], tl.load(X[i], mask=i < X.shape[0], other=0), mask=i < X.shape[0], combine=COMBINE)


@pytest.mark.parametrize("sharing", [1, 2])
@pytest.mark.parametrize("combine", [tm.ORDERED, tm.TWO_PASS, tm.LAST_BLOCK, tm.ATOMIC], ids=lambda each: each.value)
def test_an_element_to_which_no_program_adds_is_refused(combine: Any, sharing: int) -> None:
    f = tm.Function("added", params=[N])
    x, y = f.input("x", tm.float32, [N]), f.array("y", tm.float32, [N])
    added[N // 4, 1, sharing](x, y, B=4, COMBINE=combine)
    f.outputs(y)
    (violation,) = f.check().violations
    assert violation.witness.params == {"N": 1} and "no program stores y[0]" in violation.message
    assert "launch programs for all of y" in violation.repair


@tm.jit
def two_sums(X, Y, Z, T: tl.constexpr):
    i, s = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1)
    inside = i < X.shape[0]
    x = tl.load(X[i, s], mask=inside & (s < X.shape[1]), other=0)
    tl.accumulate(Y[i], x, mask=inside, combine=tm.ORDERED)
    tl.accumulate(Z[i], x * x, mask=inside, combine=tm.ORDERED)


def test_two_sums_of_the_same_programs_begin_once_on_cores() -> None:
    f = tm.Function("two", params=[M], assume="M >= 1")
    x, y, z = f.input("x", tm.float32, [M, 3]), f.array("y", tm.float32, [M]), f.array("z", tm.float32, [M])
    run = two_sums[tl.cdiv(M, 4), 3](x, y, z, T=4)
    f.outputs(y, z)
    text = tm.recipes.blocks(run, on=tm.cores())
    # the loops of both are one before the start of either moves in: else the second begins anew for each program
    assert text.index(".fuse(") < min(text.index("y.init.compute_at"), text.index("z.init.compute_at"))
    report = f.check()
    assert report.ok, report
    given = numbers(5, 3)
    for found in (f.evaluate(given), f.compile()(given)):
        for each, wanted in zip(found, (given.sum(1), (given * given).sum(1)), strict=True):
            np.testing.assert_array_equal(each, wanted)


def test_programs_that_all_wait_for_the_one_before_are_no_blocks_of_a_gpu() -> None:
    f = tm.Function("all", params=[M, N], assume="M >= 1 and N >= 1")
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [1])
    run = sum_of_all[tl.cdiv(M, 4), tl.cdiv(N, 8)](x, y, TM=4, TN=8)
    f.outputs(y)
    with pytest.raises(tm.UnsupportedError, match="add to y in turn") as refused:
        tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    words = str(refused.value)
    assert "combine=tm.ORDERED, along p0 and p1" in words and "give combine=tm.TWO_PASS" in words
    assert "test_accumulated.py" in words
