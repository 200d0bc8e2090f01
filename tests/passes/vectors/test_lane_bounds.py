"""Vector loops around loops whose bounds differ from lane to lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N = tm.params("N")[0]
i, j, m, x, y = tm.iters("i j m x y")
SIZE = 11


def _program(content: str) -> tuple[tm.Function, Any]:
    """A triangle of values, and what is scheduled: the computation, or the updates of a reduction."""
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, N])
    if content == "reduction":
        s = f.reduction("s", {i: N}, {j: (0, i + 1)}, tm.sum, a[i, j] * a[j, i])
        f.outputs(s)
        return f, s.update
    value = a[i, j] + a[j, i]
    value = tm.select(a[i, j] < 0.5, value, 2 * a[j, i]) if content == "choice" else value
    value = tm.select(2 * j < i, value, 3 * a[i, j]) if content == "branch" else value
    p = f.computation("p", {i: N, j: (0, i + 1)}, value, shape=[N, N])
    f.outputs(p)
    return f, p


def _jammed_then_cut(f: tm.Function, p: Any, remainder: str) -> None:
    p.unroll_and_jam(i, 2, x, y)
    p.separate_at(x, [N - 1])
    f["p_0"].vectorize(x, 4, remainder=remainder)


def _tiled(f: tm.Function, p: Any, remainder: str) -> None:
    p.split(i, 2, x, y)
    p.reorder(x, j, y)
    p.vectorize(x, 4, remainder=remainder)


def _tiled_and_unrolled(f: tm.Function, p: Any, remainder: str) -> None:
    _tiled(f, p, remainder)
    p.unroll(y)


def _tiled_then_cut(f: tm.Function, p: Any, remainder: str) -> None:
    p.split(i, 2, x, y)
    p.reorder(x, j, y)
    p.separate_at(x, [N - 1])
    f["p_0"].vectorize(x, 4, remainder=remainder)


def _jammed(f: tm.Function, p: Any, remainder: str) -> None:
    p.unroll_and_jam(i, 2, x, y)
    p.vectorize(x, 4, remainder=remainder)


Schedule = Callable[[tm.Function, Any, str], None]


def _same(f: tm.Function, size: int) -> None:
    a = np.random.default_rng(size).random((size, size))
    np.testing.assert_array_equal(f.compile()(a), f.evaluate(a))


@pytest.mark.parametrize("schedule", [_jammed_then_cut, _tiled, _tiled_and_unrolled, _tiled_then_cut, _jammed])
def test_a_bound_that_is_the_same_in_all_lanes_of_some_strips_is_right(schedule: Schedule) -> None:
    f, p = _program("plain")
    schedule(f, p, "scalar")
    _same(f, SIZE)


@pytest.mark.parametrize(
    ("content", "remainder"),
    [(content, remainder) for content in ("choice", "branch") for remainder in ("scalar", "mask", "overlap")]
    + [("reduction", "scalar"), ("reduction", "mask")],
)
@pytest.mark.parametrize("schedule", [_tiled_and_unrolled, _jammed])
def test_so_are_choices_and_sums_inside_with_every_remainder(schedule: Schedule, content: str, remainder: str) -> None:
    f, p = _program(content)
    schedule(f, p, remainder)
    _same(f, SIZE)


@pytest.mark.parametrize("schedule", [_tiled_and_unrolled, _jammed])
def test_a_sum_whose_last_vector_would_add_terms_twice_is_refused_and_may_be_masked(schedule: Schedule) -> None:
    f, p = _program("reduction")
    schedule(f, p, "overlap")
    (violation,) = f.check().violations
    assert violation.kind == "reduction" and violation.repair is not None
    assert 'vectorize(x, 4, remainder="mask")' in str(violation.repair)
    f, p = _program("reduction")
    schedule(f, p, "mask")
    _same(f, SIZE)


def test_a_bound_that_becomes_the_variable_of_a_loop_around_is_right() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, N])
    p = f.computation("p", {m: N, i: m, j: (0, tm.minimum(m, i + 1))}, a[m, j] + a[i, j], shape=[N, N, N])
    f.outputs(p)
    p.unroll_and_jam(i, 2, x, y)
    p.vectorize(x, 4)
    _same(f, SIZE)
