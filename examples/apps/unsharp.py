"""Sharper pictures: an unsharp mask from a Gaussian of seven weights, with the edges of the picture repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
p, r, c, r0, c0, r1, c1 = tm.iters("p r c r0 c0 r1 c1")
RED, GREEN, BLUE = (np.float32(w) for w in (0.299, 0.587, 0.114))
SIGMA = 1.5
WEIGHTS = [float(np.exp(-x * x / (2 * SIGMA * SIGMA)) / (np.sqrt(2 * np.pi) * SIGMA)) for x in range(4)]
CLOSE = 1e-5  # of values below 4
ROWS = 15  # of a strip: seven of the brightness, sums, ratios, three of the colours and three of the results
BESIDE = 9  # vectors beside the seven that are added: three of the window, four weights, the brightness and its double


def algorithm() -> tm.Function:
    """The brightness, blurred by columns and by rows; each colour is scaled as the brightness is sharpened."""
    f = tm.Function("unsharp", params=[R, C], assume="R >= 1 and C >= 1")
    rgb = f.input("rgb", tm.float32, [3, R, C])
    near = tm.boundary.repeat_edge(rgb, dims=[1, 2])
    grey = f.computation("grey", [r, c], near[0, r, c] * RED + near[1, r, c] * GREEN + near[2, r, c] * BLUE)

    def blurred(values: Sequence[tm.Expr]) -> tm.Expr:
        weights = [np.float32(w) for w in WEIGHTS]
        pairs = [(values[3 - d] + values[3 + d]) * weights[d] for d in (1, 2, 3)]
        return values[3] * weights[0] + pairs[0] + pairs[1] + pairs[2]

    down = f.computation("down", [r, c], blurred([grey[r + d, c] for d in range(-3, 4)]))
    across = blurred([down[r, c + d] for d in range(-3, 4)])
    ratio = f.computation("ratio", [r, c], (2 * grey[r, c] - across) / grey[r, c])
    f.outputs(f.computation("sharp", {p: 3, r: R, c: C}, ratio[r, c] * rgb[p, r, c]))
    return f


def scheduled(
    cpu: tm.Target | None = None,
    *,
    band: int = 64,
    strip: int | None = None,
    slides: bool | None = None,
    streams: bool = True,
) -> tm.Function:
    """Bands of rows: a ring of seven rows of the brightness; sums of columns slide along each row in registers.

    Where registers are few, or moving a window across them is dear, the sums and the ratios of a strip of columns stay
    in the first-level cache, of which a strip's rows fill a half at most, and one colour of the strip is stored after
    the other: a cache line is filled at once, wherever the rows of a plane begin.
    """
    cpu = cpu or tm.target()
    lanes = cpu.lanes(tm.float32)
    strip = strip or power_of_two(cpu.first // 2 // (4 * ROWS))
    slides = cpu.costs.keeps_window(7, others=BESIDE) if slides is None else slides
    f = algorithm()
    grey, down, ratio, sharp = f["grey"], f["down"], f["ratio"], f["sharp"]
    sharp.reorder(r, c, p)
    sharp.split(r, band, r0, r1)
    sharp.parallelize(r0)
    sharp.split(c, lanes if slides else strip, c0, c1)
    sharp.reorder(r0, r1, c0, p, c1)
    sharp.vectorize(c1, lanes, remainder="mask")
    if streams:
        sharp.store_nontemporal()
    for stage in (ratio, down):
        stage.compute_at(sharp, c0)
    ratio.vectorize(c, lanes, remainder="mask")
    if slides:
        sharp.unroll(p)
        ratio.store_in(tm.REGISTER)
        down.slide(c0, c, lanes)
        down.store_in(tm.REGISTER)
    down.vectorize(c, lanes, remainder="mask")
    grey.compute_at(sharp, r1)
    grey.slide(r1)
    grey.vectorize(c, lanes, remainder="mask")
    return f


def power_of_two(most: int) -> int:
    """The greatest power of two that is not more than a number."""
    return 1 << most.bit_length() - 1


def sample(rows: int, columns: int) -> Arguments:
    """A picture in three planes."""
    return {"rgb": planes(rows, columns)}


def exact(given: Arguments) -> Array:
    """The mask in float64, with the blur as two convolutions of the padded brightness."""
    rgb = given["rgb"].astype(np.float64)
    grey = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
    weights = np.array([*WEIGHTS[:0:-1], *WEIGHTS])
    blurred = np.pad(grey, 3, "edge")
    for axis in (0, 1):
        blurred = np.lib.stride_tricks.sliding_window_view(blurred, 7, axis) @ weights
    sharp: Array = (2 * grey - blurred) / grey * rgb
    return sharp


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph, sharpened."""
    found: Any = kernel(np.maximum(picture, np.float32(1 / 255)))
    sharp: Array = found
    return sharp


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
