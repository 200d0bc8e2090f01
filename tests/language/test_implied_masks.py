"""Masks that hold at all points are left out, and no others: with whole blocks nothing is masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers
from tiramisu_py.algorithm.expressions import Select
from tiramisu_py.algorithm.traversal import walk

M, N = tm.params("M N")


@tm.jit
def doubled(X, Y, TM: tl.constexpr, TN: tl.constexpr, FROM: tl.constexpr = 0):
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    inside = (rm[:, None] < X.shape[0]) & (rn < X.shape[1])
    x = tl.load(X[rm[:, None], rn], mask=inside & (rn >= FROM), other=7)
    tl.store(Y[rm[:, None], rn], 2 * x, mask=inside)


def conditions(assume: str, rows: Any, columns: Any, **given: Any) -> tuple[tm.Function, list[str]]:
    """The function, and the conditions that are left of what is loaded."""
    f = tm.Function("doubled", params=[M, N], assume=assume)
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M, N])
    doubled[rows, columns](x, y, TM=8, TN=4, **given)
    f.outputs(y)
    loaded = f.algorithm.computations["x_2"].expr
    return f, [str(each.condition) for each in walk(loaded) if isinstance(each, Select)]


@pytest.mark.parametrize(
    ("assume", "left"),
    [
        ("M mod 8 = 0 and N mod 4 = 0", []),
        ("M mod 8 = 0", ["p1 * 4 + rn < N"]),
        ("M mod 4 = 0 and N mod 8 = 0", ["p0 * 8 + rm < M"]),
        ("M >= 0", ["(p0 * 8 + rm < M) & (p1 * 4 + rn < N)"]),
    ],
)
def test_a_condition_is_left_where_some_size_needs_it(assume: str, left: list[str]) -> None:
    f, found = conditions(assume, tl.cdiv(M, 8), tl.cdiv(N, 4))
    assert found == left
    assert f.check().ok
    x = numbers(16, 8)
    np.testing.assert_array_equal(f.compile()(x), 2 * x)


def test_a_condition_of_the_source_stays() -> None:
    f, found = conditions("M mod 8 = 0 and N mod 4 = 0", M // 8, N // 4, FROM=3)
    assert found == ["p1 * 4 + rn >= 3"]
    x = numbers(8, 8)
    expected = 2 * np.where(np.arange(8) >= 3, x, np.float32(7))
    np.testing.assert_array_equal(f.evaluate(x), expected)
    np.testing.assert_array_equal(f.compile()(x), expected)
