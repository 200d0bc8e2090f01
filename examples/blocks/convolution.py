"""Listing 5.8 of the thesis that Triton comes from: a convolution as a product of matrices that are never made.

Rows are the pixels of all images, terms the channels under each weight of the filter; a program computes a block of
pixels for a block of channels. Filters may be strided, and pictures are padded with zeros by the mask alone.
The listing has a table of the distances of places in the next block of terms (ADELTA); here places are written as they
are, and what an iteration adds is found by the compiler.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020), 5.4.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

Z, CI, CO = tm.params("Z CI CO")


@tm.jit
def conv(
    A, B, C, P: tl.constexpr, Q: tl.constexpr, R: tl.constexpr, S: tl.constexpr, PAD: tl.constexpr,
    STRIDE: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):  # fmt: skip
    images, channels, H, W = A.shape
    results = B.shape[3]
    M, K = images * P * Q, channels * R * S
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    z, p, q = rm[:, None] // (P * Q), rm[:, None] // Q % P, rm[:, None] % Q  # aggregate rows m = (z, p, q)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in tl.range(0, K, TK):
        rk = k + tl.arange(0, TK)
        ci, r, s = rk // (R * S), rk // S % R, rk % S  # aggregate terms k = (ci, r, s)
        h, w = p * STRIDE - PAD + r, q * STRIDE - PAD + s
        seen = (rm[:, None] < M) & (rk < K) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        a = tl.load(A[z, ci, h, w], mask=seen, other=0)
        column = rk[:, None]
        b = tl.load(B[column // (R * S), column // S % R, column % S, rn], mask=(column < K) & (rn < results), other=0)
        acc = tl.dot(a, b, acc)
    tl.store(C[rm[:, None], rn], acc, mask=(rm[:, None] < M) & (rn < results))


def convolved(
    size: tuple[int, int] = (5, 6), filters: tuple[int, int] = (3, 2), pad: int = 1, stride: int = 1,
    tiles: tuple[int, int, int] = (16, 8, 8),
) -> tuple[tm.Function, Any]:  # fmt: skip
    """The convolution of images of one size; how many images and channels there are is open."""
    (H, W), (R, S) = size, filters
    P, Q = ((extent + 2 * pad - weights) // stride + 1 for extent, weights in zip(size, filters, strict=True))
    f = tm.Function("convolved", params=[Z, CI, CO])
    a, b = f.input("a", tm.float32, [Z, CI, H, W]), f.input("b", tm.float32, [CI, R, S, CO])
    c = f.array("c", tm.float32, [Z * P * Q, CO])  # a row for each pixel: the memory of [Z, P, Q, CO]
    rows, columns, terms = tiles
    run = conv[tl.cdiv(Z * P * Q, rows), tl.cdiv(CO, columns)](
        a, b, c, P=P, Q=Q, R=R, S=S, PAD=pad, STRIDE=stride, TM=rows, TN=columns, TK=terms
    )
    f.outputs(c)
    return f, run


def by_numpy(a: Any, b: Any, pad: int, stride: int) -> Any:
    """The convolution in NumPy, weight by weight, with a row for each pixel."""
    _, R, S, results = b.shape
    a = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    P, Q = ((extent - weights) // stride + 1 for extent, weights in zip(a.shape[2:], (R, S), strict=True))
    found = np.zeros((len(a), P, Q, results), a.dtype)
    for r in range(R):
        for s in range(S):
            part = a[:, :, r : r + stride * P : stride, s : s + stride * Q : stride]
            found += np.einsum("zcpq,cn->zpqn", part, b[:, r, s])
    return found.reshape(-1, results)


if __name__ == "__main__":
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 3, 5, 6), (3, 3, 2, 9)))
    for pad, stride in ((1, 1), (0, 1), (1, 2)):
        f, run = convolved(pad=pad, stride=stride)
        tm.recipes.blocks(run, on=tm.cores())
        assert f.check().ok, f.check()
        np.testing.assert_array_equal(f.compile()(a, b), by_numpy(a, b, pad, stride))
    print("right: convolutions with padding and strides, without a matrix of patches")
