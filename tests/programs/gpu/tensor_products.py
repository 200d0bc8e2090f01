"""Products on tensor cores: each thread of a warp has its share of a tile, as the instruction deals it out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import tiramisu_py as tm

M, N, K = tm.params("M N K")
i, j, k, i0, i1, i2, j0, j1, j2, j3, jj, k0, k1, k2, w, h, y, x, p, r, c, h0, x0 = tm.iters(
    "i j k i0 i1 i2 j0 j1 j2 j3 jj k0 k1 k2 w h y x p r c h0 x0"
)
#: Instructions with a type that they multiply.
KINDS = {
    "float16": (tm.float16, "m16n8k16"), "bfloat16": (tm.bfloat16, "m16n8k16"), "float16 in 8": (tm.float16, "m16n8k8"),
    "tf32": (tm.float32, "m16n8k8.tf32"),
}  # fmt: skip


def product(
    kind: str = "float16",
    warps: int = 1,
    *,
    tensorized: bool = True,
    shared: bool = True,
    barriers: bool = True,
    threads: str = "xy",
    memory: tm.Memory = tm.REGISTER,
) -> tuple[tm.Function, tm.Reduction]:
    """C = A B: a warp has 16 rows and 16 columns, in two tiles of 8."""
    dtype, instruction = KINDS[kind]
    f = tm.Function("product", params=[M, N, K], assume="M >= 1 and N >= 1 and K >= 1")
    A, B = f.input("A", dtype, [M, K]), f.input("B", dtype, [K, N])
    total = f.reduction("total", {i: M, j: N}, {k: K}, tm.sum, wide(A[i, k]) * wide(B[k, j]))
    C = f.computation("C", {i: M, j: N}, total[i, j])
    f.outputs(C)
    C.split(i, 16 * warps, i0, i1).split(i1, 16, w, i2).split(i2, 8, h, y)
    C.split(j, 16, j0, j1).split(j1, 8, j2, j3).split(j3, 2, x, p)
    within = [w, y, x] if threads == "xy" else [w, x, y]
    C.reorder(i0, j0, *within, j2, h, p)
    C.tag_gpu(blocks=[i0, j0], threads=within, barriers=barriers)
    total.compute_at(C, within[-1])
    total.store_in(memory)
    for part in (total.init, total.update):  # the rows and columns of a thread, as loops of two
        part.split(i, 8, h, h0).split(j, 8, jj, j3).split(j3, 2, x0, p)
    total.init.reorder(h0, x0, jj, h, p)
    terms = 16 if instruction == "m16n8k16" else 8
    total.update.split(k, 16, k0, k1).split(k1, terms, k1, k2) if terms < 16 else total.update.split(k, 16, k0, k2)
    around = (k0, k1) if terms < 16 else (k0,)
    total.update.reorder(*around, h0, x0, jj, h, p, k2)
    if shared:
        total.update.copy(A, [r, c], at=k0, into=tm.SHARED)
        total.update.copy(B, [r, c], at=k0, into=tm.SHARED)
    total.update.unroll(jj)
    if tensorized:
        total.update.tensorize(h, p, k2, instruction)
    f.derive_transfers()
    return f, total


def wide(e: tm.Expr) -> tm.Expr:
    """A factor in the type of the sums."""
    return e if e.dtype == tm.float32 else tm.cast(tm.float32, e)


def numbers(kind: str, m: int, n: int, terms: int, seed: int = 0) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    dtype = KINDS[kind][0].numpy
    return rng.integers(-8, 9, (m, terms)).astype(dtype), rng.integers(-8, 9, (terms, n)).astype(dtype)


def exact(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The product in NumPy."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
