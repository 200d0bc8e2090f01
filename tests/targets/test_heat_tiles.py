"""The tiles of examples/cpu/heat.py follow from the second-level cache: the rows of all steps of a tile are in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import cpu_stories
from tiramisu_py.algorithm.expressions import constant

HEAT = cpu_stories.module("heat", cpu_stories.FOLDER)


@pytest.mark.parametrize("kilobytes", [256, 512, 1024, 1280, 2048])
def test_the_rows_of_a_tile_are_in_the_cache(kilobytes: int) -> None:
    cpu = replace(tm.target("x86-64-v3"), second=kilobytes << 10)
    steps, rows, columns = HEAT.tile(cpu)
    f = HEAT.scheduled(cpu)
    buffer = next(each for each in f.program.buffers.values() if each.name.startswith("heat_tile"))
    levels, ring, across = (constant(extent) or 0 for extent in buffer.extents)
    assert levels == steps - 1 and ring >= HEAT.ROWS + 2 and across >= columns + 2 * levels
    assert 4 * levels * ring * across <= cpu.second
    assert 4 * levels * ring * across >= 0.7 * cpu.second, "most of the cache is used"
    assert (1 + steps / columns) * (1 + steps / rows) < 1.1, "few points are computed twice"
    assert steps * -(-HEAT.STEPS // steps) <= HEAT.STEPS + 3, "no pass of a few steps is left"


@pytest.mark.parametrize("kilobytes", [256, 512, 1024, 1280, 2048])
def test_the_recipe_chooses_the_same_tiles(kilobytes: int) -> None:
    cpu = replace(tm.target("x86-64-v3"), second=kilobytes << 10, cores=2)
    f, heat = HEAT.algorithm()
    text = tm.recipes.time_stencil(heat, levels=HEAT.STEPS + 1, cpu=cpu)
    steps, rows, columns = HEAT.tile(cpu)
    assert f"heat.time_tile(t, {steps}, {{i: {rows}, j: {columns}}}, [t0, i0, j0], wavefront={{i: 4}})" in text
    shaped = ("skew", "split", "reorder", "unroll")
    by_hand = [str(each) for each in HEAT.scheduled(cpu).commands if any(f".{word}(" in str(each) for word in shaped)]
    assert by_hand == [str(each) for each in f.commands if any(f".{word}(" in str(each) for word in shaped)]


@pytest.mark.slow
def test_narrow_tiles_are_right() -> None:
    """Several tiles and passes, whose last rows fill no block of four; the inner parts alone are skewed."""
    f = HEAT.scheduled(replace(tm.target(), second=16 << 10))
    steps, rows, columns = HEAT.tile(replace(tm.target(), second=16 << 10))
    given = HEAT.sample(rows + 23, 2 * columns + 7, steps=2 * steps + 1)
    np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))
