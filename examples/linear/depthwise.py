"""A depthwise convolution 3 x 3 of pictures whose channels lie together, with bias and ReLU.

Each channel has its own nine weights, so that nothing is summed over channels: the time is that of reading and writing
the picture. A vector of channels of a few pixels in two rows is summed in registers, which share the pixels that they
read. The border of zeros is part of a copy of the rows that a block of output rows reads.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, error, tell

import tiramisu_py as tm

P, H, W, C = tm.params("P H W C")
p, y, x, c, r, s = tm.iters("p y x c r s")
y0, x0, c0, y1, x1, c1, y2, y3 = tm.iters("y0 x0 c0 y1 x1 c1 y2 y3")
ROWS, ROWS_AT_ONCE = 14, 2
SIZES = ((1, 1, 1, 1), (1, 3, 13, 17), (2, 9, 5, 3), (3, 17, 4, 33))
LARGE = (8, 56, 56, 64)


def algorithm() -> tuple[tm.Function, tm.Computation, tm.Reduction, tm.Computation]:
    """The padded picture, the sums over neighbours, and max(sum + bias, 0)."""
    fn = tm.Function("depthwise", params=[P, H, W, C], assume="P >= 1 and H >= 1 and W >= 1 and C >= 1")
    picture = fn.input("picture", tm.float32, [P, H, W, C])
    weights = fn.input("weights", tm.float32, [3, 3, C])
    bias = fn.input("bias", tm.float32, [C])
    inside = (y >= 1) & (y <= H) & (x >= 1) & (x <= W)
    padded = fn.computation(
        "padded", {p: P, y: H + 2, x: W + 2, c: C}, tm.select(inside, picture[p, y - 1, x - 1, c], np.float32(0))
    )
    total = fn.reduction(
        "total", {p: P, y: H, x: W, c: C}, {r: 3, s: 3}, tm.sum, padded[p, y + r, x + s, c] * weights[r, s, c]
    )
    result = fn.computation("result", {p: P, y: H, x: W, c: C}, tm.maximum(total[p, y, x, c] + bias[c], np.float32(0)))
    fn.outputs(result)
    return fn, padded, total, result


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Tiles of 2 rows of pixels by a vector of channels, in half of the registers; threads share blocks of rows."""
    fn, padded, total, result = algorithm()
    cpu = cpu or tm.target()
    lanes, pixels = cpu.lanes(tm.float32), max(cpu.rows_of_sums(2) // 2, 2)
    result.split(y, ROWS, y0, y1)
    result.split(y1, ROWS_AT_ONCE, y2, y3)
    result.tile(x, c, pixels, lanes, x0, c0, x1, c1)
    result.reorder(p, y0, y2, x0, c0, y3, x1, c1)
    result.parallelize(p, y0)
    result.unroll(y3, remainder="specialize")
    result.unroll(x1, remainder="specialize")
    result.vectorize(c1, lanes, remainder="mask")
    total.compute_at(result, c0)
    total.store_in(tm.REGISTER)
    total.update.reorder(r, s, y, x, c)
    total.update.unroll(r)
    total.update.unroll(s)
    total.unroll(y, remainder="specialize")
    total.unroll(x, remainder="specialize")
    total.vectorize(c, lanes, remainder="mask")
    padded.compute_at(result, y0)
    padded.vectorize(c, lanes, remainder="mask")
    return fn


def sample(pictures: int, rows: int, columns: int, channels: int) -> Arguments:
    """Random pictures, weights and biases."""
    rng = np.random.default_rng(0)
    return {
        "picture": rng.standard_normal((pictures, rows, columns, channels), np.float32),
        "weights": rng.standard_normal((3, 3, channels), np.float32),
        "bias": rng.standard_normal(channels, np.float32),
    }


def exact(given: Arguments) -> tuple[Array, Array]:
    """The convolution in a wider type, and how far any order of the sums may be from it."""
    picture, weights, bias = (given[name].astype(np.float64) for name in ("picture", "weights", "bias"))
    with np.errstate(invalid="ignore"):
        values = np.maximum(neighbours(picture, weights) + bias, 0)
    return values, error(10, neighbours(abs(picture), abs(weights)) + abs(bias), np.float32)


def neighbours(picture: Array, weights: Array) -> Array:
    """The weighted sums over neighbours of each channel."""
    rows, columns = picture.shape[1:3]
    wide = np.pad(picture, ((0, 0), (1, 1), (1, 1), (0, 0)))
    found: Array = sum(
        wide[:, dy : dy + rows, dx : dx + columns] * weights[dy, dx] for dy in range(3) for dx in range(3)
    )
    return found


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
