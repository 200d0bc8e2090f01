"""A layer of a convolutional network as one program: convolution, batch normalisation, residual and ReLU.

The statistics are those of the batch, as in training; the gradient of the layer's error is derived and trains it.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020), 2.1.3, and algorithm 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

Z, H, W, C = tm.params("Z H W C")  # pictures, rows, columns, channels
z, y, x, c, e, r, s = tm.iters("z y x c e r s")


def layer(*, error_alone: bool = False, dtype: tm.DType = tm.float64) -> tm.Function:
    """max(scale * (conv(picture) - mean) / deviation + shift + picture, 0), and its squared error."""
    f = tm.Function("residual", params=[Z, H, W, C], assume="Z >= 1 and H >= 1 and W >= 1 and C >= 1")
    picture, goal = (f.input(name, dtype, [Z, H, W, C]) for name in ("picture", "goal"))
    weights = f.input("weights", dtype, [3, 3, C, C])
    scale, shift = f.input("scale", dtype, [C]), f.input("shift", dtype, [C])
    all_of = {z: Z, y: H, x: W, c: C}
    inside = (y >= 1) & (y <= H) & (x >= 1) & (x <= W)
    padded = f.computation(
        "padded", {z: Z, y: H + 2, x: W + 2, e: C}, tm.select(inside, picture[z, y - 1, x - 1, e], 0)
    )
    conv = f.reduction("conv", all_of, {r: 3, s: 3, e: C}, tm.sum, padded[z, y + r, x + s, e] * weights[r, s, e, c])
    count = tm.cast(dtype, Z * H * W)
    mean = f.reduction("mean", {c: C}, {z: Z, y: H, x: W}, tm.sum, conv[z, y, x, c] / count)
    centred = f.computation("centred", all_of, conv[z, y, x, c] - mean[c])
    square = f.reduction("square", {c: C}, {z: Z, y: H, x: W}, tm.sum, centred[z, y, x, c] ** 2 / count)
    factor = f.computation("factor", {c: C}, scale[c] / tm.sqrt(square[c] + 1e-5))
    added = centred[z, y, x, c] * factor[c] + shift[c] + picture[z, y, x, c]
    out = f.computation("out", all_of, tm.maximum(added, 0))
    loss = f.reduction("loss", {}, all_of, tm.sum, (out[z, y, x, c] - goal[z, y, x, c]) ** 2)
    f.outputs(*([loss] if error_alone else [out, loss]))
    return f


def dense(picture: Any, goal: Any, weights: Any, scale: Any, shift: Any) -> tuple[Any, Any]:
    """The same in NumPy."""
    wide = np.pad(picture, ((0, 0), (1, 1), (1, 1), (0, 0)))
    high, across = picture.shape[1:3]
    taps = ((i, j, wide[:, i : i + high, j : j + across]) for i in range(3) for j in range(3))
    conv = sum(part @ weights[i, j] for i, j, part in taps)
    normal = (conv - conv.mean((0, 1, 2))) / np.sqrt(conv.var((0, 1, 2)) + 1e-5)
    out = np.maximum(normal * scale + shift + picture, 0)
    return out, ((out - goal) ** 2).sum()


def example(shape: tuple[int, ...]) -> dict[str, Any]:
    """Random pictures, weights, and a goal."""
    numbers, channels = np.random.default_rng(0), shape[-1]
    return {
        "picture": numbers.standard_normal(shape), "goal": numbers.random(shape),
        "weights": numbers.standard_normal((3, 3, channels, channels)),
        "scale": numbers.random(channels), "shift": numbers.standard_normal(channels),
    }  # fmt: skip


if __name__ == "__main__":
    f = layer()
    f.auto_schedule()
    print(str(f.check()).splitlines()[0])
    kernel = f.compile()
    for shape in ((1, 1, 1, 1), (2, 5, 7, 3)):
        given = example(shape)
        for found, expected in zip(kernel(**given), dense(**given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    learned = ("weights", "scale", "shift")
    step = tm.grad(layer(error_alone=True), wrt=learned)
    step.auto_schedule()
    call, losses = step.compile(), []
    for _ in range(10):
        loss, by_weights, by_scale, by_shift = call(**given)
        losses.append(float(loss))
        for name, gradient in zip(learned, (by_weights, by_scale, by_shift), strict=True):
            given[name] = given[name] - 0.002 * gradient
    assert losses[-1] < losses[0], losses
    print(f"right: as in NumPy; the loss falls from {losses[0]:.1f} to {losses[-1]:.1f}")
