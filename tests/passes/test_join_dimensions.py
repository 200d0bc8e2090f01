"""Dimensions become one where elements are found by digits of one number, and stay where something else needs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.interpret import run
from tiramisu_py.ir import ArrayArgument
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise

N = tm.params("N")[0]
i, j, k, n = tm.iters("i j k n")


def extents(f: tm.Function, name: str) -> list[str]:
    """The extents by which the code indexes an array."""
    arguments = optimise(lower(f.completed)).arguments
    return next([*map(str, a.extents)] for a in arguments if isinstance(a, ArrayArgument) and a.name == name)


def copied(**options: Any) -> tuple[tm.Function, tm.Computation]:
    f = tm.Function("copied", params=[N])
    a = f.input("a", tm.float32, [N, 3, 5], **options)
    o = f.computation("o", {i: N, j: 3, k: 5}, a[i, j, k] + 1)
    f.outputs(o)
    return f, o


def test_all_dimensions_become_one_and_callers_pass_the_same_shape() -> None:
    f, o = copied()
    assert extents(f, "a") == ["N", "3", "5"]
    o.coalesce(i, j, k, into=n)
    (array,) = (a for a in optimise(lower(f.completed)).arguments if a.name == "a")
    assert isinstance(array, ArrayArgument)
    assert [*map(str, array.extents)] == ["15 * N"] and [*map(str, array.passed_extents)] == ["N", "3", "5"]
    assert "TM_BYTES(float, 15, N)" in f.source()["copied.c"]


def test_dimensions_that_no_loop_has_joined_stay() -> None:
    f, o = copied()
    o.coalesce(j, k, into=n)
    assert extents(f, "o") == ["N", "15"]


@pytest.mark.parametrize("options", [{"strides": [20, 5, 1]}])
def test_arrays_with_strides_keep_their_dimensions(options: dict[str, Any]) -> None:
    f, o = copied(**options)
    o.coalesce(i, j, k, into=n)
    assert extents(f, "a") == ["N", "3", "5"]
    assert extents(f, "o") == ["15 * N"]


def test_an_array_that_is_also_read_elsewhere_keeps_what_that_needs() -> None:
    f = tm.Function("both", params=[N])
    a = f.input("a", tm.float32, [N, 3, 5])
    o = f.computation("o", {i: N, j: 3, k: 5}, a[i, j, k] + 1)
    p = f.computation("p", {i: N, j: 3}, a[i, 2 - j, i % 5])
    f.outputs(o, p)
    o.coalesce(i, j, k, into=n)
    assert f.check().ok
    assert extents(f, "a") == ["15 * N"]


def test_a_kernel_finds_elements_of_joined_loops_without_divisions() -> None:
    f, o = copied()
    o.coalesce(i, j, k, into=n)
    o.split(n, 64, i, j)
    o.tag_gpu(blocks=[i], threads=[j])
    f.derive_transfers()
    function = optimise(lower(f.completed))
    kernel = function.gpus.kernels[0]
    (array,) = (a for a in kernel.arrays if a.name == "a")
    assert [*map(str, array.extents)] == ["15 * N"] and [*map(str, array.passed_extents)] == ["N", "3", "5"]
    assert "a[64*i + j]" in f.source()["copied.cu"]
    given = np.arange(7 * 15, dtype=np.float32).reshape(7, 3, 5)
    found = np.zeros_like(given)
    run(function, {"a": given, "o": found}, {"N": 7})
    np.testing.assert_array_equal(found, given + 1)
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(given), given + 1)


def test_dimensions_of_what_messages_take_stay() -> None:
    """The elements of a message are boxes of its array (found by scripts/fuzz, whole 133006144)."""
    y0, y1 = tm.iters("y0 y1")
    f = tm.Function("sent", params=[N])
    a = f.input("a", tm.int16, [N + 4, 5])
    o = f.reduction("o", {}, {n: N + 2}, tm.sum, a.reshape([-1])[n + 5])
    f.outputs(o)
    a.distribute_array([y0, y1], rank=y0)
    f.derive_transfers()
    f.compile()
