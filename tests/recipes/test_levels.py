"""Every recipe for vectors of 16, 32 and 64 bytes, whatever the processor here has: run where it can be run.

Where it cannot, the proof has the schedule, and the interpreter its loops after each pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests import processors
from tests.programs.sparse import csr
from tests.recipes.test_spmv import given as of_rows
from tests.recipes.test_time_plans import field
from tiramisu_py import recipes
from tiramisu_py.recipes import Cpu
from tiramisu_py.toolchain import processor_for

M, N, K = tm.params("M N K")
i, j, k, t, u, v = tm.iters("i j k t u v")

#: The levels of x86-64 by the bytes of their vectors, and processors like them for recipes.
LEVELS = {16: "x86-64-v2", 32: "x86-64-v3", 64: "x86-64-v4"}
CPUS = {
    size: Cpu(vector_bytes=size, registers=32 if size == 64 else 16, first=32 << 10, second=512 << 10)
    for size in LEVELS
}
Given = dict[str, Any]
#: A function, and arguments for it.
Made = tuple[tm.Function, Given]


def numbers(*shape: int) -> Any:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(shape).integers(0, 9, shape).astype(np.float32)


def pointwise(cpu: Cpu) -> Made:
    f = tm.Function("f", params=[M, N])
    a = f.input("a", tm.float32, [M, N])
    p = f.computation("p", {i: M, j: N}, a[i, j] + 1)
    q = f.computation("q", {i: M, j: N}, p[i, j] * a[i, j])
    f.outputs(q)
    recipes.pointwise(p, q, cpu=cpu)
    return f, {"a": numbers(3, 19)}


def stencil(cpu: Cpu) -> Made:
    f = tm.Function("f", params=[M, N])
    a = f.input("a", tm.float32, [M + 2, N + 2])
    down = f.computation("down", {i: M, j: N + 2}, a[i, j] + a[i + 1, j] + a[i + 2, j])
    across = f.computation("across", {i: M, j: N}, down[i, j] + down[i, j + 1] + down[i, j + 2])
    f.outputs(across)
    recipes.stencil(down, across, cpu=cpu)
    return f, {"a": numbers(12, 21)}


def time_stencil(cpu: Cpu) -> Made:
    f, u = field(1)
    recipes.time_stencil(u, cpu=cpu)
    return f, {"start": np.random.default_rng(0).random(37, np.float32), "T": 5}


def matmul(cpu: Cpu) -> Made:
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    c = f.reduction("c", {i: M, j: N}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    recipes.matmul(c, cpu=cpu)
    return f, {"a": numbers(9, 7), "b": numbers(7, 18)}


def convolution(cpu: Cpu) -> Made:
    f = tm.Function("f", params=[M, N])
    picture, weights = f.input("picture", tm.float32, [M + 2, N + 2, 3]), f.input("weights", tm.float32, [3, 3, 3, 8])
    total = f.reduction(
        "total", {i: M, j: N, k: 8}, {u: 3, v: 3, t: 3}, tm.sum, picture[i + u, j + v, t] * weights[u, v, t, k]
    )
    result = f.computation("result", {i: M, j: N, k: 8}, tm.maximum(total[i, j, k], 0))
    f.outputs(result)
    recipes.convolution(result, cpu=cpu)
    return f, {"picture": numbers(4, 9, 3), "weights": numbers(3, 3, 3, 8)}


def columns(cpu: Cpu) -> Made:
    f = tm.Function("f", params=[M, N])
    y = f.reduction("y", {j: N}, {i: M}, tm.sum, f.input("a", tm.float32, [M, N])[i, j])
    f.outputs(y)
    recipes.reduction(y, cpu=cpu)
    return f, {"a": numbers(11, 21)}


def rows(cpu: Cpu) -> Made:
    f = tm.Function("f", params=[M, N])
    y = f.reduction("y", {i: M}, {j: N}, tm.max, f.input("a", tm.float32, [M, N])[i, j])
    f.outputs(y)
    recipes.reduction(y, cpu=cpu)
    return f, {"a": numbers(3, 70)}


def rows_of_pairs(cpu: Cpu) -> Made:
    """Values of 12 bytes, of which no vector holds a power of two."""
    f = tm.Function("f", params=[M, N], assume="M >= 1")
    y = f.reduction("y", {j: N}, {i: M}, tm.argmin, f.input("a", tm.float32, [M, N])[i, j])
    f.outputs(y)
    recipes.reduction(y, cpu=cpu)
    return f, {"a": numbers(11, 21)}


def spmv(cpu: Cpu) -> Made:
    f, y = csr()
    recipes.spmv(y, cpu=cpu)
    return f, of_rows([3, 0, 21, 8])


@dataclass(frozen=True)
class Case:
    """A recipe applied to a small program."""

    make: Callable[[Cpu], Made]

    def __str__(self) -> str:
        return self.make.__name__


CASES = [
    Case(make) for make in (pointwise, stencil, time_stencil, matmul, convolution, columns, rows, rows_of_pairs, spmv)
]


def can_run(size: int) -> bool:
    """Whether the host runs code for the level with vectors of this size."""
    return processors.toolchain(None).is_x86 and not processor_for(LEVELS[size]).obstacle


@pytest.mark.parametrize("size", LEVELS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_recipe_is_right_for_each_size_of_vectors(case: Case, size: int) -> None:
    f, given = case.make(CPUS[size])
    assert f.commands and f.check().ok
    if not can_run(size):
        assert f.validate(**given, vector_bytes=size)[0] == "lowering"
        return
    found, expected = f.compile(target=LEVELS[size], threads=2)(**given), f.evaluate(**given)
    for one, other in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", [each for each in CASES if each.make is not rows_of_pairs], ids=str)
def test_each_size_of_vectors_has_commands_of_its_own(case: Case) -> None:
    """So that the test above is of three schedules; columns of pairs have as many lanes as a cache line, always."""
    made = {size: case.make(cpu)[0] for size, cpu in CPUS.items()}
    assert len({tuple(map(str, f.commands)) for f in made.values()}) > 1
