"""Colour to grey in integers, as OpenCV does it: bytes in, bytes out, fixed-point weights in between."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

R, C = tm.params("R C")
r, c = tm.iters("r c")
RED, GREEN, BLUE, BITS = 4899, 9617, 1868, 14  # 0.299, 0.587 and 0.114 of 2 ** 14

f = tm.Function("to_grey", params=[R, C])
rgb = f.input("rgb", tm.uint8, [R, C, 3])


def part(channel: int) -> tm.Expr:
    """One colour of a pixel, in a type wide enough for the sum."""
    return tm.cast(tm.int32, rgb[r, c, channel])


weighted = RED * part(0) + GREEN * part(1) + BLUE * part(2)
grey = f.computation("grey", {r: R, c: C}, tm.cast(tm.uint8, (weighted + (1 << (BITS - 1))) >> BITS))
f.outputs(grey)
grey.parallelize(r)
grey.vectorize(c, 16)

kernel = f.compile()
for shape in [(0, 5, 3), (1, 1, 3), (33, 47, 3), (480, 641, 3)]:
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    wide = picture.astype(np.int32) @ np.array([RED, GREEN, BLUE], dtype=np.int32)
    np.testing.assert_array_equal(kernel(picture), ((wide + 2 ** (BITS - 1)) >> BITS).astype(np.uint8))
print("right: every pixel of four pictures, the empty one included")
