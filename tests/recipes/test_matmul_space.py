"""The space of the recipe for matrix products: around its own sizes, legal and right at each of them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product as combinations
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.test_matmul import NARROW, TINY, WIDE, K, M, N, given, i, j, k, plain
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


SHARED = [("ik", "kj", {}), ("ki", "jk", {"threads": 1}), ("hik", "kj", {"parts": 3, "terms": 16})]


@pytest.mark.parametrize(("left", "right", "more"), SHARED)
def test_parts_of_the_sums_are_shared_by_threads(left: str, right: str, more: dict[str, int]) -> None:
    f, C, expected = plain(left, right, tm.float32)
    text = tm.recipes.matmul(C, cpu=NARROW, sizes={"terms": 32, "tiles": 2, "parts": 2, **more})
    shared = min(more.get("parts", 2), more.get("threads", 9))
    assert f"C.update.parallelize(k0, combine=tm.PRIVATE, threads={shared})" in text
    for size in ((1, 1, 0), (7, 5, 1), (13, 37, 170)):
        arrays = given(f, left, right, size)
        np.testing.assert_array_equal(f.compile(threads=3)(**arrays), expected(**arrays))


def test_what_reads_the_parts_is_computed_afterwards() -> None:
    _, _, expected = plain(dtype=tm.float32)
    f = tm.Function("layer", params=[N, M, K])
    A, B, bias = f.input("A", tm.float32, [N, K]), f.input("B", tm.float32, [K, M]), f.input("bias", tm.float32, [M])
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, A[i, k] * B[k, j])
    y = f.computation("y", {i: N, j: M}, tm.max(C[i, j] + bias[j], 0))
    f.outputs(y)
    tm.recipes.matmul(y, cpu=NARROW, sizes={"terms": 32, "parts": 2})
    arrays = {**given(f, "ik", "kj", SIZE), "bias": np.arange(SIZE[1], dtype=np.float32) - 400}
    result = f.compile(threads=2)(**arrays)
    np.testing.assert_array_equal(result, np.maximum(expected(arrays["A"], arrays["B"]) + arrays["bias"], 0))


@pytest.mark.parametrize("copied", [0, 1])
def test_operands_are_read_where_they_are(copied: int) -> None:
    for left, right, more in (("ik", "kj", {}), ("ki", "jk", {"parts": 2})):
        f, C, expected = plain(left, right, tm.float32)
        text = tm.recipes.matmul(C, cpu=NARROW, sizes={"terms": 32, "copied": copied, **more})
        assert text.count(".copy(") == copied
        arrays = given(f, left, right, (13, 37, 70))
        np.testing.assert_array_equal(f.compile(threads=2)(**arrays), expected(**arrays))


def test_threads_are_at_most_so_many() -> None:
    f, C, _ = plain(dtype=tm.float32)
    tm.recipes.matmul(C, cpu=NARROW, sizes={"threads": 1})
    text = f.source()["mm.c"]
    assert text.count("#pragma omp parallel") == text.count("num_threads(tm_threads() < 1") > 1


def test_the_space_of_several_cores_has_parts_and_threads() -> None:
    four = replace(NARROW, cores=4)
    space = tm.recipes.matmul_space(plain()[1], cpu=four)
    assert (space["parts"], space["threads"]) == ([1, 4], [1, 4])
    batched = plain("bik", "bkj")[1]
    assert "parts" not in tm.recipes.matmul_space(batched, cpu=four)
    with pytest.raises(ArgumentError, match="parts is 2, and C is a product for each b, which threads share"):
        tm.recipes.matmul(batched, cpu=four, sizes={"parts": 2})


def test_sizes_that_are_given_are_taken_and_others_follow_from_the_processor() -> None:
    _, C, _ = plain(dtype=tm.float32)
    text = tm.recipes.matmul(C, cpu=WIDE, sizes={"rows": 10, "columns": 32})
    assert "C.tile(i, j, 10, 32, i0, j0, i1, j1)" in text
    assert f"C.update.split(k, {Sizes.of(C, WIDE).terms}, k0, k1)" in text


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"lanes": 8}, "no size 'lanes' here: there are terms, rows, columns, tiles, parts, threads, copied"),
        ({"copied": 3}, "copied is 3, and a product has 2 operands"), ({"copied": -1}, "copied is -1"),
        ({"rows": 0}, "rows is 0"),
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
