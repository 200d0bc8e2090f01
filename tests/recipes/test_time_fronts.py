"""Tiles of a plate whose levels advance together: values, and rows that fit in the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.texts import commands
from tiramisu_py.algorithm.expressions import constant
from tiramisu_py.recipes import Cpu, time_stencil
from tiramisu_py.recipes.time_fronts import FILLED, PAGE, ROWS, _ring, best_front
from tiramisu_py.recipes.time_stencil import MEMORY

T, N, M = tm.params("T N M")
t, i, j = tm.iters("t i j")
SMALL = Cpu(vector_bytes=16, registers=16, first=16 << 10, second=8 << 10)
Point = tuple[int, int]

#: The points that a value is the sum of, in the level before.
STENCILS: dict[str, list[Point]] = {
    "cross": [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)],
    "earlier rows": [(0, 0), (-1, 1), (-1, -1)],
    "later rows": [(0, 1), (1, 0)],
    "two rows": [(-2, 0), (2, 0), (1, 2)],
}


def plate(points: list[Point]) -> tuple[tm.Function, tm.Computation]:
    """Sums of points near each other, in a plate whose edge of two keeps its values."""
    f = tm.Function("plate", params=[T, N, M], assume="T >= 1 and N >= 1 and M >= 1")
    start = f.input("start", tm.float64, [N, M])
    edge = (t == 0) | (i < 2) | (i >= N - 2) | (j < 2) | (j >= M - 2)

    def value(u: tm.Computation) -> tm.Expr:
        (down, across), *others = points
        total = u[t - 1, i + down, j + across]
        for down, across in others:
            total = total + u[t - 1, i + down, j + across]
        return tm.select(edge, start[i, j], total)

    u = f.computation("u", {t: T + 1, i: N, j: M}, value)
    f.outputs(u[T, i, j])
    return f, u


def summed(start: Any, points: list[Point], steps: int) -> Any:
    """The plate after some steps, by NumPy: whole numbers, whose sums are exact."""
    for _ in range(steps):
        after = start.copy()
        inner = [np.roll(start, (-down, -across), (0, 1))[2:-2, 2:-2] for down, across in points]
        after[2:-2, 2:-2] = sum(inner)
        start = after
    return start


@pytest.mark.slow
@pytest.mark.parametrize("name", STENCILS)
def test_several_tiles_and_passes_are_right(name: str) -> None:
    """Sizes that fill neither tiles nor blocks of rows nor vectors; the last pass is short."""
    points = STENCILS[name]
    f, u = plate(points)
    text = time_stencil(u, steps=3, cpu=SMALL)
    assert any("unroll" in each for each in commands(text)), text
    kernel = f.compile()
    for rows, columns, steps in ((1, 1, 1), (5, 9, 3), (6, 37, 2), (251, 71, 8)):
        start = np.random.default_rng(rows).integers(0, 9, (rows, columns)).astype(np.float64)
        np.testing.assert_array_equal(kernel(start, T=steps), summed(start, points, steps))


def test_the_text_makes_the_same_schedule() -> None:
    f, u = plate(STENCILS["two rows"])
    text = time_stencil(u, steps=3, cpu=SMALL)
    again, _ = plate(STENCILS["two rows"])
    exec(text, {"tm": tm, "f": again})
    assert again.commands == f.commands and "u_1_inner.unroll(row)" in text


@pytest.mark.parametrize("radius", [1, 2, 4])
@pytest.mark.parametrize("element", [4, 8])
@pytest.mark.parametrize("kilobytes", [128, 256, 512, 1024, 2048])
def test_the_rows_of_all_levels_are_in_the_cache(kilobytes: int, element: int, radius: int) -> None:
    cpu = replace(SMALL, second=kilobytes << 10)
    plan = best_front([(radius, radius)] * 2, element, cpu, MEMORY)
    assert plan is not None and plan.rows % ROWS == 0
    assert 0.6 * FILLED * cpu.second <= plan.footprint <= FILLED * cpu.second
    assert plan.cost(MEMORY) < 1 + MEMORY / 2
    assert plan.footprint // (_ring(plan.down) * (plan.steps - 1)) % PAGE, "rows displace each other"


def test_what_a_plan_keeps_is_the_buffer_of_a_tile() -> None:
    f, u = plate(STENCILS["two rows"])
    time_stencil(u, steps=3, cpu=SMALL)
    plan = best_front([(2, 2), (2, 2)], 8, SMALL, MEMORY, steps=3)
    assert plan is not None
    (buffer,) = [each for each in f.program.buffers.values() if each.name == "u_tile"]
    levels, ring, across = (constant(extent) or 0 for extent in buffer.extents)
    assert 0.8 * plan.footprint <= 8 * levels * ring * across <= plan.footprint


@pytest.mark.parametrize("levels", [1, 3, 7, 51, 1000])
def test_passes_are_about_as_long_as_each_other(levels: int) -> None:
    plan = best_front([(1, 1)] * 2, 4, replace(SMALL, second=1 << 20), MEMORY, levels=levels)
    if levels == 1:
        assert plan is None
        return
    assert plan is not None
    passes = -(-levels // plan.steps)
    assert passes * plan.steps < levels + passes


def test_more_cores_share_lower_tiles() -> None:
    high, low = (best_front([(1, 1)] * 2, 4, replace(SMALL, second=1 << 20, cores=n), MEMORY, 20) for n in (1, 8))
    assert high is not None and low is not None
    assert (high.steps, high.columns) == (low.steps, low.columns) and low.rows == high.rows // 4


def test_fields_of_many_cases_keep_small_tiles() -> None:
    f = tm.Function("sides", params=[T, N, M], assume="T >= 1 and N >= 3 and M >= 3")
    start = f.input("start", tm.float64, [N, M])

    def value(u: tm.Computation) -> tm.Expr:
        inside = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        for where, other in ((i == 0, (1, 0)), (i == N - 1, (-1, 0)), (j == 0, (0, 1)), (j == M - 1, (0, -1))):
            inside = tm.select(where, u[t - 1, i + other[0], j + other[1]], inside)
        return tm.select(t == 0, start[i, j], inside)

    u = f.computation("u", {t: T + 1, i: N, j: M}, value)
    f.outputs(u[T, i, j])
    text = str(time_stencil(u, cpu=replace(SMALL, second=1 << 20)))
    assert "time_tile" in text and "wavefront" not in text and "separate_cases" not in text
