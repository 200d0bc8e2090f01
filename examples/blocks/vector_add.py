"""Triton's tutorials 01 and 04: a sum of vectors, and dropout whose mask is drawn again where it is needed again.

Lines that differ from Triton's are marked: arrays in the place of pointers, `other=` of masked lanes, the size from the
array. What a forgotten mask would read is refused, with the first element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

(N,) = tm.params("N")


@tm.jit
def add(X, Y, Out, BLOCK: tl.constexpr, MASKED: tl.constexpr = True):  # no n_elements, no pointers
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < (X.shape[0] if MASKED else X.shape[0] + 1)
    x = tl.load(X[i], mask=inside, other=0)  # x_ptr + offsets is X[i] or X + i; other= is needed
    y = tl.load(Y + i, mask=inside, other=0)
    tl.store(Out[i], x + y, mask=i < X.shape[0])


@tm.jit
def dropout(X, Out, keep, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < X.shape[0]
    x = tl.load(X[i], mask=inside, other=0)
    kept = tl.rand(seed, i) < keep  # the numbers of Triton: Philox 4x32
    tl.store(Out[i], tl.where(kept, x / keep, 0.0), mask=inside)


def sum_of_vectors(**constants: Any) -> tuple[tm.Function, Any]:
    f = tm.Function("sum_of_vectors", params=[N])
    x, y = f.input("x", tm.float32, [N]), f.input("y", tm.float32, [N])
    out = f.array("out", tm.float32, [N])
    run = add[tl.cdiv(N, 256)](x, y, out, BLOCK=256, **constants)
    f.outputs(out)
    return f, run


if __name__ == "__main__":
    x, y = np.random.default_rng(0).normal(size=(2, 1000)).astype(np.float32)
    f, run = sum_of_vectors()
    tm.recipes.blocks(run, on=tm.cores())
    assert f.check().ok
    np.testing.assert_array_equal(f.compile()(x, y), x + y)
    (violation,) = sum_of_vectors(MASKED=False)[0].check().violations[:1]
    print(violation)
    assert violation.kind == "bounds"
    out, again = np.empty_like(x), np.empty_like(x)
    add[lambda meta: (tl.cdiv(1000, meta["BLOCK"]),)](x, y, out, BLOCK=128)
    np.testing.assert_array_equal(out, x + y)
    dropout[8](x, out, 0.5, 123, BLOCK=128)
    dropout.interpret[16](x, again, np.float32(0.5), 123, BLOCK=64)  # other programs, the same numbers
    np.testing.assert_array_equal(out, again)
    assert 400 < np.count_nonzero(out) < 600 and np.array_equal(out[out != 0], 2 * x[out != 0])
    print("right: x + y, and half of x, doubled")
