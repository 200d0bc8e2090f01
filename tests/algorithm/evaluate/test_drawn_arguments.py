"""Arguments of runs at given sizes: random ones that are as declared, and the beginning of those that are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.partitioned import C, R, blur
from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments
from tiramisu_py.algorithm.evaluate.given_values import checked_arguments


@pytest.mark.parametrize("rows", [0, 1, 50])
@pytest.mark.parametrize("seed", [0, 1])
def test_random_arguments_are_as_declared(rows: int, seed: int) -> None:
    f = tm.Function("f", params=[R, C])
    f.input("start", tm.int32, [R + 1], values=(0, C + 1), monotone=True)
    f.input("order", tm.int64, [R], permutation=True)
    f.input("bounded", tm.int16, [R, C], values=(3, C))
    f.input("byte", tm.uint8, [R])
    f.input("flag", tm.bool, [R])
    f.input("half", tm.bfloat16, [R])
    f.scalar("factor", tm.float64)
    f.scalar("shift", tm.int32)
    params = {"R": rows, "C": 7}
    made = arguments(f.algorithm, {}, params, seed)
    checked = checked_arguments(f.algorithm, made, params)  # raises where types, shapes or facts are not as declared
    assert set(checked.inputs) == {"start", "order", "bounded", "byte", "flag", "half", "factor", "shift"}


def test_given_arrays_are_cut_to_size_without_a_copy_where_they_can_be() -> None:
    algorithm = blur().algorithm
    image = np.arange(30 * 12, dtype=np.float32).reshape(30, 12)
    rows = arguments(algorithm, {"image": image}, {"R": 8, "C": 10}, 0)["image"]
    assert np.shares_memory(rows, image)
    np.testing.assert_array_equal(rows, image[:10])
    corner = arguments(algorithm, {"image": image}, {"R": 8, "C": 5}, 0)["image"]
    np.testing.assert_array_equal(corner, image[:10, :7])
    assert corner.flags.c_contiguous


def refused(match: str, f: tm.Function, given: dict[str, Any], params: dict[str, int]) -> None:
    with pytest.raises(tm.ArgumentError, match=match):
        arguments(f.algorithm, given, params, 0)


def test_what_does_not_fit_is_refused() -> None:
    f, sizes = blur(), {"R": 8, "C": 10}
    refused("inputs has 'picture', which is no input of blur: image", f, {"picture": 0}, sizes)
    wrong = r"inputs has image of shape \(5, 5\); a run at these sizes needs at least \(10, 12\)"
    refused(wrong, f, {"image": np.zeros((5, 5))}, sizes)
    g = tm.Function("g", params=[R])
    g.input("index", tm.int64, [5], values=(3, R))
    refused("values of index are declared to be at least 3 and less than 2", g, {}, {"R": 2})
