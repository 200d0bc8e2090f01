"""A convolution layer trained on pictures of its own: weights and offsets that a hidden layer has are found again.

The loss and its gradients are one program: the adjoint of a convolution by its weights is a sum over pictures and
pixels, and a maximum with 0 passes on what is above it. Differences of the loss say that it is right.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

B, N, M = tm.params("B N M")
b, i, j = tm.iters("b i j")
o, c, y, x = tm.iters("o c y x")
CHANNELS, FEATURES = 2, 3


def layer() -> tm.Function:
    """The mean square of what the layer makes of some pictures, less what it is to make."""
    f = tm.Function("layer", params=[B, N, M], assume="B >= 1 and N >= 1 and M >= 1")
    picture = f.input("picture", tm.float32, [B, CHANNELS, N + 2, M + 2])
    wanted = f.input("wanted", tm.float32, [B, FEATURES, N, M])
    weight, offset = (
        f.input("weight", tm.float32, [FEATURES, CHANNELS, 3, 3]),
        f.input("offset", tm.float32, [FEATURES]),
    )
    values = {b: B, o: FEATURES, i: N, j: M}
    total = f.reduction("total", values, {c: CHANNELS, y: 3, x: 3}, tm.sum,
                        picture[b, c, i + y, j + x] * weight[o, c, y, x])  # fmt: skip
    made = f.computation("made", values, tm.maximum(total[b, o, i, j] + offset[o], 0.0))
    apart = f.computation("apart", values, made[b, o, i, j] - wanted[b, o, i, j])
    f.outputs(f.reduction("loss", {}, values, tm.mean, apart[b, o, i, j] * apart[b, o, i, j]))
    return f


def features(picture: np.ndarray, weight: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The layer in NumPy."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("bcijyx,ocyx->boij", windows, weight) + offset[None, :, None, None], 0)


f = tm.grad(layer(), wrt=["weight", "offset"])
f.auto_schedule()
print(f.check())
step = f.compile()

numbers = np.random.default_rng(0)
picture = numbers.standard_normal((8, CHANNELS, 18, 18)).astype(np.float32)
hidden = numbers.standard_normal((FEATURES, CHANNELS, 3, 3)), 0.3 * numbers.standard_normal(FEATURES)
wanted = features(picture, *hidden).astype(np.float32)
found = [(0.1 * numbers.standard_normal(each.shape)).astype(np.float32) for each in hidden]
speed = [np.zeros_like(each) for each in found]
first = float(step(picture=picture, wanted=wanted, weight=found[0], offset=found[1])[0])
for _ in range(300):
    loss, *gradients = step(picture=picture, wanted=wanted, weight=found[0], offset=found[1])
    for number, gradient in enumerate(gradients):
        speed[number] = 0.9 * speed[number] - np.float32(0.05) * gradient
        found[number] = (found[number] + speed[number]).astype(np.float32)
print(f"the mean square is {first:.3f} before, and {float(loss):.1e} after 300 steps")

for own, right in zip(found, hidden, strict=True):
    np.testing.assert_allclose(own, right, atol=1e-2)
direction = numbers.standard_normal(found[0].shape).astype(np.float32)
away = found[0] + 0.5 * direction
_, d_weight, _ = step(picture=picture, wanted=wanted, weight=away, offset=found[1])
ends = [np.mean((features(picture, away + h * direction, found[1]) - wanted) ** 2) for h in (1e-3, -1e-3)]
np.testing.assert_allclose(np.sum(d_weight * direction), (ends[0] - ends[1]) / 2e-3, rtol=1e-2)
print("right: the hidden weights are found, and the gradient is that of differences")
