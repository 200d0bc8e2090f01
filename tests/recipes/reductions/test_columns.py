"""The recipe of columns: what it commands, that it is proven and right at any size, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import covering
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.reductions.columns import ColumnSizes

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
NARROW = Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10)
SIZES = [(0, 3), (1, 1), (8, 64), (9, 65), (67, 131), (5, 1031)]
R, C = tm.params("R C")
r, c = tm.iters("r c")


def reduced(operator: Any = tm.sum, dtype: tm.DType = tm.float32, **options: Any) -> tuple[tm.Function, tm.Reduction]:
    """A reduction of each column."""
    f = tm.Function("columns", params=[R, C])
    x = f.input("x", dtype, [R, C])
    y = f.reduction("y", {c: C}, {r: R}, operator, x[r, c], **options)
    f.outputs(y)
    return f, y


@pytest.mark.parametrize(
    ("operator", "dtype", "share", "cpu"),
    covering(
        [(tm.sum, tm.float32), (tm.max, tm.float64), (tm.sum, tm.uint8)], ["columns", "rows"], [WIDE, NARROW], each=2
    ),
)
def test_reductions_of_columns_are_proven_and_right_at_any_size(
    operator: Any, dtype: tm.DType, share: str, cpu: Cpu
) -> None:
    f, y = reduced(operator, dtype)
    tm.recipes.columns(y, share=share, cpu=cpu)
    assert f.check().ok
    kernel = f.compile(threads=2)
    for size in SIZES:
        x = np.random.default_rng(sum(size)).integers(0, 9, size).astype(dtype.numpy)
        np.testing.assert_array_equal(kernel(x), f.evaluate(x), err_msg=str(size))


def test_the_text_does_the_same_again() -> None:
    f, y = reduced()
    text = tm.recipes.columns(y, cpu=WIDE)
    g, _ = reduced()
    exec(text, {"tm": tm, "f": g})
    assert list(map(str, g.commands)) == list(map(str, f.commands))


def test_accumulators_take_a_page_and_at_most_an_eighth_of_the_first_cache() -> None:
    _, y = reduced()
    assert ColumnSizes.of(y, WIDE) == ColumnSizes(8, 64, 16)
    assert ColumnSizes.of(y, NARROW) == ColumnSizes(8, 8, 128)
    assert ColumnSizes.of(y, Cpu(vector_bytes=32, registers=16, first=8 << 10, second=64 << 10)) == ColumnSizes(
        8, 16, 16
    )


def test_what_is_not_a_number_stays_in_its_column() -> None:
    f, y = reduced()
    tm.recipes.columns(y, cpu=WIDE)
    x = np.ones((19, 70), np.float32)
    x[17, 3], x[0, 69] = np.nan, np.inf
    found = f.compile()(x)
    assert np.isnan(found[3]) and found[69] == np.inf
    np.testing.assert_array_equal(np.delete(found, [3, 69]), 19)


def test_what_is_no_reduction_of_columns_is_refused_with_the_reason() -> None:
    f = tm.Function("f", params=[R, C])
    x = f.input("x", tm.float32, [R, C])
    whole = f.reduction("whole", {}, {r: R, c: C}, tm.sum, x[r, c])
    plain = f.computation("plain", {r: R, c: C}, x[r, c])
    f.outputs(whole, plain)
    with pytest.raises(ArgumentError, match="columns: whole has the iterators none and is over r, c"):
        tm.recipes.columns(whole)
    with pytest.raises(ArgumentError, match="columns: plain is not a reduction"):
        tm.recipes.columns(plain)
    with pytest.raises(ArgumentError, match="columns: y is ordered"):
        tm.recipes.columns(reduced(ordered=True)[1])
    with pytest.raises(ArgumentError, match='columns: share=\'tiles\': threads share "columns" or "rows"'):
        tm.recipes.columns(reduced()[1], share="tiles")
    _, y = reduced()
    y.update.parallelize(c)
    y.update.split(r, 4, *tm.iters("r0 r1"))
    with pytest.raises(ArgumentError, match="columns: y has been scheduled already"):
        tm.recipes.columns(y)
