"""Softmax of the rows of a matrix: a program a row, which never writes what it only needs in between.

The mask keeps lanes beyond the row away; a kernel without it is refused with the first element outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

M, N = tm.params("M N")


@tm.jit
def softmax(X, Y, LANES: tl.constexpr, MASKED: tl.constexpr = True, ONCE: tl.constexpr = False):
    """A program a row; with ONCE it divides once, and multiplies each element, which may differ in the last bit."""
    row, lane = tl.program_id(0), tl.arange(0, LANES)
    N = X.shape[1]
    x = tl.load(X[row, lane], mask=lane < (N if MASKED else N + 1), other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(e, axis=0)
    y = e * (1.0 / total) if ONCE else e / total
    tl.store(Y[row, lane], y, mask=lane < N)


def rows(**constants: Any) -> tuple[tm.Function, Any]:
    f = tm.Function("softmax", params=[M, N], assume="1 <= N <= 128")
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M, N])
    run = softmax[M](x, y, LANES=128, **constants)
    f.outputs(y)
    return f, run


if __name__ == "__main__":
    x = np.random.default_rng(0).normal(size=(50, 100)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    f, run = rows()
    tm.recipes.blocks(run, on=tm.cores())
    np.testing.assert_allclose(f.compile()(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    (violation, *_) = rows(MASKED=False)[0].check().violations
    print(violation)
    assert violation.kind == "bounds"
    y = np.empty_like(x)
    softmax[50](x, y, LANES=128)  # with arrays: proven, scheduled, compiled, kept
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
    print("right: softmax of the rows, and a forgotten mask is refused")
