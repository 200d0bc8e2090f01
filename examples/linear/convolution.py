"""A convolution 3 x 3 of pictures with many channels, with bias and ReLU, as a product of matrices that is never made.

Some pixels of a row, or of two, by two vectors of channels of the result are summed in registers over all 9 neighbours
and all channels of the picture; bias and ReLU are applied when they are stored. The pixels that are left at the end of
a row are too few sums for the time that a multiply-add takes, if tiles have few pixels: then two rows share a tile. The
border of zeros is part of a copy of the rows that a block of 14 output rows reads, so that few rows are copied twice.
In the copy, 64 channels of a pixel lie together whatever the number of channels is: the distance of two pixels is a
constant in each instruction, and needs no register. Two channels are summed in each iteration of the innermost loop.
The weights are copied so that the channels of a tile lie together.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

P, H, W, C, F = tm.params("P H W C F")
p, y, x, c, f = tm.iters("p y x c f")
r, s, y0, x0, f0, y1, x1, f1, c0, c1 = tm.iters("r s y0 x0 f0 y1 x1 f1 c0 c1")
y2, y3, rr, ss, cc, ff, ff0, ff1 = tm.iters("y2 y3 rr ss cc ff ff0 ff1")
ROWS, TOGETHER = 14, 64
AT_ONCE = 8  # sums that hide the time of a multiply-add: two in each of four cycles
SIZES = ((1, 1, 1, 1, 1), (1, 3, 15, 5, 33), (2, 5, 28, 3, 31), (3, 2, 13, 17, 64), (1, 15, 16, 65, 3))
LARGE = (2, 56, 56, 64, 64)


def algorithm() -> tuple[tm.Function, tm.Input, tm.Computation, tm.Reduction, tm.Computation]:
    """The padded picture, the sums over neighbours and channels, and max(sum + bias, 0)."""
    fn = tm.Function("convolution", params=[P, H, W, C, F], assume="P >= 1 and H >= 1 and W >= 1 and C >= 1 and F >= 1")
    picture = fn.input("picture", tm.float32, [P, H, W, C])
    weights = fn.input("weights", tm.float32, [3, 3, C, F])
    bias = fn.input("bias", tm.float32, [F])
    inside = (y >= 1) & (y <= H) & (x >= 1) & (x <= W)
    padded = fn.computation(
        "padded", {p: P, y: H + 2, x: W + 2, c: C}, tm.select(inside, picture[p, y - 1, x - 1, c], np.float32(0))
    )
    total = fn.reduction(
        "total",
        {p: P, y: H, x: W, f: F},
        {r: 3, s: 3, c: C},
        tm.sum,
        padded[p, y + r, x + s, c] * weights[r, s, c, f],
    )
    result = fn.computation("result", {p: P, y: H, x: W, f: F}, tm.maximum(total[p, y, x, f] + bias[f], np.float32(0)))
    fn.outputs(result)
    return fn, weights, padded, total, result


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Tiles of pixels by two vectors of channels in registers; threads share blocks of 14 rows of all pictures."""
    fn, weights, padded, total, result = algorithm()
    cpu = cpu or tm.target()
    lanes, pixels = cpu.lanes(tm.float32), cpu.rows_of_sums(2)
    rows = 1 if pixels >= AT_ONCE else 2
    channels = 2 * lanes
    result.split(y, ROWS, y0, y1)
    result.split(y1, rows, y2, y3)
    result.tile(x, f, max(pixels // rows, 1), channels, x0, f0, x1, f1)
    result.reorder(p, y0, f0, y2, x0, y3, x1, f1)
    result.parallelize(p, y0)
    result.unroll(y3, remainder="specialize")
    result.unroll(x1, remainder="specialize")
    result.vectorize(f1, channels, remainder="mask")
    total.compute_at(result, x0)
    total.store_in(tm.REGISTER)
    total.update.split(c, TOGETHER, c0, c1)
    total.update.reorder(c0, r, s, c1, y, x, f)
    total.update.unroll(c1, 2)
    total.unroll(y, remainder="specialize")
    total.unroll(x, remainder="specialize")
    total.vectorize(f, channels, remainder="pad")
    padded.store_in([p, y, c // TOGETHER, x * TOGETHER + c % TOGETHER])
    padded.compute_at(result, y0)
    padded.store_at(result, y0)
    padded.split(c, TOGETHER, c0, c1)
    padded.vectorize(c1, lanes, remainder="mask")
    panels = total.update.copy(
        weights, [rr, ss, cc, ff], layout=[ff // channels, cc // TOGETHER, rr, ss, cc % TOGETHER, ff % channels]
    )
    panels.split(ff, channels, ff0, ff1)
    panels.vectorize(ff1, channels, remainder="mask")
    return fn


def sample(pictures: int, rows: int, columns: int, channels: int, filters: int) -> Arguments:
    """Random pictures, weights and biases."""
    rng = np.random.default_rng(0)
    return {
        "picture": rng.standard_normal((pictures, rows, columns, channels), np.float32),
        "weights": rng.standard_normal((3, 3, channels, filters), np.float32),
        "bias": rng.standard_normal(filters, np.float32),
    }


def exact(given: Arguments) -> tuple[Array, Array]:
    """The convolution in a wider type, and how far any order of the sums may be from it."""
    picture, weights, bias = (given[name].astype(np.float64) for name in ("picture", "weights", "bias"))
    with np.errstate(invalid="ignore"):
        values = np.maximum(neighbours(picture, weights) + bias, 0)
    bound = error(9 * picture.shape[3] + 1, neighbours(abs(picture), abs(weights)) + abs(bias), np.float32)
    return values, bound


def neighbours(picture: Array, weights: Array) -> Array:
    """The sums over neighbours and channels, one product of matrices for each neighbour."""
    rows, columns = picture.shape[1:3]
    wide = np.pad(picture, ((0, 0), (1, 1), (1, 1), (0, 0)))
    found: Array = sum(
        wide[:, dy : dy + rows, dx : dx + columns] @ weights[dy, dx] for dy in range(3) for dx in range(3)
    )
    return found


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
