"""Edges of a picture: a Gaussian, then Sobel's two derivatives, then their length, in one pass over memory.

The Gaussian is computed row by row where the derivatives read it; the derivatives themselves are inlined.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1 = tm.iters("r c r0 r1")

f = tm.Function("edges", params=[R, C], assume="R >= 1 and C >= 1")
image = f.input("image", tm.float32, [R + 6, C + 6])


def binomial(at: list[tm.Expr]) -> tm.Expr:
    """Weights 1 4 6 4 1, scaled to 1."""
    return (at[0] + 4 * at[1] + 6 * at[2] + 4 * at[3] + at[4]) / 16


down = f.computation("down", {r: R + 2, c: C + 6}, binomial([image[r + d, c] for d in range(5)]))
smooth = f.computation("smooth", {r: R + 2, c: C + 2}, binomial([down[r, c + d] for d in range(5)]))
dx = f.computation(
    "dx",
    {r: R, c: C},
    (smooth[r, c + 2] - smooth[r, c])
    + 2 * (smooth[r + 1, c + 2] - smooth[r + 1, c])
    + (smooth[r + 2, c + 2] - smooth[r + 2, c]),
)
dy = f.computation(
    "dy",
    {r: R, c: C},
    (smooth[r + 2, c] - smooth[r, c])
    + 2 * (smooth[r + 2, c + 1] - smooth[r, c + 1])
    + (smooth[r + 2, c + 2] - smooth[r, c + 2]),
)
length = f.computation("length", {r: R, c: C}, tm.sqrt(dx[r, c] * dx[r, c] + dy[r, c] * dy[r, c]))
f.outputs(length)

dx.inline()
dy.inline()
length.split(r, 32, r0, r1)
length.parallelize(r0)
length.vectorize(c, 16)
smooth.compute_at(length, r0)
smooth.vectorize(c, 16)
down.compute_at(length, r0)
down.vectorize(c, 16)


def by_numpy(picture: np.ndarray) -> np.ndarray:
    """The same with NumPy slices of whole arrays."""
    rows, columns = picture.shape[0] - 6, picture.shape[1] - 6
    tall = binomial([picture[d : d + rows + 2] for d in range(5)])
    s = binomial([tall[:, d : d + columns + 2] for d in range(5)])
    x = (s[:-2, 2:] - s[:-2, :-2]) + 2 * (s[1:-1, 2:] - s[1:-1, :-2]) + (s[2:, 2:] - s[2:, :-2])
    y = (s[2:, :-2] - s[:-2, :-2]) + 2 * (s[2:, 1:-1] - s[:-2, 1:-1]) + (s[2:, 2:] - s[:-2, 2:])
    return np.sqrt(x * x + y * y)


print(f.check())
kernel = f.compile()
for rows, columns in [(1, 1), (31, 17), (200, 333)]:
    picture = np.random.default_rng(0).random((rows + 6, columns + 6), dtype=np.float32)
    np.testing.assert_array_equal(kernel(picture), by_numpy(picture))
print("right: five stages in one sweep, bit for bit")
