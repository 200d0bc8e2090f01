"""Stages whose rows are read by formulas: automatic schedules compute them for each band of rows that reads them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.auto.groups.row_bands import RowRange, read_rows

R, C, H, L = tm.params("R C H L")
p, r, c, y, x, z, i, j = tm.iters("p r c y x z i j")
CPU = tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=1 << 20, cores=2)
SMALL = tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=256 << 10, cores=2)
LARGE = tm.recipes.Cpu(vector_bytes=64, registers=32, first=32 << 10, second=16 << 20, cores=2)
SIZES = ((1, 1), (9, 7), (150, 35))


def larger() -> tm.Function:
    """Three planes in half as many rows again, each a sum of two rows of sums of columns."""
    f = tm.Function("larger", params=[R, C, H], assume="R >= 1 and C >= 1 and H >= 2 and 2R <= 3H")
    picture = f.input("picture", tm.float32, [3, H, C + 2])
    begin = tm.clip((2 * r + 1) // 3, 0, H - 2)
    across = f.computation("across", [p, r, c], picture[p, r, c] + picture[p, r, c + 1] * 2 + picture[p, r, c + 2])
    f.outputs(f.computation("out", {p: 3, r: R, c: C}, across[p, begin, c] + across[p, begin + 1, c] * 3))
    return f


def cells() -> tm.Function:
    """Numbers of pixels of each level in cells of four by four, added with those beside, then read between cells."""
    f = tm.Function("cells", params=[R, C, L], assume="R >= 1 and C >= 1 and 1 <= L and L <= 9")
    level = f.input("level", tm.int32, [R, C], values=(0, L))
    near = tm.boundary.repeat_edge(level)
    height = f.computation("height", [r, c], (near[r, c] * 3 + 1) // 4)
    at = [y, height[4 * y + i, 4 * x + j], x]
    count = f.scatter("count", [y, z, x], over={i: 4, j: 4}, at=at, op=tm.sum, expr=1, dtype=tm.int32)
    beside = [count[y, z, x + d] * (2 + abs(d)) for d in (-1, 0, 1)]
    wide = f.computation("wide", [y, z, x], reduce(add, beside))
    row = f.computation("row", [r, z, x], wide[r // 4, z, x] * (4 - r % 4) + wide[r // 4 + 1, z, x] * (r % 4))
    f.outputs(f.computation("out", {r: R, c: C}, row[r, tm.clip(level[r, c], 0, L), c // 4]))
    return f


def far() -> tm.Function:
    """Rows that a value says, and rows that are read again and again."""
    f = tm.Function("far", params=[R, C], assume="R >= 1 and C >= 1")
    a, at = f.input("a", tm.float32, [R + 80, C]), f.input("at", tm.int32, [R, C], values=(0, 80))
    first = f.computation("first", [r, c], a[r, c] * a[r, c] + 1)
    rows = [first[r + 40 * d, c] for d in range(3)]
    f.outputs(f.computation("out", {r: R, c: C}, reduce(add, rows) + first[tm.clip(at[r, c], 0, R), c]))
    return f


def given(f: tm.Function, rows: int, columns: int) -> dict[str, Any]:
    """Random arguments of a program for so many results."""
    draw = np.random.default_rng(0)
    if f.name == "larger":
        return {"picture": draw.random((3, max(rows, 2), columns + 2), dtype=np.float32), "R": rows}
    if f.name == "far":
        at = draw.integers(0, 80, (rows, columns), dtype=np.int32)
        return {"a": draw.random((rows + 80, columns), dtype=np.float32), "at": at}
    return {"level": draw.integers(0, 5, (rows, columns), dtype=np.int32), "L": 5}


@pytest.mark.parametrize(
    ("program", "threads", "cpu", "said"),
    [
        (larger, 1, CPU, "across for each band, of out, in bands of 64 rows"),
        (larger, 2, CPU, "out.parallelize(p, r0)"),
        (larger, 1, SMALL, "across for each band, of out, in bands of 16 rows"),
        (cells, 1, CPU, "row.compute_at(out, r)"),
        (cells, 1, CPU, "count for each row, height for each row, of wide"),
        (cells, 2, CPU, "wide.parallelize(y)"),
        (cells, 1, LARGE, "wide for each band, count for each band, height for each band, of out, in bands of 64 rows"),
        (cells, 2, LARGE, "out.parallelize(r0)"),
    ],
)
def test_bands_are_as_chosen_and_right(
    program: Callable[[], tm.Function], threads: int, cpu: tm.recipes.Cpu, said: str
) -> None:
    f, other = program(), program()
    schedule = f.auto_schedule(target=cpu, threads=threads)
    assert said in schedule.explain()
    exec(str(schedule), {"tm": tm, "f": other})
    assert other.commands == f.commands
    kernel = f.compile(threads=threads)
    for size in SIZES:
        values = given(f, *size)
        np.testing.assert_allclose(kernel(**values), program().evaluate(**values), rtol=1e-5, atol=1e-5)


def test_rows_that_values_say_or_that_are_read_again_and_again_are_in_no_band() -> None:
    f = far()
    assert "for each band" not in f.auto_schedule(target=CPU, threads=1).explain()
    values = given(f, 9, 7)
    np.testing.assert_allclose(f.compile(threads=1)(**values), far().evaluate(**values), rtol=1e-5)


FORMULAS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda row, k: row // 8 + 1,
    lambda row, k: 8 * row + k - 4,
    lambda row, k: (3 * row + 7 - k) // 5,
    lambda row, k: (2 * row - k % 3) // 3 + row,
    lambda row, k: 1 - (5 - row),
)


@pytest.mark.parametrize("number", range(len(FORMULAS)))
@pytest.mark.parametrize("band", [1, 8, 64])
def test_the_rows_of_a_band_are_those_that_its_indices_have(number: int, band: int) -> None:
    found = read_rows(FORMULAS[number](r, i), "r", {"i": 8})
    assert found is not None
    most = 0
    for first in range(0, 6 * band, band):
        indices = {FORMULAS[number](row, k) for row in range(first, first + band) for k in range(8)}
        most = max(most, max(indices) - min(indices) + 1)
    assert most <= found.rows(band) <= most + 1


def test_ends_of_a_picture_do_not_count_and_other_indices_have_no_range() -> None:
    extents = {"i": 4, "c": None}
    clipped = read_rows(tm.clip(2 * r + i - 1, 0, R - 1), "r", extents)
    assert clipped == RowRange(Fraction(2), Fraction(-1), Fraction(2))
    a = tm.Function("f", params=[R]).input("a", tm.int32, [R])
    for index in (r * r, r % 4, a[r] + 0, r + c, r + R, tm.maximum(r, 2 * r)):
        assert read_rows(index, "r", extents) is None
