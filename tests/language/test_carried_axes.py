"""What one loop carries is computed in one loop, though some of it does not depend on all axes of the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import numbers

N, M, K = tm.params("N M K")
T = 2


@tm.jit
def falling(A, B, Y, T: tl.constexpr, SPLIT: tl.constexpr):
    """The largest term of a row so far depends on rows alone, the sum on columns too."""
    rm, rn = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    top, acc = tl.zeros((T,), tl.float32), tl.zeros((T, T), tl.float32)
    for k in tl.range(tl.program_id(2), A.shape[1], SPLIT):
        a = tl.load(A[rm, k], mask=rm < A.shape[0], other=0)
        b = tl.load(B[k, rn], mask=rn < B.shape[1], other=0)
        high = tl.maximum(top, a)
        acc = acc + a[:, None] * b[None, :] - (high - top)[:, None]
        top = high
    inside = (rm[:, None] < A.shape[0]) & (rn[None, :] < B.shape[1])
    tl.accumulate(Y[rm[:, None], rn[None, :]], acc, mask=inside, combine=tm.ORDERED)


@tm.jit
def beside(A, B, Y, T: tl.constexpr):
    """Two sums, one of rows, one of rows and columns."""
    rm, rn = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    total, acc = tl.zeros((T,), tl.float32), tl.zeros((T, T), tl.float32)
    for k in tl.range(0, A.shape[1]):
        a = tl.load(A[rm, k], mask=rm < A.shape[0], other=0)
        total += a
        acc += a[:, None] * tl.load(B[k, rn], mask=rn < B.shape[1], other=0)[None, :]
    inside = (rm[:, None] < A.shape[0]) & (rn[None, :] < B.shape[1])
    tl.store(Y[rm[:, None], rn[None, :]], acc + total[:, None], mask=inside)


def launched(kernel: Any, split: int) -> tuple[tm.Function, Any]:
    f = tm.Function("f", params=[N, M, K])
    a, b, y = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, M]), f.array("y", tm.float32, [N, M])
    constants = {"SPLIT": split} if kernel is falling else {}
    run = kernel[tl.cdiv(N, T), tl.cdiv(M, T), split](a, b, y, T=T, **constants)
    f.outputs(y)
    return f, run


def expected(kernel: Any, split: int, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if kernel is beside:
        return a @ b + a.sum(1, keepdims=True)
    tops = sum(np.max(a[:, s::split], axis=1, initial=0) for s in range(split))
    return a @ b - np.reshape(tops, (-1, 1))


@pytest.mark.parametrize(("kernel", "split"), [(falling, 2), (beside, 1)], ids=["recurrence", "sum"])
def test_a_carried_value_of_fewer_programs_is_in_the_loop_of_the_others(kernel: Any, split: int) -> None:
    f, run = launched(kernel, split)
    tm.recipes.blocks(run, on=tm.cores())
    assert "K" not in "".join(line for line in f.show("pseudocode").splitlines() if "allocate" in line)
    report = f.check()
    assert report.ok, report
    a, b = numbers(5, 7), numbers(7, 3)
    np.testing.assert_array_equal(f.evaluate(a, b), expected(kernel, split, a, b))
    np.testing.assert_array_equal(f.compile()(a, b), expected(kernel, split, a, b))
