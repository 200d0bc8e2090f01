"""Loops that store a cache line of each of several rows in turn begin at the first line, wherever the array begins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.ir import For
from tiramisu_py.ir.rewriting import walk

(R, C), (r, c, r0, c0, r1, c1) = tm.params("R C"), tm.iters("r c r0 c0 r1 c1")
LINE, ROWS, COLUMNS = 16, 4, 48
Value = Callable[[tm.Input], tm.Expr]


def doubled(value: Value = lambda x: 2 * x[r, c], rows: int = ROWS, lanes: int = LINE) -> tm.Function:
    """A value for each element of a picture with a border, a line of each of a few rows in turn."""
    f = tm.Function("doubled", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R + 2, C + 2])
    y = f.computation("y", {r: R, c: C}, value(x))
    f.outputs(y)
    y.tile(r, c, rows, lanes, r0, c0, r1, c1)
    y.unroll(r1)
    y.vectorize(c1, lanes, remainder="mask")
    y.store_nontemporal(above=0)
    return f


def windowed() -> tm.Function:
    """Sums of three across, and then down: a window of rows, of which each strip makes its own."""
    f = tm.Function("windowed", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R + 2, C + 2])
    s = f.computation("s", {r: R + 2, c: C}, x[r, c] + x[r, c + 1] + x[r, c + 2])
    y = f.computation("y", {r: R, c: C}, s[r, c] + s[r + 1, c] + s[r + 2, c])
    f.outputs(y)
    y.tile(r, c, ROWS, LINE, r0, c0, r1, c1)
    y.unroll(r1)
    y.vectorize(c1, LINE, remainder="mask")
    y.store_nontemporal(above=0)
    s.compute_at(y, r1)
    s.slide(r1, r, 1)
    s.store_in(tm.REGISTER)
    s.vectorize(c, LINE, remainder="mask")
    return f


def begun(f: tm.Function, vector_bytes: int = 32) -> set[tuple[str, ...]]:
    """The arrays along which loops may begin anywhere."""
    return {loop.along for loop in walk(f.show("lowered", vector_bytes).body) if isinstance(loop, For) and loop.along}


def weights(x: tm.Input) -> tm.Expr:
    """Another factor for each second column."""
    return tm.select(c % 2 == 0, 2 * x[r, c], 3 * x[r, c])


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_loops_whose_lanes_compute_alike_begin_anywhere(vector_bytes: int) -> None:
    assert begun(doubled(), vector_bytes) == begun(windowed(), vector_bytes) == {("x", "y")}


@pytest.mark.parametrize(
    ("value", "rows", "lanes"),
    [
        (weights, ROWS, LINE),
        (lambda x: x[r, c] * tm.cast(tm.float32, c), ROWS, LINE),
        (lambda x: x[r, c] + x[r, c // 16], ROWS, LINE),
        (lambda x: x[r, c] + x[r, 0], ROWS, LINE),
        (lambda x: x[r, c] + x[r, C - c], ROWS, LINE),
        (lambda x: 2 * x[r, c], 1, LINE),
        (lambda x: 2 * x[r, c], ROWS, 32),
        (lambda x: 2 * x[r, c], 8, 8),
    ],
    ids=["weights", "column", "strip", "first column", "backwards", "one row", "two lines", "half lines"],
)
def test_others_begin_where_they_did(value: Value, rows: int, lanes: int) -> None:
    f = doubled(value, rows, lanes)
    assert begun(f, 32) == begun(f, 64) == set()


def test_a_strip_whose_halves_compute_different_things_stays_where_it_is() -> None:
    h, k = tm.iters("h k")
    f = tm.Function("halves", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R, C])
    y = f.computation("y", {r: R, c: C}, tm.select(c // 8 % 2 == 0, 2 * x[r, c], 3 * x[r, c]))
    f.outputs(y)
    y.tile(r, c, ROWS, LINE, r0, c0, r1, c1)
    y.split(c1, 8, h, k)
    y.unroll(r1)
    y.unroll(h)
    y.vectorize(k, 8)
    y.store_nontemporal(above=0)
    assert begun(f) == set()


@pytest.fixture(scope="module", params=[doubled, windowed])
def kernel(request: pytest.FixtureRequest) -> tm.Kernel:
    kernel: tm.Kernel = request.param().compile()
    return kernel


@pytest.mark.parametrize("columns", [1, 16, 17, 32, COLUMNS, 64, 160])
@pytest.mark.parametrize("offset", [0, 4, 16, 60])
def test_rows_may_begin_at_any_element_of_a_line(columns: int, offset: int, kernel: tm.Kernel) -> None:
    """The values are those of NumPy, and nothing beside the rows is written."""
    x = np.random.default_rng(columns).random((11, columns + 2), dtype=np.float32)
    memory = np.full((9 * columns + 64) * 4, 0xAB, np.uint8)
    first = -memory.ctypes.data % 64 + 64 + offset
    y = memory[first : first + 9 * columns * 4].view(np.float32).reshape(9, columns)
    kernel(x, y=y)
    s = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    expected = 2 * x[:-2, :-2] if kernel.name == "doubled" else s[:-2] + s[1:-1] + s[2:]
    assert np.array_equal(y, expected)
    assert (memory[:first] == 0xAB).all()
    assert (memory[first + y.nbytes :] == 0xAB).all()
