"""A convolution 3 x 3 of pictures whose channels are planes (NCHW), with bias and ReLU.

Some channels of the result by two vectors of pixels, of one row or of two, are summed in registers over all channels of
the picture and all 9 neighbours; bias and ReLU are applied when they are stored. Pixels are the lanes, so that a weight
is loaded once for all of them; most vectors of pixels cross a cache line, so that few of them for each weight are best.
The vector that is left at the end of a row is one of few sums, unless two rows have it in a tile. The border of zeros
is part of a copy of the rows that a block of output rows reads, in which the channels of a row lie together. Two
channels are summed in each iteration of the innermost loop. The end of a row has versions for each number of vectors.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

P, H, W, C, F = tm.params("P H W C F")
p, y, x, c, f = tm.iters("p y x c f")
r, s, y0, x0, f0, y1, x1, f1, y2, y3 = tm.iters("r s y0 x0 f0 y1 x1 f1 y2 y3")
rr, ss, cc, ff = tm.iters("rr ss cc ff")
ROWS, VECTORS = 14, 2  # rows of a block, vectors of pixels of a tile
AT_ONCE = 8  # sums that hide the time of a multiply-add: two in each of four cycles
SIZES = ((1, 1, 1, 1, 1), (1, 3, 15, 5, 7), (2, 5, 28, 3, 12), (3, 2, 65, 17, 6), (1, 15, 16, 33, 3))
LARGE = (2, 56, 56, 64, 64)


def algorithm() -> tuple[tm.Function, tm.Input, tm.Computation, tm.Reduction, tm.Computation]:
    """The padded picture, the sums over neighbours and channels, and max(sum + bias, 0)."""
    fn = tm.Function("planes", params=[P, H, W, C, F], assume="P >= 1 and H >= 1 and W >= 1 and C >= 1 and F >= 1")
    picture = fn.input("picture", tm.float32, [P, C, H, W])
    weights = fn.input("weights", tm.float32, [F, C, 3, 3])
    bias = fn.input("bias", tm.float32, [F])
    beyond = tm.boundary.constant(picture, np.float32(0), dims=[2, 3])
    padded = fn.computation("padded", {p: P, c: C, y: H + 2, x: W + 2}, beyond[p, c, y - 1, x - 1])
    total = fn.reduction(
        "total",
        {p: P, f: F, y: H, x: W},
        {c: C, r: 3, s: 3},
        tm.sum,
        padded[p, c, y + r, x + s] * weights[f, c, r, s],
    )
    result = fn.computation("result", {p: P, f: F, y: H, x: W}, tm.maximum(total[p, f, y, x] + bias[f], np.float32(0)))
    fn.outputs(result)
    return fn, weights, padded, total, result


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Tiles of channels by two vectors of pixels in registers; threads share blocks of 14 rows of all pictures."""
    fn, weights, padded, total, result = algorithm()
    cpu = cpu or tm.target()
    lanes, channels = cpu.lanes(tm.float32), cpu.rows_of_sums(VECTORS)
    rows = 1 if channels >= AT_ONCE else VECTORS
    pixels = VECTORS // rows * lanes
    result.split(y, ROWS, y0, y1)
    result.split(y1, rows, y2, y3)
    result.tile(f, x, channels, pixels, f0, x0, f1, x1)
    result.reorder(p, y0, f0, y2, x0, f1, y3, x1)
    result.parallelize(p, y0)
    result.unroll(f1, remainder="specialize")
    result.unroll(y3, remainder="specialize")
    result.vectorize(x1, lanes, remainder="mask", partial="specialize")
    total.compute_at(result, x0)
    total.store_in(tm.REGISTER)
    total.update.reorder(r, s, c, f, y, x)
    total.update.unroll(c, 2)
    total.unroll(f, remainder="specialize")
    total.unroll(y, remainder="specialize")
    total.vectorize(x, lanes, remainder="pad", partial="specialize")
    padded.store_in([p, y, c, x])
    padded.compute_at(result, y0)
    padded.store_at(result, y0)
    padded.vectorize(x, lanes, remainder="mask")
    total.update.copy(weights, [ff, cc, rr, ss], layout=[ff // channels, rr, ss, cc, ff % channels])
    return fn


def sample(pictures: int, rows: int, columns: int, channels: int, filters: int) -> Arguments:
    """Random pictures, weights and biases."""
    rng = np.random.default_rng(0)
    return {
        "picture": rng.standard_normal((pictures, channels, rows, columns), np.float32),
        "weights": rng.standard_normal((filters, channels, 3, 3), np.float32),
        "bias": rng.standard_normal(filters, np.float32),
    }


def exact(given: Arguments) -> tuple[Array, Array]:
    """The convolution in a wider type, and how far any order of the sums may be from it."""
    picture, weights, bias = (given[name].astype(np.float64) for name in ("picture", "weights", "bias"))
    bias = bias[:, None, None]
    with np.errstate(invalid="ignore"):
        values = np.maximum(neighbours(picture, weights) + bias, 0)
    bound = error(9 * picture.shape[1] + 1, neighbours(abs(picture), abs(weights)) + abs(bias), np.float32)
    return values, bound


def neighbours(picture: Array, weights: Array) -> Array:
    """The sums over neighbours and channels."""
    rows, columns = picture.shape[2:]
    wide = np.pad(picture, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [(dy, dx) for dy in range(3) for dx in range(3)]
    moved = (wide[:, :, dy : dy + rows, dx : dx + columns] for dy, dx in taps)
    found: Array = sum(
        np.einsum("pchw,fc->pfhw", part, weights[:, :, dy, dx], optimize=True)
        for part, (dy, dx) in zip(moved, taps, strict=True)
    )
    return found


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
