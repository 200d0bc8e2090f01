"""Colour to grey in integers, as OpenCV does it: bytes in, bytes out, fixed-point weights in between."""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")
LINE = 64  # bytes of a cache line: results are stored line by line
RED, GREEN, BLUE, BITS = 4899, 9617, 1868, 14  # 0.299, 0.587 and 0.114 of 2 ** 14


def algorithm() -> tuple[tm.Function, tm.Computation]:
    """A flat sequence of pixels: the ends of rows make no difference."""
    f = tm.Function("grey", params=[N])
    rgb = f.input("rgb", tm.uint8, [N, 3])
    red, green, blue = (tm.cast(tm.int32, rgb[i, channel]) for channel in range(3))
    weighted = RED * red + GREEN * green + BLUE * blue + (1 << (BITS - 1))
    brightness = f.computation("brightness", {i: N}, tm.cast(tm.uint8, weighted >> BITS))
    f.outputs(brightness)
    return f, brightness


def scheduled(*, block: int = 64000, streams: bool = True) -> tm.Function:
    """A cache line at a time, blocks of 64,000 on the threads; large pictures are written with non-temporal stores."""
    f, brightness = algorithm()
    brightness.split(i, block, i0, i1)
    brightness.parallelize(i0)
    brightness.vectorize(i1, LINE, remainder="mask")
    if streams:
        brightness.store_nontemporal()
    return f


def sample(rows: int, columns: int) -> Arguments:
    """Random colours."""
    return {"rgb": np.random.default_rng(0).integers(0, 256, (rows * columns, 3), dtype=np.uint8)}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
