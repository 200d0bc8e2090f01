"""The space of the recipe for matrix products: around its own sizes, legal and right at each of them."""

from __future__ import annotations

import random
from itertools import product as combinations
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.test_matmul import NARROW, TINY, WIDE, given, plain
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.matmul import Sizes

SIZE = (13, 37, 70)


@pytest.mark.parametrize("cpu", [WIDE, NARROW, TINY], ids=["wide", "narrow", "tiny"])
@pytest.mark.parametrize("dtype", [tm.float32, tm.float64, tm.int8])
def test_the_space_lies_around_the_sizes_of_the_recipe(cpu: Cpu, dtype: tm.DType) -> None:
    _, C, _ = plain(dtype=dtype)
    space, own = tm.recipes.matmul_space(C, cpu=cpu), Sizes.of(C, cpu)
    assert list(space) == ["terms", "rows", "columns", "tiles"]
    for name, values in space.items():
        assert getattr(own, name) in values
        assert values == sorted(set(values)) and values[0] >= 1
    assert len(space["rows"]) > 1
    assert all(columns % own.lanes == 0 for columns in space["columns"])


@pytest.mark.parametrize("seed", range(4))
def test_a_product_of_other_sizes_is_right(seed: int) -> None:
    f, C, expected = plain(dtype=tm.float32)
    space = tm.recipes.matmul_space(C, cpu=NARROW)
    sizes = dict(zip(space, random.Random(seed).choice([*combinations(*space.values())]), strict=True))
    tm.recipes.matmul(C, cpu=NARROW, sizes=sizes)
    arrays = given(f, "ik", "kj", SIZE)
    np.testing.assert_array_equal(f.compile()(**arrays), expected(**arrays))


def test_sizes_that_are_given_are_taken_and_others_follow_from_the_processor() -> None:
    _, C, _ = plain(dtype=tm.float32)
    text = tm.recipes.matmul(C, cpu=WIDE, sizes={"rows": 10, "columns": 32})
    assert "C.tile(i, j, 10, 32, i0, j0, i1, j1)" in text
    assert f"C.update.split(k, {Sizes.of(C, WIDE).terms}, k0, k1)" in text


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"lanes": 8}, "no size 'lanes' here: there are terms, rows, columns, tiles"), ({"rows": 0}, "rows is 0"),
        ({"rows": True}, "rows is True"), ({"tiles": 2.0}, "tiles is 2.0"), ([("rows", 3)], "give sizes by name"),
    ],
)  # fmt: skip
def test_sizes_that_are_none_are_refused(sizes: dict[str, int], said: str) -> None:
    _, C, _ = plain()
    with pytest.raises(ArgumentError, match=said):
        tm.recipes.matmul(C, sizes=sizes)


def test_a_search_tries_sizes_of_the_recipe(tmp_path: Path) -> None:
    def make(**sizes: int) -> tm.Function:
        f, C, _ = plain(dtype=tm.float32)
        tm.recipes.matmul(C, cpu=NARROW, sizes=sizes)
        return f

    space = tm.recipes.matmul_space(plain(dtype=tm.float32)[1], cpu=NARROW)
    arguments = given(plain(dtype=tm.float32)[0], "ik", "kj", SIZE)
    found = tm.tune(
        make, {**space, "terms": space["terms"][:1], "tiles": space["tiles"][:1], "columns": [8]}, arguments=arguments,
        where=lambda rows, columns, **_: (rows + 1) * columns <= 4 * 16, database=tmp_path / "tuning.sqlite",
        repeats=1,
    )  # fmt: skip
    assert found.complete and found.measured == len(found.points) > 1
    assert set(found.best.parameters) == set(space)
