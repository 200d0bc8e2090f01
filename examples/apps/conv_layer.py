"""A layer of a neural network: a convolution 3 x 3 over 128 channels of each pixel, with bias and ReLU."""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, tell

import tiramisu_py as tm

P, H, W, C, F = tm.params("P H W C F")
p, y, x, f, c, dy, dx = tm.iters("p y x f c dy dx")
SIZES = ((1, 1, 1, 1, 1), (1, 2, 17, 3, 33), (2, 15, 29, 65, 31), (3, 3, 14, 128, 128))
LARGE = (5, 80, 100, 128, 128)
CLOSE = 2e-5  # of sums of up to 1152 products, of values around 1


def algorithm() -> tm.Function:
    """Sums over neighbours and channels of pictures that have a border, and max(sum + bias, 0)."""
    fn = tm.Function("conv_layer", params=[P, H, W, C, F], assume="P >= 1 and H >= 1 and W >= 1 and C >= 1 and F >= 1")
    picture = fn.input("picture", tm.float32, [P, H + 2, W + 2, C])
    weights = fn.input("weights", tm.float32, [C, 3, 3, F])
    bias = fn.input("bias", tm.float32, [F])
    terms = picture[p, y + dy, x + dx, c] * weights[c, dy, dx, f]
    total = fn.reduction("total", {p: P, y: H, x: W, f: F}, {dy: 3, dx: 3, c: C}, tm.sum, terms)
    layer = fn.computation("layer", {p: P, y: H, x: W, f: F}, tm.maximum(total[p, y, x, f] + bias[f], np.float32(0)))
    fn.outputs(layer)
    return fn


def scheduled(cpu: tm.Target | None = None, **sizes: int) -> tm.Function:
    """The recipe of convolutions: tiles of pixels by channels in registers, over copied rows and packed weights."""
    fn = algorithm()
    tm.recipes.convolution(fn["layer"], cpu=cpu or tm.target(), sizes=sizes)
    return fn


def sample(pictures: int, rows: int, columns: int, channels: int, filters: int) -> Arguments:
    """Random pictures, weights that keep sums around 1, and biases."""
    rng = np.random.default_rng(0)
    return {
        "picture": rng.random((pictures, rows + 2, columns + 2, channels), np.float32),
        "weights": rng.standard_normal((channels, 3, 3, filters), np.float32) / np.float32(3 * channels**0.5),
        "bias": rng.standard_normal(filters, np.float32),
    }


def exact(given: Arguments) -> Array:
    """The layer in float64, one product of matrices for each neighbour."""
    picture, weights, bias = (given[name].astype(np.float64) for name in ("picture", "weights", "bias"))
    rows, columns = picture.shape[1] - 2, picture.shape[2] - 2
    taps = [(down, right) for down in range(3) for right in range(3)]
    parts = (picture[:, down : down + rows, right : right + columns] @ weights[:, down, right] for down, right in taps)
    layer: Array = np.maximum(sum(parts) + bias, 0)
    return layer


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, sizes=SIZES, large=LARGE)
