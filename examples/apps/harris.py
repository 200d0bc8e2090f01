"""Corners: Harris's measure of a colour picture, from the products of its gradients summed over 3 x 3 pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
RED, GREEN, BLUE, TWELFTH, KAPPA = (np.float32(w) for w in (0.299, 0.587, 0.114, 1 / 12, 0.04))
CLOSE = 1e-6  # of values below 0.1
LINE = 64  # bytes of a cache line


def algorithm() -> tm.Function:
    """Grey, Sobel's gradients, and sums of their products: first of three rows, then of three columns."""
    f = tm.Function("harris", params=[R, C], assume="R >= 1 and C >= 1")
    rgb = f.input("rgb", tm.float32, [3, R + 4, C + 4])
    grey = f.computation("grey", [r, c], rgb[0, r, c] * RED + rgb[1, r, c] * GREEN + rgb[2, r, c] * BLUE)

    def smooth(a: tm.Expr, b: tm.Expr, d: tm.Expr) -> tm.Expr:
        return (a + d) * TWELFTH + b * (2 * TWELFTH)

    right = [smooth(*(grey[r + d, c + e] for d in range(3))) for e in (0, 2)]
    below = [smooth(*(grey[r + d, c + e] for e in range(3))) for d in (0, 2)]
    ix = f.computation("ix", [r, c], right[1] - right[0])
    iy = f.computation("iy", [r, c], below[1] - below[0])
    sums = []
    for name, one, two in (("xx", ix, ix), ("yy", iy, iy), ("xy", ix, iy)):
        rows = [one[r + d, c] * two[r + d, c] for d in range(3)]
        down = f.computation(f"down_{name}", [r, c], rows[0] + rows[1] + rows[2])
        sums.append(down[r, c] + down[r, c + 1] + down[r, c + 2])
    xx, yy, xy = sums
    corners = f.computation("corners", {r: R, c: C}, xx * yy - xy * xy - (xx + yy) * (xx + yy) * KAPPA)
    f.outputs(corners)
    return f


def scheduled(
    cpu: tm.Target | None = None, *, band: int = 64, vectors: int = 1, window: bool = True, streams: bool | None = None
) -> tm.Function:
    """Bands of rows: each row of the gradients is computed once, and kept for the two rows that follow.

    Sums of three rows are kept in registers, in a `window` that slides along the row, or in a row of their own. Corners
    go past the caches where a vector is a whole cache line: between two halves of one, caches are asked for much else,
    and a half that leaves alone is dear.
    """
    cpu = cpu or tm.target()
    lanes = vectors * cpu.lanes(tm.float32)
    streams = cpu.vector_bytes >= LINE if streams is None else streams
    f = algorithm()
    grey, ix, iy, corners = f["grey"], f["ix"], f["iy"], f["corners"]
    corners.split(r, band, r0, r1)
    corners.parallelize(r0)
    corners.split(c, lanes, c0, c1)
    corners.vectorize(c1, lanes, remainder="mask")
    if streams:
        corners.store_nontemporal()
    for down in (f["down_xx"], f["down_yy"], f["down_xy"]):
        down.compute_at(corners, c0 if window else r1)
        if window:
            down.slide(c0, c, lanes)
            down.store_in(tm.REGISTER)
        down.vectorize(c, lanes, remainder="mask")
    for stage in (ix, iy, grey):
        stage.compute_at(corners, r1)
        stage.slide(r1)
        stage.vectorize(c, lanes, remainder="mask")
    iy.after(ix, c)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture with a border of two pixels."""
    return {"rgb": planes(rows + 4, columns + 4)}


def exact(given: Arguments) -> Array:
    """The measure in float64, with the gradients and the sums as convolutions."""
    red, green, blue = given["rgb"].astype(np.float64)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue

    def correlated(picture: Array, weights: list[list[float]]) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(picture, (3, 3))
        total: Array = np.einsum("rcij,ij->rc", windows, np.array(weights))
        return total

    sobel = [[-1 / 12, 0, 1 / 12], [-2 / 12, 0, 2 / 12], [-1 / 12, 0, 1 / 12]]
    ix, iy = correlated(grey, sobel), correlated(grey, [list(row) for row in zip(*sobel, strict=True)])
    xx, yy, xy = (correlated(product, [[1.0] * 3] * 3) for product in (ix * ix, iy * iy, ix * iy))
    measure: Array = xx * yy - xy * xy - 0.04 * (xx + yy) ** 2
    return measure


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """The measure of a photograph, brighter at corners."""
    found: Any = kernel(np.pad(picture, ((0, 0), (2, 2), (2, 2)), "edge"))
    brightness: Array = np.sqrt(np.maximum(found, 0)) * 10
    return brightness


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
