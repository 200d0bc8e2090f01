"""Box blur on a GPU: derived transfers, synchronous transfers by hand, and transfers of rows that overlap with kernels.

The asynchronous schedule is that of figure 1-8 of J. M. Ray, "A Unified Compiler Backend for Distributed, Cooperative
Heterogeneous Execution" (MIT, 2018): a row at a time is copied in, computed and copied out, on three sequences.
"""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1, y, x = tm.iters("r c r0 c0 r1 c1 y x")


def algorithm(memory: tm.Memory = tm.HOST) -> tuple[tm.Function, tm.Input, tm.Computation, tm.Computation]:
    """Two stages, across and down; the caller's pictures are in host or GPU memory."""
    f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2], memory=memory)
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    by.store_in(memory)
    return f, image, bx, by


def derived() -> tm.Function:
    """The short way: two kernels; the copies around them are derived."""
    f, _, bx, by = algorithm()
    for stage in (bx, by):
        stage.gpu_tile(r, c, 4, 64, r0, c0, r1, c1)
    f.derive_transfers()
    return f


def fused() -> tm.Function:
    """One kernel: each block keeps the rows of bx that it needs in shared memory."""
    f, _, bx, by = algorithm()
    by.gpu_tile(r, c, 16, 64, r0, c0, r1, c1)
    bx.compute_at(by, c0)
    bx.store_in(tm.SHARED)
    bx.split(r, 16, y, r1)
    bx.split(c, 64, x, c1)
    bx.tag_gpu(threads=[r1, c1])
    f.derive_transfers()
    return f


def in_registers(memory: tm.Memory = tm.HOST) -> tm.Function:
    """One kernel without shared memory: each thread computes part of a column, with 18 values of bx in registers."""
    f, _, bx, by = algorithm(memory)
    by.tile(r, c, 16, 128, r0, c0, r1, c1)
    by.reorder(r0, c0, c1, r1)
    by.tag_gpu(blocks=[r0, c0], threads=[c1])
    by.unroll(r1)
    bx.compute_at(by, c1)
    bx.store_in(tm.REGISTER)
    f.derive_transfers()
    return f


def by_rows(mode: tm.Mode) -> tm.Function:
    """One transfer for each row, before and after the row's kernels."""
    f, image, bx, by = algorithm()
    h2d = f.create_xfer({r: R + 2, c: C + 2}, image[r, c], tm.CPU2GPU, mode, stream=1, name="h2d")
    d2h = f.create_xfer({r: R, c: C}, by[r, c], tm.GPU2CPU, mode, stream=2, name="d2h")
    h2d.collapse_many(c)
    d2h.collapse_many(c)
    for stage in (bx, by):
        stage.split(c, 64, c0, c1)
        stage.tag_gpu(blocks=[c0], threads=[c1], stream=0)
    by_done = by.wait({r: R}, on=2)
    if mode is tm.ASYNC:
        h2d_done = h2d.wait({r: R + 2}, on=0)
        finished = d2h.wait()
        f.order(h2d, h2d_done, bx, at=r)
        f.order(by, by_done, d2h, at=r)
        f.order(bx, by, finished, at=tm.root)
    else:
        f.order(h2d, bx, at=r)
        f.order(by, by_done, d2h, at=r)
        f.order(bx, by, at=tm.root)
    return f


def synchronous() -> tm.Function:
    """The host waits for each row."""
    return by_rows(tm.SYNC)


def asynchronous() -> tm.Function:
    """Rows are copied in while others are computed, and others copied out."""
    return by_rows(tm.ASYNC)


VARIANTS = {
    "derived": derived,
    "fused": fused,
    "in registers": in_registers,
    "synchronous": synchronous,
    "asynchronous": asynchronous,
}


def sample(size: int, seed: int) -> dict[str, np.ndarray]:
    """A random picture of about `size` x `size`."""
    return {"image": np.random.default_rng(seed).random((size + 2, size + 7), dtype=np.float32)}


if __name__ == "__main__":
    tell(VARIANTS, sample, (1, 100))
