"""A filter that is learned: the 3 x 3 weights that make a blurred picture sharper, by derivatives of the error.

The gradient is differentiated again, in nine directions, for a step of second order. The error is a square of the
weights, so that NumPy's least squares say what the best ones are.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, y, x, r0, r1 = tm.iters("r c y x r0 r1")


def filter_error() -> tm.Function:
    """The mean of the squared differences between a filtered picture and the one that is wanted."""
    f = tm.Function("filter_error", params=[R, C], assume="R >= 3 and C >= 3")
    weight = f.input("weight", tm.float64, [3, 3])
    image, wanted = f.input("image", tm.float64, [R + 2, C + 2]), f.input("wanted", tm.float64, [R, C])
    sharp = f.reduction("sharp", {r: R, c: C}, {y: 3, x: 3}, tm.sum, image[r + y, c + x] * weight[y, x])
    apart = f.computation("apart", {r: R, c: C}, sharp[r, c] - wanted[r, c])
    f.outputs(f.reduction("loss", {}, {r: R, c: C}, tm.mean, apart[r, c] * apart[r, c]))
    return f


f = tm.grad(filter_error(), wrt=["weight"])
f["apart"].parallelize(r)
f["d_apart"].parallelize(r)
print(f.check())
kernel = f.compile()

numbers = np.random.default_rng(0)
wanted = numbers.random((30, 40))
wide = np.pad(wanted, 2, mode="edge")
image = sum(wide[a : a + 32, b : b + 42] for a in range(3) for b in range(3)) / 9  # blurred, with a border of one

weight = np.zeros((3, 3))
weight[1, 1] = 1
before, d_weight = kernel(weight=weight, image=image, wanted=wanted)

# The error is a square, so that one step of Newton's method ends: weight - inverse of the Hessian * gradient.
along = tm.jvp(f, wrt=["weight"]).compile()
columns_of_hessian = [
    along(weight=weight, image=image, wanted=wanted, t_weight=direction.reshape(3, 3))[-1].ravel()
    for direction in np.eye(9)
]
weight = weight - np.linalg.solve(np.stack(columns_of_hessian, axis=1), d_weight.ravel()).reshape(3, 3)
after, d_weight = kernel(weight=weight, image=image, wanted=wanted)
assert np.abs(d_weight).max() < 1e-9

columns = np.stack([image[a : a + 30, b : b + 40].ravel() for a in range(3) for b in range(3)], axis=1)
best = np.linalg.lstsq(columns, wanted.ravel(), rcond=None)[0].reshape(3, 3)
print(f"mean squared error {float(before):.4f} --> {float(after):.4f}")
print(np.round(weight, 2))
np.testing.assert_allclose(weight, best, atol=1e-8)
print("right: the weights are those of least squares")
