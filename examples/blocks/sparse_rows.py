"""Softmax of the rows of sparse blocks: how many blocks a row has is known from a table alone.

Masks compare what is loaded, and programs store to runs of the table: its declared order keeps them apart, and each
call verifies it. A program that goes on into the next run is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

W, Z = tm.params("W Z")


@tm.jit
def rows(start, X, Y, B: tl.constexpr, LANES: tl.constexpr, ENDS: tl.constexpr = True):
    r, m, lane = tl.program_id(0) // B, tl.program_id(0) % B, tl.arange(0, LANES)
    block = tl.load(start[r]) + lane // B
    inside = block < tl.load(start[r + 1])
    x = tl.load(X[block, m, lane % B], mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y[block, m, lane % B], e / tl.sum(e, axis=0), mask=inside if ENDS else lane < LANES)


def softmax(**constants: Any) -> tuple[tm.Function, Any]:
    f = tm.Function("sparse_rows", params=[W, Z])
    table = f.input("table", tm.int32, [W + 1], values=(0, Z + 1), monotone=True)
    x, y = f.input("x", tm.float32, [Z, 8, 8]), f.array("y", tm.float32, [Z, 8, 8], partial=True)
    run = rows[8 * W](table, x, y, B=8, LANES=32, **constants)
    f.outputs(y)
    return f, run


if __name__ == "__main__":
    table = np.array([0, 3, 3, 5], np.int32)
    x = np.random.default_rng(2).normal(size=(5, 8, 8)).astype(np.float32)
    parts = [np.exp(x[a:b]) for a, b in ((0, 3), (3, 5))]
    expected = np.concatenate([each / each.sum(axis=(0, 2), keepdims=True) for each in parts])
    f, run = softmax()
    tm.recipes.blocks(run, on=tm.cores())
    print(f.check())
    call = f.compile()
    np.testing.assert_allclose(call(table, x), expected, rtol=1e-5)
    for wrong in (lambda: softmax(ENDS=False), lambda: call(np.array([0, 3, 2, 5], np.int32), x)):
        try:
            wrong()
        except (tm.DeclarationError, tm.ArgumentError) as error:
            print(f"refused: {error}")
        else:
            raise SystemExit("runs that overlap were accepted")
    print("right: the softmax of each row of blocks, and runs that overlap are refused")
