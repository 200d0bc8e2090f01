"""Negative and brighter: two results from one read of the bytes, the second 1.5 times as bright, at most 255."""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")
LINE = 64  # bytes of a cache line: results are stored line by line


def algorithm() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """All bytes of a picture, one after the other."""
    f = tm.Function("negative", params=[N])
    image = f.input("image", tm.uint8, [N])
    inverse = f.computation("inverse", {i: N}, 255 - image[i])
    wide = tm.cast(tm.uint16, image[i])
    brighter = f.computation("brighter", {i: N}, tm.cast(tm.uint8, tm.minimum(wide + (wide >> 1), 255)))
    f.outputs(inverse, brighter)
    return f, inverse, brighter


def scheduled(*, block: int = 500 * LINE, streams: bool = True) -> tm.Function:
    """A cache line at a time, both results in one loop; large pictures are written with non-temporal stores.

    Where a vector is no whole line, a line is several, side by side.
    """
    f, inverse, brighter = algorithm()
    for stage in (inverse, brighter):
        stage.split(i, block, i0, i1)
        stage.parallelize(i0)
        stage.vectorize(i1, LINE, remainder="mask")
        if streams:
            stage.store_nontemporal()
    brighter.after(inverse, i1)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """Random colours."""
    return {"image": np.random.default_rng(0).integers(0, 256, rows * columns * 3, dtype=np.uint8)}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
