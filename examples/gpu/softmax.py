"""Softmax of each row in one kernel: one block for each row, with the row's maximum and sum in shared memory."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, lane, part, thread = tm.iters("r c lane part thread")
THREADS = 128


def in_shared_memory() -> tm.Function:
    """Each thread takes every 128th element of the row; partial results are combined by thread, then by block."""
    f = tm.Function("softmax", params=[R, C], assume="C >= 1")
    x = f.input("x", tm.float32, [R, C])
    parts = {part: (C + THREADS - 1) // THREADS}
    at = THREADS * part + lane
    largest = f.reduction("largest", {r: R, lane: THREADS}, parts, tm.max, x[r, at], where=at < C)
    top = f.reduction("top", {r: R}, {lane: THREADS}, tm.max, largest[r, lane])
    e = f.computation("e", {r: R, c: C}, tm.exp2(x[r, c] - top[r]))
    partial = f.reduction("partial", {r: R, lane: THREADS}, parts, tm.sum, e[r, at], where=at < C)
    total = f.reduction("total", {r: R}, {lane: THREADS}, tm.sum, partial[r, lane])
    y = f.computation("y", {r: R, c: C}, e[r, c] / total[r])
    f.outputs(y)

    for stage in (e, y):
        stage.split(c, THREADS, part, thread)
    f.order(largest, top, e, partial, total, y, at=r)
    y.tag_gpu(blocks=[r], threads=[thread])
    e.tag_gpu(threads=[thread])
    for stage in (largest, partial):
        stage.tag_gpu(threads=[lane])
    for stage in (largest, top, partial, total):
        stage.store_in(tm.SHARED)
        stage.store_at(y, r)
    f.derive_transfers()
    return f


VARIANTS = {"in shared memory": in_shared_memory}


def sample(size: int, seed: int) -> dict[str, np.ndarray]:
    """Random rows of whole numbers, whose powers of two are exact on every device."""
    numbers = np.random.default_rng(seed).integers(-9, 10, (size, size * size))
    return {"x": numbers.astype(np.float32)}


if __name__ == "__main__":
    tell(VARIANTS, sample, (1, 20))
