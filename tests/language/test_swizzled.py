"""tl.swizzle2d: programs in another order, of which each takes the part of one other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers

T = 4


@tm.jit
def grouped(A, B, C, T: tl.constexpr, G: tl.constexpr, TURNED: tl.constexpr = False):
    """A product with programs in groups of G rows; with TURNED the rows are the second axis of the grid."""
    M, N, D = A.shape[0], B.shape[1], A.shape[1]
    if TURNED:
        pm, pn = tl.swizzle2d(tl.program_id(1), tl.program_id(0), tl.num_programs(1), tl.num_programs(0), G)
    else:
        pm, pn = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), G)
    rm, rn = pm * T + tl.arange(0, T), pn * T + tl.arange(0, T)
    acc = tl.zeros((T, T), tl.float32)
    for k in tl.range(0, D, T):
        rk = k + tl.arange(0, T)
        a = tl.load(A[rm[:, None], rk], mask=(rm[:, None] < M) & (rk < D), other=0)
        b = tl.load(B[rk[:, None], rn], mask=(rk[:, None] < D) & (rn < N), other=0)
        acc = tl.dot(a, b, acc)
    tl.store(C[rm[:, None], rn], acc, mask=(rm[:, None] < M) & (rn < N))


@tm.jit
def columns_added(X, Y, COMBINE: tl.constexpr):
    """Programs of all rows add to the columns."""
    row, column = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    tl.accumulate(Y[column], tl.load(X[row, column]), combine=COMBINE)


@tm.jit
def layers_added(X, Y, COMBINE: tl.constexpr):
    """Programs along the third axis add to an element each."""
    row, column = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    tl.accumulate(Y[row, column], tl.load(X[tl.program_id(2), row, column]), combine=COMBINE)


@pytest.mark.parametrize(("rows", "columns", "group"), [(1, 1, 1), (5, 3, 2), (4, 6, 4), (7, 2, 3), (3, 5, 8)])
def test_the_order_is_by_groups_of_rows_column_by_column(rows: int, columns: int, group: int) -> None:
    wanted = [
        (row, column)
        for first in range(0, rows, group)
        for column in range(columns)
        for row in range(first, min(first + group, rows))
    ]
    found = [tl.swizzle2d(i, j, rows, columns, group) for i in range(rows) for j in range(columns)]
    assert found == wanted


def declared(**constants: Any) -> tuple[tm.Function, Any]:
    m, n, k = tm.params("M N K")
    f = tm.Function("grouped", params=[m, n, k])
    a, b, c = f.input("a", tm.float32, [m, k]), f.input("b", tm.float32, [k, n]), f.array("c", tm.float32, [m, n])
    grid = (tl.cdiv(m, T), tl.cdiv(n, T))
    run = grouped[grid[::-1] if constants.get("TURNED") else grid](a, b, c, T=T, **constants)
    f.outputs(c)
    return f, run


@pytest.mark.parametrize("constants", [{"G": 3}, {"G": 2, "TURNED": True}], ids=["rows", "turned"])
def test_a_product_in_groups_is_the_product(constants: Any) -> None:
    f, run = declared(**constants)
    assert str(tl.parse(str(run.ir))) == str(run.ir)
    assert f.check().ok, f.check()
    for m, n, k in ((1, 1, 1), (21, 13, 5), (8, 16, 4)):
        a, b, c = numbers(m, k), numbers(k, n), np.full((m, n), np.nan, np.float32)
        grid = (-(-m // T), -(-n // T))
        grouped.interpret[grid[::-1] if constants.get("TURNED") else grid](a, b, c, T=T, **constants)
        np.testing.assert_array_equal(c, a @ b)
        np.testing.assert_array_equal(f.evaluate(a, b), c)
    text = tm.recipes.blocks(run, on=tm.cores())
    rows, columns = ("p1", "p0") if constants.get("TURNED") else ("p0", "p1")
    assert f"c.split({rows}, {constants['G']}, {rows}_group, {rows})" in text
    assert f"c.reorder({rows}_group, {columns}, {rows})" in text and f"c.parallelize({rows}_group)" in text
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile()(a, b), c)


def test_blocks_of_a_gpu_are_in_groups() -> None:
    """The last of the blocks is the fastest: rows of a group, then columns, then groups."""
    f, run = declared(G=2)
    assert "c.tag_gpu(blocks=[p0_group, p1, p0])" in tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    f.derive_transfers()
    assert f.check().ok, f.check()
    a, b = numbers(13, 5), numbers(5, 6)
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(a, b), a @ b)


def test_forgotten_masks_are_found_by_the_new_numbers() -> None:
    @tm.jit
    def unmasked(X, Y):
        pm, pn = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
        tl.store(Y[pm, pn], tl.load(X[pm + 1, pn]))

    m, n = tm.params("M N")
    f = tm.Function("unmasked", params=[m, n])
    x, y = f.input("x", tm.float32, [m, n]), f.array("y", tm.float32, [m, n])
    unmasked[m, n](x, y)
    f.outputs(y)
    (violation,) = f.check().violations
    assert violation.kind == "bounds" and "x[1, 0]" in violation.message


def test_sums_whose_order_stays_are_those_of_numpy() -> None:
    x = np.random.default_rng(2).normal(size=(4, 3, 5)).astype(np.float32)
    found, interpreted = np.zeros((3, 5), np.float32), np.zeros((3, 5), np.float32)
    layers_added[3, 5, 4](x, found, COMBINE=tm.ORDERED)
    layers_added.interpret[3, 5, 4](x, interpreted, COMBINE=tm.ORDERED)
    np.testing.assert_array_equal(found, np.add.accumulate(x, axis=0)[-1])
    np.testing.assert_array_equal(interpreted, found)


def test_sums_in_any_order_may_be_of_programs_in_another_one() -> None:
    x, y = numbers(5, 7), np.zeros(7, np.float32)
    columns_added[5, 7](x, y, COMBINE=tm.ATOMIC)
    np.testing.assert_array_equal(y, x.sum(0))


@tm.jit
def of_a_product(Y):
    p = tl.program_id(0)
    i, j = tl.swizzle2d(p // 4, p % 4, 4, 4, 2)
    tl.store(Y[i, j], 0)


@tm.jit
def beside_its_own(Y):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    tl.store(Y[i, j], tl.program_id(0))


@tm.jit
def of_one_axis(Y):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(0), tl.num_programs(0), tl.num_programs(1), 2)
    tl.store(Y[i, j], 0)


@tm.jit
def of_another_extent(Y):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(1), tl.num_programs(0), 2)
    tl.store(Y[i, j], 0)


@tm.jit
def of_a_fixed_extent(Y):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), 4, tl.num_programs(1), 2)
    tl.store(Y[i, j], 0)


@tm.jit
def in_two_orders(Y):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    k, _ = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 4)
    tl.store(Y[i, j], k)


@tm.jit
def in_groups_of_a_size(Y):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), Y.shape[0])
    tl.store(Y[i, j], 0)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (of_a_product, "tl.swizzle2d numbers the programs of a grid anew: give it two of their numbers as they are"),
        (beside_its_own, r"uses tl.program_id\(0\) beside the number that tl.swizzle2d gives the program"),
        (of_one_axis, "tl.swizzle2d numbers the programs of a grid anew"),
        (of_another_extent, "the extent N is not that of axis 0 of the grid, which has M programs: as for M = .*, N ="),
        (of_a_fixed_extent, r"the extent 4 is not that of axis 0.* M = 0, N = 0; give tl.num_programs\(0\)"),
        (in_two_orders, "numbers programs in another order than .*: use one"),
        (in_groups_of_a_size, "the group of tl.swizzle2d is a constant of at least 1"),
    ],
)
def test_what_may_not_number_programs_one_by_one_is_refused(kernel: Any, words: str) -> None:
    m, n = tm.params("M N")
    f = tm.Function("refused", params=[m, n])
    with pytest.raises(tm.DeclarationError, match=words):
        kernel[m, n](f.array("y", tm.float32, [m, n]))


def test_sums_in_the_order_of_numbers_that_change_are_refused() -> None:
    x, y = np.zeros((4, 4), np.float32), np.zeros(4, np.float32)
    with pytest.raises(tm.DeclarationError, match=r"in the order of their numbers.*give combine=tm.ATOMIC, or add up"):
        columns_added[4, 4](x, y, COMBINE=tm.ORDERED)
