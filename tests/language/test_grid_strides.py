"""Loops in which a program takes each n-th block: proven for constant steps, refused for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers


@tm.jit
def strided(X, Y, B: tl.constexpr, STEP: tl.constexpr):
    N = X.shape[0]
    for k in tl.range(tl.program_id(0), tl.cdiv(N, B), STEP):
        i = k * B + tl.arange(0, B)
        tl.store(Y[i], tl.load(X[i], mask=i < N, other=0) * 2, mask=i < N)


@tm.jit
def by_the_grid(X, Y, B: tl.constexpr):
    N = X.shape[0]
    for k in tl.range(tl.program_id(0), tl.cdiv(N, B), tl.num_programs(0)):
        i = k * B + tl.arange(0, B)
        tl.store(Y[i], tl.load(X[i], mask=i < N, other=0) * 2, mask=i < N)


def declared(kernel: Any, programs: Any, **constants: int) -> tuple[tm.Function, Any]:
    n, p = tm.params("N P")
    f = tm.Function("strided", params=[n, p] if programs is None else [n])
    x, y = f.input("x", tm.float32, [n]), f.array("y", tm.float32, [n])
    run = kernel[p if programs is None else programs](x, y, B=8, **constants)
    f.outputs(y)
    return f, run


@pytest.mark.parametrize(("kernel", "constants"), [(strided, {"STEP": 3}), (by_the_grid, {})])
def test_each_block_is_taken_once(kernel: Any, constants: dict[str, int]) -> None:
    f, run = declared(kernel, 3, **constants)
    assert f.check().ok, f.check()
    for size in (1, 8, 61):
        x = numbers(size)
        y = np.full_like(x, np.nan)
        kernel.interpret[3](x, y, B=8, **constants)
        np.testing.assert_array_equal(y, 2 * x)
        np.testing.assert_array_equal(f.evaluate(x), y)
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile()(x), y)


@pytest.mark.parametrize(("step", "kind", "words"), [(4, "algorithm", "no program stores y[24]"), (2, "race", "y[16]")])
def test_another_step_than_the_grid_is_refused_with_an_element(step: int, kind: str, words: str) -> None:
    f, _ = declared(strided, 3, STEP=step)
    (violation, *_) = f.check().violations
    assert violation.kind == kind and words in violation.message


def test_a_step_of_a_size_is_refused_with_what_to_write() -> None:
    with pytest.raises(tm.DeclarationError, match=r"in the loop of line \d+, whose step is no constant: give it one"):
        declared(by_the_grid, None)
