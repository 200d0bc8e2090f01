"""Box blur on a GPU and on the cores beside it, at the same time: rows 0 to G on the GPU, the others on the cores.

The split is a parameter, so that it can be tuned without compiling again. Figures 1-7 to 1-9 of J. M. Ray, "A Unified
Compiler Backend for Distributed, Cooperative Heterogeneous Execution" (MIT, 2018), do the same.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C, G = tm.params("R C G")
r, c, r_chunk = tm.iters("r c r_chunk")


def algorithm() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Two stages, across and down; the number of rows for GPUs is a parameter."""
    f = tm.Function("blur", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return f, bx, by


def at_once() -> tm.Function:
    """One kernel for the GPU's rows, one nest for the cores' rows; no values pass between the two."""
    f, bx, by = algorithm()
    by.partition(r, [G], [tm.gpu(tile=(4, 64)), tm.cores(vector=16)])
    bx.inline()
    f.derive_transfers()
    return f


def in_stages() -> tm.Function:
    """Both stages are split at the same row: the GPU needs two rows that the cores compute."""
    f, bx, by = algorithm()
    for stage in (bx, by):
        stage.partition(r, [G], [tm.gpu(tile=(4, 64)), tm.cores(vector=16)])
    f.derive_transfers()
    return f


def pipelined() -> tm.Function:
    """The GPU's rows are processed in chunks of 16: one is copied in, one computed, one copied out at a time."""
    f, bx, by = algorithm()
    by.partition(r, [G], [tm.gpu(tile=(4, 64), chunk=16), tm.cores(vector=16)])
    bx.inline()
    f.derive_transfers(pipeline=r_chunk)
    return f


def two_gpus() -> tm.Function:
    """Two GPUs, each with half of the rows for GPUs."""
    f, bx, by = algorithm()
    by.partition(r, [G // 2, G], [tm.gpu(0, tile=(4, 64)), tm.gpu(1, tile=(4, 64)), tm.cores(vector=16)])
    bx.inline()
    f.derive_transfers(overlap=True)
    return f


VARIANTS = {"at once": at_once, "in stages": in_stages, "pipelined": pipelined, "two GPUs": two_gpus}
SPLITS = (0.0, 0.02, 0.5, 0.9, 1.0)


def sample(split: float, size: int, seed: int) -> Arguments:
    """A random picture of `size` rows, and the number of rows for a GPU."""
    image = np.random.default_rng(seed).random((size + 2, size + 7), dtype=np.float32)
    return {"image": image, "G": round(split * size)}


if __name__ == "__main__":
    tell(VARIANTS, sample, SPLITS, 99)
