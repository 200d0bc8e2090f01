"""Pipelines of pictures: rows in rings, vectors in registers, strips; scatters; results of the same points."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

R, C, K = tm.params("R C K")
p, r, c, i, j, k, z = tm.iters("p r c i j k z")
CPU = tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=1 << 20, cores=2)
SMALL = tm.recipes.Cpu(vector_bytes=32, registers=16, first=8 << 10, second=32 << 10, cores=2)
WIDE = tm.recipes.Cpu(vector_bytes=64, registers=32, first=32 << 10, second=1 << 20, cores=2)
SIZES = ((1, 1), (2, 9), (67, 130))


def planes() -> tm.Function:
    """Brightness blurred by columns and rows, which scales three planes."""
    f = tm.Function("planes", params=[R, C], assume="R >= 1 and C >= 1")
    rgb = f.input("rgb", tm.float32, [3, R + 4, C + 4])
    grey = f.computation("grey", [r, c], rgb[0, r, c] * 0.5 + rgb[1, r, c] + rgb[2, r, c])
    down = f.computation("down", [r, c], reduce(add, [grey[r + d, c] for d in range(5)]))
    ratio = f.computation("ratio", [r, c], grey[r + 2, c + 2] - reduce(add, [down[r, c + d] for d in range(5)]))
    f.outputs(f.computation("sharp", {p: 3, r: R, c: C}, ratio[r, c] * rgb[p, r, c]))
    return f


def chain() -> tm.Function:
    """Stages that each read five rows of the one before."""
    f = tm.Function("chain", params=[R, C], assume="R >= 1 and C >= 1")
    stage: Any = tm.boundary.repeat_edge(f.input("image", tm.uint16, [R, C]))
    for s in range(4):
        terms = [stage[r + d, c + e] * (d + 3) for d in (-2, 0, 2) for e in (-1, 1)]
        stage = f.computation(f"stage_{s}", {r: R, c: C} if s == 3 else [r, c], reduce(add, terms))
    f.outputs(stage)
    return f


def cells() -> tm.Function:
    """Numbers of pixels in cells of four by four with each of K levels."""
    f = tm.Function("cells", params=[R, C, K], assume="K >= 1")
    level = f.input("level", tm.int32, [4 * R, 4 * C], values=(0, K))
    at = [r, level[4 * r + i, 4 * c + j], c]
    f.outputs(f.scatter("cells", {r: R, z: K, c: C}, over={i: 4, j: 4}, at=at, op=tm.sum, expr=1, dtype=tm.int32))
    return f


def counts() -> tm.Function:
    f = tm.Function("counts", params=[R, C])
    level = f.input("level", tm.uint8, [R, C])
    f.outputs(f.scatter("count", {k: 256}, over={r: R, c: C}, at=[level[r, c]], op=tm.sum, expr=1, dtype=tm.int32))
    return f


def turned() -> tm.Function:
    """A picture read across its rows."""
    f = tm.Function("turned", params=[R, C], assume="R >= 1 and C >= 1 and R <= 1000 and C <= 1000")
    a = f.input("a", tm.float32, [R, C])
    x, y = (tm.cast(tm.float32, tm.cast(tm.int32, each)) for each in (c, r))
    row, column = (tm.cast(tm.int32, tm.floor(u)) for u in (x * 0.25 + y * 0.75, x * 0.75 - y * 0.25))
    f.outputs(f.computation("out", {r: R, c: C}, a[tm.clip(row, 0, R - 1), tm.clip(column, 0, C - 1)]))
    return f


def pair() -> tm.Function:
    f = tm.Function("pair", params=[R])
    a = f.input("a", tm.uint8, [R])
    f.outputs(f.computation("inverse", {r: R}, 255 - a[r]), f.computation("half", {r: R}, a[r] >> 1))
    return f


def given(f: tm.Function, rows: int, columns: int) -> dict[str, Any]:
    """Random arguments; levels are below K."""
    draw, sizes = np.random.default_rng(0), {"R": rows, "C": columns, "K": 5}
    found: dict[str, Any] = {}
    for name, declared in f.algorithm.inputs.items():
        shape = [int(eval(str(extent), {}, sizes)) for extent in declared.shape]
        top = 5 if f.name == "cells" else 200
        values = draw.random(shape) if declared.dtype.is_float else draw.integers(0, top, shape)
        found[name] = values.astype(declared.dtype.name)
    return found | ({"K": 5} if f.name == "cells" else {})


@pytest.mark.parametrize(
    ("program", "threads", "cpu", "said"),
    [
        (planes, 1, CPU, "grey for each row; ratio, down for each vector, of sharp"),
        (planes, 2, CPU, "sharp.parallelize(r0)"),
        (chain, 1, CPU, "stage_2.slide(r1, r)"),
        (chain, 1, CPU, "stage_2.vectorize(c, 16, remainder='pad')"),
        (chain, 1, CPU, "stage_0.vectorize(c, 16, remainder='mask')"),
        (chain, 1, WIDE, "stage_2.vectorize(c, 32, remainder='mask')"),
        (chain, 2, SMALL, "in strips of "),
        (cells, 1, CPU, "cells.update.reorder(r, i, j, c, z)"),
        (counts, 2, CPU, "count.update.parallelize(r, combine=tm.PRIVATE)"),
        (turned, 1, CPU, "out.prefetch(a, r, 8)"),
        (pair, 1, CPU, "half.after(inverse, line)"),
        (pair, 2, CPU, "inverse, half in one loop"),
    ],
)
def test_pipelines_are_as_chosen_and_right(
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
        found, expected = kernel(**values), f.evaluate(**values)
        for one, right in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
            np.testing.assert_allclose(one, right, rtol=1e-5, atol=1e-5)


def test_a_stage_that_others_read_is_computed_for_all_of_them() -> None:
    """What is an output, or is read by a sum, is no part of rows that follow each other."""
    f = tm.Function("f", params=[R, C], assume="R >= 1 and C >= 1")
    a = f.input("a", tm.float64, [R + 2, C])
    kept = f.computation("kept", {r: R + 2, c: C}, tm.sqrt(a[r, c]))
    own = f.computation("own", [r, c], kept[r, c] * kept[r + 2, c])
    total = f.reduction("total", {c: C}, {r: R}, tm.sum, kept[r, c])
    f.outputs(kept, total, f.computation("out", {r: R, c: C}, own[r, c] + 1))
    schedule = f.auto_schedule(target=CPU, threads=1)
    assert "kept.compute_at" not in str(schedule) and "kept.inline" not in str(schedule)
    values = np.random.default_rng(0).random((15, 21))
    for found, expected in zip(f.compile()(a=values), f.evaluate(a=values), strict=True):
        np.testing.assert_allclose(found, expected)
