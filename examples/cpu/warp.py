"""Affine warp: each pixel is read at a place given by a map, between four neighbours; outside the picture it is 0.

In float32, and in bytes with the arithmetic in float32.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1 = tm.iters("r c r0 r1")
PIXELS = 16  # at a time: so many loads from computed places wait together, however wide vectors are
ANGLE = math.radians(5)
#: The map (column, row) -> place: the two matrix entries and the shift, for each of the place's two coordinates.
ACROSS = tuple(np.float32(v) for v in (math.cos(ANGLE), math.sin(ANGLE), -50))
DOWN = tuple(np.float32(v) for v in (-math.sin(ANGLE), math.cos(ANGLE), 80))


def algorithm(dtype: tm.DType = tm.float32) -> tuple[tm.Function, tm.Computation]:
    """Rotated by five degrees and shifted; bilinear."""
    f = tm.Function("warp", params=[R, C], assume="R >= 2 and C >= 2 and R <= 32768 and C <= 32768")
    image = f.input("image", dtype, [R, C])

    def place(map_: tuple[np.float32, ...]) -> tuple[tm.Expr, tm.Expr]:
        """A coordinate's integer part and fraction."""
        x, y = tm.cast(tm.float32, tm.cast(tm.int32, c)), tm.cast(tm.float32, tm.cast(tm.int32, r))
        at = x * map_[0] + (y * map_[1] + map_[2])
        return tm.cast(tm.int32, tm.floor(at)), at - tm.floor(at)

    (column, right), (row, down) = place(ACROSS), place(DOWN)
    left, top = tm.clip(column, 0, C - 2), tm.clip(row, 0, R - 2)
    inside = (row == top) & (column == left)

    def tap(dr: int, dc: int) -> tm.Expr:
        return tm.cast(tm.float32, image[top + dr, left + dc])

    upper = tap(0, 0) + right * (tap(0, 1) - tap(0, 0))
    lower = tap(1, 0) + right * (tap(1, 1) - tap(1, 0))
    mixed = upper + down * (lower - upper)
    if dtype is tm.uint8:
        mixed = tm.cast(tm.int32, mixed + np.float32(0.5))
    value = tm.select(inside, mixed, tm.cast(mixed.dtype, 0))
    warped = f.computation("warped", {r: R, c: C}, tm.cast(dtype, value))
    f.outputs(warped)
    return f, warped


def scheduled(dtype: tm.DType = tm.float32, *, pixels: int = PIXELS, rows: int = 8, ahead: int = 8) -> tm.Function:
    """Sixteen pixels at a time, in blocks of eight rows; each row prefetches for the one that is as many rows `ahead`.

    A rotated picture is read across its rows, which the hardware prefetcher does not predict.
    """
    f, warped = algorithm(dtype)
    warped.split(r, rows, r0, r1)
    warped.parallelize(r0)
    warped.vectorize(c, pixels)
    if ahead:
        warped.prefetch(f["image"], r1, ahead)
    return f


def sample(rows: int, columns: int, dtype: tm.DType = tm.float32) -> Arguments:
    """Waves, so that neighbours have similar values."""
    down, across = np.arange(max(rows, 2), dtype=np.float32)[:, None], np.arange(max(columns, 2), dtype=np.float32)
    waves = 127 + 60 * np.sin(down / 9) + 60 * np.cos(across / 11)
    return {"image": waves.astype(dtype.numpy)}


if __name__ == "__main__":
    for kind in (tm.float32, tm.uint8):
        tell(partial(scheduled, kind), partial(sample, dtype=kind), (1000, 2000))
