"""`tune` takes a recipe, and what it is to be applied to, in the place of a function that makes each point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, k = tm.iters("i j k")
CPU = tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=512 << 10)


def product() -> tuple[tm.Function, tm.Reduction]:
    f = tm.Function("product", params=[N])
    a, b = f.input("a", tm.float32, [N, N]), f.input("b", tm.float32, [N, N])
    total = f.reduction("total", {i: N, j: N}, {k: N}, tm.sum, a[i, k] * b[k, j])
    f.outputs(total)
    return f, total


def test_each_point_is_the_sizes_of_the_recipe_on_a_copy(tmp_path: Path) -> None:
    f, total = product()
    space = {"rows": [2, 3], "columns": [64]}
    found = tm.tune(
        tm.recipes.matmul, space, of=total, sizes={"N": 20}, repeats=1, database=tmp_path / "tuning.sqlite",
        progress=False,
    )  # fmt: skip
    assert f.commands == () and found.measured == 2 and found.complete
    for point in found.points:
        _, same = product()
        made = tm.recipes.matmul(same, sizes=dict(point.parameters))
        assert [str(each) for each in point.commands] == [str(each) for each in made.commands]


def test_a_recipe_without_sizes_takes_the_point_by_its_names(tmp_path: Path) -> None:
    f = tm.Function("means", params=[N, M])
    x = f.input("x", tm.float32, [N + 2, M + 2])
    down = f.computation("down", {i: N, j: M + 2}, x[i, j] + x[i + 1, j] + x[i + 2, j])
    across = f.computation("across", {i: N, j: M}, down[i, j] + down[i, j + 1] + down[i, j + 2])
    f.outputs(across)
    found = tm.tune(
        tm.recipes.stencil, {"rows": [2, 4]}, of=[down, across], sizes={"N": 9, "M": 40}, repeats=1,
        database=tmp_path / "tuning.sqlite", progress=False,
    )  # fmt: skip
    tiles = [next(str(each) for each in point.commands if ".tile(" in str(each)) for point in found.points]
    assert sorted(tiles)[0].startswith("across.tile(i, j, 2,") and sorted(tiles)[1].startswith("across.tile(i, j, 4,")


@pytest.mark.parametrize("of", [3, [], ["total"], "total"])
def test_of_is_refused_where_it_is_no_computation(of: Any) -> None:
    with pytest.raises(tm.ArgumentError, match="give the computations that a recipe is to schedule"):
        tm.tune(tm.recipes.matmul, {"rows": [2]}, of=of, sizes={"N": 20})
