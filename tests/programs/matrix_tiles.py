"""Products for instructions on small matrices, of bytes and of 16-bit floats, and what they are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import tiramisu_py as tm

N, M, K = tm.params("N M K")
i, j, k, i0, i1, i2, i3, j0, j1, j2, j3, k0, k1 = tm.iters("i j k i0 i1 i2 i3 j0 j1 j2 j3 k0 k1")
Array = npt.NDArray[Any]


def product(
    first: tm.DType = tm.uint8,
    second: tm.DType = tm.int8,
    total: tm.DType = tm.int32,
    *,
    panels: bool = True,
    tensorized: bool = True,
    across: int = 2,
) -> tuple[tm.Function, tm.Reduction]:
    """C = A B in blocks of `across` by `across` tiles; B lies in panels, groups of 4 bytes of a column together."""
    group, terms = 4 // first.bytes, 64 // first.bytes
    f = tm.Function("product", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 1")
    A, B = f.input("A", first, [N, K]), f.input("B", second, [K, M])
    right = f.computation("right", {k: K, j: M}, B[k, j])
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, tm.cast(total, A[i, k]) * tm.cast(total, right[k, j]))
    f.outputs(C)
    if panels:
        memory = tm.Buffer("panels", [(M + 15) // 16, (K + group - 1) // group, 16, group], second)
        right.store_in(memory, [j // 16, k // group, j % 16, k % group])
    update = C.update
    update.split(i, 16 * across, i0, i1).split(i1, 16, i2, i3)
    update.split(j, 16 * across, j0, j1).split(j1, 16, j2, j3)
    update.split(k, terms, k0, k1)
    update.reorder(i0, j0, k0, i2, j2, i3, j3, k1)
    update.unroll(i2).unroll(j2)
    if tensorized:
        update.tensorize(i3, j3, k1, "amx")
    return f, C


def drawn(dtype: tm.DType, shape: tuple[int, ...], seed: int) -> Array:
    """Any bytes, or floats around 1."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    low, high = dtype.limits
    return rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)


def multiplied(a: Array, b: Array) -> Array:
    """The product in NumPy: sums of 32 bits, or in float64."""
    if a.dtype.kind in "iu":
        return np.asarray(a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64))
