"""Heat in a plate and in a block: a host loop with a kernel for each time step; two copies of the grid on the GPU."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

T, N, M, L = tm.params("T N M L")
t, i, j, k, i0, j0, k0, i1, j1, k1, i2 = tm.iters("t i j k i0 j0 k0 i1 j1 k1 i2")


def plate(memory: tm.Memory = tm.HOST) -> tm.Function:
    """Two dimensions: each inner point moves towards its four neighbours."""
    f = tm.Function("plate", params=[T, N, M], assume="T >= 1 and N >= 3 and M >= 3")
    start = f.input("start", tm.float32, [N, M], memory=memory)
    edge = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == M - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: N, j: M},
        lambda h: tm.select(
            edge,
            start[i, j],
            h[t - 1, i, j] * 0.5
            + (h[t - 1, i - 1, j] + h[t - 1, i + 1, j] + h[t - 1, i, j - 1] + h[t - 1, i, j + 1]) * 0.125,
        ),
    )
    f.outputs(heat[T, i, j])
    f["heat_out"].store_in(memory)
    heat.store_in(tm.Buffer("two", [2, N, M], tm.float32), [t % 2, i, j])
    for stage in (heat, f["heat_out"]):  # 8 rows for each thread
        stage.tile(i, j, 8, 128, i0, j0, i1, j1)
        stage.tag_gpu(blocks=[i0, j0], threads=[j1])
        stage.unroll(i1)
    f.derive_transfers()
    return f


def block() -> tm.Function:
    """Three dimensions, and blocks in three dimensions."""
    f = tm.Function("block", params=[T, N, M, L], assume="T >= 1 and N >= 3 and M >= 3 and L >= 3")
    start = f.input("start", tm.float32, [N, M, L])
    edge = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == M - 1) | (k == 0) | (k == L - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: N, j: M, k: L},
        lambda h: tm.select(
            edge,
            start[i, j, k],
            h[t - 1, i, j, k] * 0.25
            + (h[t - 1, i - 1, j, k] + h[t - 1, i + 1, j, k]) * 0.125
            + (h[t - 1, i, j - 1, k] + h[t - 1, i, j + 1, k]) * 0.125
            + (h[t - 1, i, j, k - 1] + h[t - 1, i, j, k + 1]) * 0.125,
        ),
    )
    f.outputs(heat[T, i, j, k])
    heat.store_in(tm.Buffer("two", [2, N, M, L], tm.float32), [t % 2, i, j, k])
    for stage in (heat, f["heat_out"]):  # 8 planes for each thread
        stage.gpu_tile(i, j, k, 8, 4, 32, i0, j0, k0, i1, j1, k1)
        stage.coarsen(i1, 8, i2)
        stage.unroll(i2)
    f.derive_transfers()
    return f


VARIANTS = {"plate": plate, "block": block}


def sample(size: int, seed: int) -> dict[str, np.ndarray | int]:
    """A random start, and a number of steps."""
    return {"start": np.random.default_rng(seed).random((size + 2, size + 9), dtype=np.float32), "T": 3}


def sample_of(variant: str, size: int, seed: int) -> dict[str, np.ndarray | int]:
    """The arguments of one variant: a plate or a block."""
    plane = sample(size, seed)
    if variant == "plate":
        return plane
    return {**plane, "start": np.random.default_rng(seed).random((size + 2, size + 4, 40), dtype=np.float32)}


if __name__ == "__main__":
    for name, build in VARIANTS.items():
        tell({name: build}, lambda size, seed, variant=name: sample_of(variant, size, seed), (1, 20))
