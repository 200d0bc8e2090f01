"""The recipe of rows: what it commands, that it is proven and right at any size, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import cpu_stories, linear_stories
from tests.recipes.texts import commands
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.reductions.rows import accumulating

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
NARROW = Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10)
SIZES = [(0, 5), (1, 1), (3, 16), (2, 17), (5, 65), (7, 131)]
R, C, B = tm.params("R C B")
r, c, b = tm.iters("r c b")
Array = np.ndarray[Any, Any]
Made = tuple[tm.Function, tm.Computation, Callable[[Array], Array]]


def softmax(dtype: tm.DType = tm.float32) -> Made:
    f = tm.Function("softmax", params=[R, C])
    x = f.input("x", dtype, [R, C])
    top = f.reduction("top", {r: R}, {c: C}, tm.max, x[r, c])
    power = f.computation("power", {r: R, c: C}, tm.exp(x[r, c] - top[r]))
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, power[r, c])
    inverse = f.computation("inverse", {r: R}, tm.cast(dtype, 1) / total[r])
    y = f.computation("y", {r: R, c: C}, power[r, c] * inverse[r])
    f.outputs(y)

    def right(x: Array) -> Array:
        power = np.exp(x - x.max(1, keepdims=True))
        return power / power.sum(1, keepdims=True)

    return f, y, right


def logsumexp() -> Made:
    f = tm.Function("logsumexp", params=[R, C])
    x = f.input("x", tm.float64, [R, C])
    top = f.reduction("top", {r: R}, {c: C}, tm.max, x[r, c])
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, tm.exp(x[r, c] - top[r]))
    y = f.computation("y", {r: R}, top[r] + tm.log(total[r]))
    f.outputs(y)
    return f, y, lambda x: x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1))


def norm() -> Made:
    f = tm.Function("norm", params=[R, C])
    x = f.input("x", tm.float32, [R, C])
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, x[r, c] * x[r, c])
    y = f.computation("y", {r: R}, tm.sqrt(total[r]))
    f.outputs(y)
    return f, y, lambda x: np.sqrt((x * x).sum(1))


def variance() -> Made:
    """A reduction that reads another one."""
    f = tm.Function("variance", params=[R, C])
    x = f.input("x", tm.float64, [R, C])
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, x[r, c])
    mean = f.computation("mean", {r: R}, total[r] / tm.cast(tm.float64, C))
    apart = x[r, c] - mean[r]
    squares = f.reduction("squares", {r: R}, {c: C}, tm.sum, apart * apart)
    f.outputs(squares)
    return f, squares, lambda x: x.var(1) * x.shape[1]


def least() -> Made:
    f = tm.Function("least", params=[R, C])
    x = f.input("x", tm.int16, [R, C])
    y = f.reduction("y", {r: R}, {c: C}, tm.min, x[r, c])
    f.outputs(y)
    return f, y, lambda x: x.min(1)


MADE = [softmax, logsumexp, norm, variance, least]


@pytest.mark.parametrize("cpu", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("make", MADE)
def test_chains_of_rows_are_proven_and_right_at_any_size(make: Callable[[], Made], cpu: Cpu) -> None:
    f, result, right = make()
    tm.recipes.rows(result, cpu=cpu)
    assert f.check().ok
    kernel = f.compile(threads=2)
    rng = np.random.default_rng(0)
    dtype = f.algorithm.inputs["x"].dtype.numpy
    for size in SIZES:
        x = (10 * rng.standard_normal(size)).astype(dtype)
        np.testing.assert_allclose(kernel(x), right(x.astype(np.float64)), rtol=2e-5, atol=1e-7, err_msg=str(size))


def softmax_step() -> tuple[tm.Function, list[tm.Computation]]:
    """Normalised rows with a weight for each column, the norms of the rows, and the sums of their columns."""
    f = tm.Function("step", params=[R, C])
    x, weight = f.input("x", tm.float32, [R, C]), f.input("weight", tm.float32, [C])
    top = f.reduction("top", {r: R}, {c: C}, tm.max, x[r, c])
    power = f.computation("power", {r: R, c: C}, tm.exp(x[r, c] - top[r]))
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, power[r, c])
    norm = f.computation("norm", {r: R}, tm.log(total[r]) + top[r])
    y = f.computation("y", {r: R, c: C}, power[r, c] / total[r] * weight[c])
    columns = f.reduction("columns", {c: C}, {r: R}, tm.sum, power[r, c] * x[r, c])
    f.outputs(norm, y, columns)
    return f, [norm, y, columns]


@pytest.mark.parametrize("threads", [1, 2])
def test_results_of_the_same_rows_and_sums_of_columns_share_one_loop(threads: int) -> None:
    f, results = softmax_step()
    text = tm.recipes.rows(*results, cpu=NARROW)
    assert commands(text)[:6] == [
        "norm.parallelize(r)", "y.parallelize(r)", "y.after(norm, r)", "columns.update.reorder(r, c)",
        "columns.update.parallelize(r, combine=tm.PRIVATE)", "columns.update.after(y, r)",
    ]  # fmt: skip
    assert "power.compute_at(columns.update, r)" in commands(text)
    assert f.check().ok
    kernel = f.compile(threads=threads)
    for size in SIZES:
        x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        weight = np.arange(size[1], dtype=np.float32)
        wide = x.astype(np.float64)
        power = np.exp(wide - wide.max(1, keepdims=True, initial=-np.inf))
        total = power.sum(1, keepdims=True)
        right = [(np.log(total) + wide.max(1, keepdims=True))[:, 0], power / total * weight, (power * wide).sum(0)]
        for found, expected in zip(kernel(x, weight), right, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=str(size))


def test_a_stage_that_others_read_keeps_its_array() -> None:
    f, (norm, y, columns) = softmax_step()
    assert [line for line in commands(tm.recipes.rows(norm, y)) if line.endswith("compute_at(y, r)")] == [
        "total.compute_at(y, r)"
    ]
    assert f.check().ok
    assert columns.name == "columns"


def test_long_rows_of_unaligned_arrays_that_leave_the_caches_are_right() -> None:
    f, result, right = softmax()
    tm.recipes.rows(result)
    x = np.random.default_rng(0).standard_normal(3 * 200_003 + 1, np.float32)[1:].reshape(3, 200_003)
    np.testing.assert_allclose(f.compile()(x), right(x.astype(np.float64)), rtol=1e-4)


def test_what_is_no_number_stays_in_its_row() -> None:
    f, result, _ = softmax()
    tm.recipes.rows(result)
    kernel = f.compile()
    for column in (0, 15, 16, 63, 64, 99):
        x = np.zeros((3, 100), np.float32)
        x[1, column] = np.nan
        found = kernel(x)
        assert np.isnan(found[1]).all()
        np.testing.assert_allclose(found[[0, 2]], 0.01, rtol=1e-6)
        x[1, column] = -np.inf
        assert kernel(x)[1, column] == 0
        x[1, column] = np.inf
        assert np.isnan(kernel(x)[1, column])


def test_batches_of_rows_are_shared_by_threads() -> None:
    f = tm.Function("sums", params=[B, R, C])
    x = f.input("x", tm.float32, [B, R, C])
    y = f.reduction("y", {b: B, r: R}, {c: C}, tm.sum, x[b, r, c])
    f.outputs(y)
    text = tm.recipes.rows(y, cpu=WIDE)
    assert commands(text)[:2] == ["y.update.after(y.init, r)", "y.update.parallelize(b, r)"]
    given = np.random.default_rng(0).integers(0, 9, (2, 3, 133)).astype(np.float32)
    np.testing.assert_array_equal(f.compile(threads=2)(given), given.sum(2))


def test_the_text_does_the_same_again() -> None:
    f, result, _ = softmax()
    text = tm.recipes.rows(result, cpu=NARROW)
    g, *_ = softmax()
    exec(text, {"tm": tm, "f": g})
    assert list(map(str, g.commands)) == list(map(str, f.commands))


def test_accumulators_follow_from_the_processor() -> None:
    assert accumulating(16, WIDE) == 64
    assert accumulating(8, WIDE) == 64
    assert accumulating(4, NARROW) == 32
    assert accumulating(2, Cpu(vector_bytes=16, registers=8, first=1 << 10, second=1 << 12)) == 8


def test_the_last_reader_of_a_row_prefetches_the_next_one() -> None:
    _, result, _ = softmax()
    assert [line for line in tm.recipes.rows(result, cpu=WIDE).splitlines() if "prefetch" in line] == [
        "power.prefetch(x, r, 1)"
    ]
    _, result, _ = norm()
    assert "prefetch" not in tm.recipes.rows(result, cpu=WIDE)


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_the_stories_have_the_schedule_of_the_recipe(name: str) -> None:
    story = cpu_stories.module(name, linear_stories.FOLDER)
    f, _, result = story.algorithm()
    tm.recipes.rows(result, cpu=WIDE)
    assert f.show("pseudocode") == story.scheduled(cpu=tm.target("x86-64-v4")).show("pseudocode")


def refused() -> dict[str, tuple[Callable[[], tm.Computation], str]]:
    """Computations that are no chain of rows, and the reason."""

    def function() -> tuple[tm.Function, tm.Input]:
        f = tm.Function("f", params=[R, C])
        return f, f.input("x", tm.float32, [R, C])

    def pointwise() -> tm.Computation:
        f, x = function()
        y = f.computation("y", {r: R, c: C}, x[r, c] + 1)
        f.outputs(y)
        return y

    def whole() -> tm.Computation:
        f, x = function()
        y = f.reduction("y", {}, {r: R, c: C}, tm.sum, x[r, c])
        f.outputs(y)
        return y

    def ordered() -> tm.Computation:
        f, x = function()
        y = f.reduction("y", {r: R}, {c: C}, tm.sum, x[r, c], ordered=True)
        f.outputs(y)
        return y

    def neighbour() -> tm.Computation:
        f, x = function()
        s = f.reduction("s", {r: R + 1}, {c: C}, tm.sum, x[tm.minimum(r, R - 1), c])
        y = f.computation("y", {r: R, c: C}, x[r, c] - s[r + 1])
        f.outputs(y)
        return y

    def two_outputs() -> tm.Computation:
        f, x = function()
        s = f.reduction("s", {r: R}, {c: C}, tm.sum, x[r, c])
        y = f.computation("y", {r: R, c: C}, x[r, c] - s[r])
        f.outputs(s, y)
        return y

    def read_elsewhere() -> tm.Computation:
        f, x = function()
        s = f.reduction("s", {r: R}, {c: C}, tm.sum, x[r, c])
        y = f.computation("y", {r: R, c: C}, x[r, c] - s[r])
        f.outputs(y, f.computation("q", {r: R}, s[r] * s[r]))
        return y

    def columns() -> tm.Computation:
        f, x = function()
        y = f.reduction("y", {c: C}, {r: R}, tm.sum, x[r, c])
        f.outputs(y)
        return y

    def scheduled() -> tm.Computation:
        f, x = function()
        y = f.reduction("y", {r: R}, {c: C}, tm.sum, x[r, c])
        f.outputs(y)
        y.update.split(c, 4, *tm.iters("c0 c1"))
        return y

    def group() -> tm.Computation:
        f, x = function()
        with f.together() as g:
            before = g.reduction("before", {r: R}, {c: r}, tm.sum, lambda: last[c])
            last = g.computation("last", {r: R}, lambda: x[r, 0] - before[r])
        total = f.reduction("total", {r: R}, {c: C}, tm.sum, x[r, c] * last[r])
        f.outputs(total)
        return total

    return {
        "group": (group, "last was declared together with computations that it depends on"),
        "pointwise": (pointwise, "y depends on no reduction: recipes.pointwise takes such"),
        "whole": (whole, "y has no rows, but one value"),
        "ordered": (ordered, "y is ordered: it takes reductions over one iterator"),
        "neighbour": (neighbour, r"y reads s\[r \+ 1\], another row"),
        "two outputs": (two_outputs, r"s is an output, and y is computed from it: give all .*, recipes.rows\(s, y\)"),
        "read elsewhere": (read_elsewhere, r"s, which y depends on, is read by q, too: .*, recipes.rows\(y, q\)"),
        "columns": (columns, "y is a sum of columns, and no sum of a row is before it: recipes.columns takes such"),
        "scheduled": (scheduled, "y has been scheduled already"),
    }


@pytest.mark.parametrize("case", refused())
def test_what_is_no_chain_of_rows_is_refused_with_the_reason(case: str) -> None:
    make, why = refused()[case]
    result = make()
    before = len(result._function.commands)
    with pytest.raises(ArgumentError, match=f"rows: {why}"):
        tm.recipes.rows(result)
    assert len(result._function.commands) == before
