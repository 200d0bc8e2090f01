"""Plans of time tiles: what they count is what the schedule computes, within bounds of redundancy and of the cache."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.texts import commands
from tiramisu_py import sets
from tiramisu_py.recipes import Cpu, time_stencil
from tiramisu_py.recipes.time_fronts import best_front
from tiramisu_py.recipes.time_stencil import MEMORY, MOST_REDUNDANT, best_plan

T = tm.params("T")[0]
t, i, j, k = tm.iters("t i j k")
CORES = [
    Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10),
    Cpu(vector_bytes=32, registers=16, first=32 << 10, second=512 << 10),
    Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20),
]


def field(rank: int, radius: int = 1) -> tuple[tm.Function, tm.Computation]:
    """A mean over neighbours along each dimension of space, in a box whose border keeps its values."""
    space, sizes = [i, j, k][-rank:], tm.params("I J K")[-rank:]
    f = tm.Function("field", params=[T, *sizes], assume=" and ".join(f"{size} >= 1" for size in (T, *sizes)))
    start = f.input("start", tm.float32, list(sizes))
    edge = t == 0
    for x, size in zip(space, sizes, strict=True):
        edge = edge | (x < radius) | (x >= size - radius)

    def value(u: tm.Computation) -> tm.Expr:
        total = u[(t - 1, *space)]
        for axis in range(rank):
            for by in (-radius, radius):
                total = total + u[(t - 1, *(x + by if axis == a else x for a, x in enumerate(space)))]
        return tm.select(edge, start[tuple(space)], total / (2 * rank + 1))

    u = f.computation("u", {t: T + 1, **dict(zip(space, sizes, strict=True))}, value)
    f.outputs(u[(T, *space)])
    return f, u


@pytest.mark.parametrize("cpu", CORES, ids=["sse", "avx2", "avx512"])
@pytest.mark.parametrize("element", [4, 8])
@pytest.mark.parametrize("reach", [(2,), (2, 2), (2, 2, 2), (4, 4), (8, 8), (4, 4, 4), (8, 8, 8), (0, 2, 2)])
def test_a_plan_computes_little_twice_and_lies_in_the_cache(cpu: Cpu, element: int, reach: tuple[int, ...]) -> None:
    plan = best_plan(reach, cpu.lanes(element), element, cpu)
    if plan is None:
        assert reach in [(4, 4, 4), (8, 8, 8)]
        return
    useful, computed = plan.steps * prod(plan.sides), 0
    for before in range(plan.steps):
        computed += prod(side + more * before for side, more in zip(plan.sides, reach, strict=True))
    first = prod(side + more * (plan.steps - 1) for side, more in zip(plan.sides, reach, strict=True))
    assert computed <= MOST_REDUNDANT * useful
    assert 2 * element * first <= cpu.second // 2


def test_a_cube_takes_few_levels_and_a_plate_many() -> None:
    cube, plate = (best_plan((2,) * rank, 16, 4, CORES[2]) for rank in (3, 2))
    assert cube is not None and plate is not None
    assert 2 <= cube.steps <= 4 < plate.steps


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_a_plan_counts_is_what_the_schedule_computes(rank: int) -> None:
    f, u = field(rank)
    boxes, fronts = best_plan((2,) * rank, 4, 4, CORES[0]), best_front([(1, 1)] * rank, 4, CORES[0], MEMORY)
    assert boxes is not None and (fronts is not None) == (rank == 2)
    plan, sides = (fronts, (fronts.rows, fronts.columns)) if fronts is not None else (boxes, boxes.sides)
    time_stencil(u, cpu=CORES[0])
    sizes = {"T": 3 * plan.steps, **dict(zip("IJK"[-rank:], (9 * side for side in sides), strict=True))}
    computed = 0
    for statement in f.program.statements_of("u"):
        inside = sets.fixed(statement.instances, sizes)
        for coordinate in sets.variables(inside.get_space())[: rank + 1]:
            inside = inside.intersect(sets.within(coordinate, 1, 2))  # the second pass of an inner tile
        computed += sets.count(inside)
    exact = computed / (plan.steps * prod(sides))
    assert exact <= plan.redundancy * 1.001  # whole vectors are at least the points in them
    assert plan.redundancy <= 1.35 * exact


def test_where_no_tile_pays_the_recipe_says_so_and_sweeps() -> None:
    f, u = field(3, radius=4)
    text = time_stencil(u, cpu=CORES[0])
    assert commands(text) == [
        "# no tiles over time: their halos would cost more than they save",
        "u.parallelize(i)",
        "u.vectorize(k, 4, remainder='mask')",
        "u_out.parallelize(i)",
        "u_out.vectorize(k, 4)",
    ]
    kernel = f.compile()
    for shape in ((9, 10, 11), (3, 12, 17)):
        start = np.random.default_rng(0).random(shape, dtype=np.float32)
        np.testing.assert_array_equal(kernel(start, T=3), f.evaluate(start=start, T=3))
    again, u = field(3, radius=4)
    exec(text, {"tm": tm, "f": again})
    assert again.commands == f.commands


def test_steps_that_are_given_are_taken() -> None:
    _, u = field(3, radius=4)
    assert "u.time_tile(t, 2, {" in time_stencil(u, steps=2, cpu=CORES[2])
