"""A sparse least-squares fit: heights of stations from differences that were measured between some pairs of them.

Each measurement is a row of a sparse matrix, with two entries. The gradient by the heights is a scatter, and its
derivative in a direction is the product with the normal matrix, which conjugate gradients take. NumPy's least squares
say what is right.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

N, M, E = tm.params("N M E")
i, e = tm.iters("i e")


def misfit() -> tm.Function:
    """Half the sum of the squared differences between what the heights say and what was measured."""
    f = tm.Function("misfit", params=[N, M, E], assume="N >= 1 and M >= 1")
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    column = f.input("column", tm.int32, [E], values=(0, M))
    value, height = f.input("value", tm.float64, [E]), f.input("height", tm.float64, [M])
    measured = f.input("measured", tm.float64, [N])
    said = f.reduction("said", {i: N}, {e: (start[i], start[i + 1])}, tm.sum, value[e] * height[column[e]])
    apart = f.computation("apart", {i: N}, said[i] - measured[i])
    f.outputs(f.reduction("loss", {}, {i: N}, tm.sum, 0.5 * apart[i] * apart[i]))
    return f


def measurements(stations: int, rows: int) -> dict[str, np.ndarray]:
    """Differences of the heights of pairs of stations, with errors; the first one is the height of a station."""
    numbers = np.random.default_rng(0)
    pairs = numbers.integers(0, stations, (rows - 1, 2))
    pairs[: stations - 1] = np.stack([np.arange(stations - 1), np.arange(1, stations)], axis=1)  # each is in one
    heights = 100 * numbers.random(stations)
    differences = heights[pairs[:, 1]] - heights[pairs[:, 0]] + 0.1 * numbers.standard_normal(rows - 1)
    return {
        "start": np.array([0, *range(1, 2 * rows, 2)], np.int32),
        "column": np.array([0, *pairs.ravel()], np.int32),
        "value": np.array([1.0, *[-1.0, 1.0] * (rows - 1)]),
        "measured": np.array([heights[0], *differences]),
    }


f = tm.grad(misfit(), wrt=["height"])
f.auto_schedule()
print(f.check())
gradient = f.compile()
along = tm.jvp(tm.grad(misfit(), wrt=["height"]), wrt=["height"])
along.auto_schedule()
product = along.compile()

stations, rows = 40, 160
given = measurements(stations, rows)
height = np.zeros(stations)
before, d_height = gradient(**given, height=height)

# Conjugate gradients: the gradient is linear, so that its derivative along v is the normal matrix times v.
rest = -d_height
v = rest
while (squared := rest @ rest) > 1e-16:
    normal = product(**given, height=height, t_height=v)[-1]
    step = squared / (v @ normal)
    height, rest = height + step * v, rest - step * normal
    v = rest + (rest @ rest) / squared * v
after, d_height = gradient(**given, height=height)
print(f"half the sum of squares {float(before):.1f} --> {float(after):.3f}")

matrix = np.zeros((rows, stations))
matrix[np.repeat(np.arange(rows), np.diff(given["start"])), given["column"]] = given["value"]
np.testing.assert_allclose(height, np.linalg.lstsq(matrix, given["measured"], rcond=None)[0], rtol=1e-6)
print("right: the heights are those of least squares")
