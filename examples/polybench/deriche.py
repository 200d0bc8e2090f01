"""deriche: Deriche's recursive filter of a picture: along each row both ways and added, then along each column."""

from __future__ import annotations

from math import exp

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

W, H = tm.params("W H")
i, j, i0, i1, j0, j1 = tm.iters("i j i0 i1 j0 j1")
ALPHA, CLOSE = 0.25, 1e-5
E1, E2 = exp(-ALPHA), exp(-2 * ALPHA)
K = (1 - E1) ** 2 / (1 + 2 * ALPHA * E1 - exp(2 * ALPHA))
FORWARD = [np.float32(c) for c in (K, K * E1 * (ALPHA - 1))]  # of this value, and of the one before
BACKWARD = [np.float32(c) for c in (K * E1 * (ALPHA + 1), -K * E2)]  # of the next value, and of the one after it
BEFORE = [np.float32(c) for c in (2**-ALPHA, -E2)]  # of the last result, and of the one before it
SIZES: dict[str, Sizes] = {
    "ONE": {"W": 1, "H": 1},
    "ODD": {"W": 67, "H": 35},
    "MINI": {"W": 64, "H": 64},
    "SMALL": {"W": 192, "H": 128},
    "LARGE": {"W": 4096, "H": 2160},
}


def algorithm() -> tm.Function:
    """Four recurrences of second order, which begin with zeros outside of the picture."""
    f = tm.Function("deriche", params=[W, H], assume="W >= 1 and H >= 1")
    x = f.input("x", tm.float32, [W, H])
    none = np.float32(0)

    def filtered(
        name: str, source: tm.Computation | tm.Input, along: tm.Iter, extent: tm.Expr, step: int
    ) -> tm.Computation:
        def at(values: tm.Computation | tm.Input, by: int) -> tm.Expr:
            index = [i + by * (along is i), j + by * (along is j)]
            inside = along + by >= 0 if by < 0 else along + by < extent
            return tm.select(inside, values[index[0], index[1]], none) if by else values[i, j]

        def recurrence(y: tm.Computation) -> tm.Expr:
            given = [at(source, 0), at(source, -1)] if step < 0 else [at(source, 1), at(source, 2)]
            weights = FORWARD if step < 0 else BACKWARD
            terms = [*zip(weights, given, strict=True), *zip(BEFORE, (at(y, step), at(y, 2 * step)), strict=True)]
            first, *rest = (weight * value for weight, value in terms)
            return sum(rest, first)

        return f.computation(name, {i: W, j: H}, recurrence)

    right, left = filtered("right", x, j, H, -1), filtered("left", x, j, H, 1)
    rows = f.computation("rows", {i: W, j: H}, right[i, j] + left[i, j])
    down, up = filtered("down", rows, i, W, -1), filtered("up", rows, i, W, 1)
    f.outputs(f.computation("out", {i: W, j: H}, down[i, j] + up[i, j]))
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Eight rows side by side, there and back; then blocks of columns in vectors, down and up, in the cache."""
    lanes = (cpu or tm.target()).lanes(tm.float32)
    f = algorithm()
    right, left, rows, down, up, out = (f[name] for name in ("right", "left", "rows", "down", "up", "out"))
    lines, columns = ("i0 = floor(i / 8)", "i1 = i mod 8"), (f"j0 = floor(j / {4 * lanes})", f"j1 = j mod {4 * lanes}")
    for part, along in ((right, "j"), (left, "back = -j"), (rows, "back = -j")):
        part.set_schedule(f"{{ [i, j] -> [{lines[0]}, {along}, {lines[1]}] }}")
    for part, along in ((down, "i"), (up, "back = -i"), (out, "back = -i")):
        part.set_schedule(f"{{ [i, j] -> [{columns[0]}, {along}, {columns[1]}] }}")
    for there, again, both, block, step in ((right, left, rows, i0, i1), (down, up, out, j0, j1)):
        f.order(there, again, at=block)
        f.order(again, both, at=step)
        for part in (there, again):
            part.store_at(both, block)
        both.parallelize(block)
    for part in (right, rows):
        part.unroll(i1)
    for part in (down, out):
        part.vectorize(j1, lanes, remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's picture."""
    w, h = sizes["W"], sizes["H"]
    picture = np.fromfunction(lambda r, c: (313 * r + 991 * c) % 65536 / 65535, (w, h))
    return {"x": picture.astype(np.float32)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """The filter in float64, all rows or all columns at once."""
    x = given["x"].astype(np.float64)
    for _ in range(2):  # along rows, then along columns: each pass transposes the picture
        x = x.T
        x = one_way(x, [K, K * E1 * (ALPHA - 1), 0]) + one_way(x[::-1], [0, K * E1 * (ALPHA + 1), -K * E2])[::-1]
    return (x,)


def one_way(x: Array, weights: list[float]) -> Array:
    """A recurrence of second order along the first dimension."""
    y = np.zeros((len(x) + 2, x.shape[1]))
    padded = np.concatenate([np.zeros((2, x.shape[1])), x])
    for n in range(2, len(y)):
        terms = sum(weight * padded[n - back] for back, weight in enumerate(weights))
        y[n] = terms + 2**-ALPHA * y[n - 1] - E2 * y[n - 2]
    return y[2:]


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
