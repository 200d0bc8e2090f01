"""Gaussian 5 x 5 in two stages: eight rows at a time over the whole width; the first stage stays in registers."""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1 = tm.iters("r c r0 r1")
OUTER, INNER, CENTRE = (np.float32(w) for w in (0.0625, 0.25, 0.375))


def weighted(at: list[tm.Expr]) -> tm.Expr:
    """Weights 1 4 6 4 1, scaled to 1, with three multiplications for five terms."""
    return (at[0] + at[4]) * OUTER + (at[1] + at[3]) * INNER + at[2] * CENTRE


def algorithm() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Five weights across, then five down."""
    f = tm.Function("gauss", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 4, C + 4])
    across = f.computation("across", {r: R + 4, c: C}, weighted([image[r, c + d] for d in range(5)]))
    smooth = f.computation("smooth", {r: R, c: C}, weighted([across[r + d, c] for d in range(5)]))
    f.outputs(smooth)
    return f, across, smooth


def scheduled() -> tm.Function:
    """A vector of eight rows from twelve of the first stage, which no memory holds."""
    f, across, smooth = algorithm()
    smooth.split(r, 8, r0, r1)
    smooth.reorder(r0, c, r1)
    smooth.parallelize(r0)
    smooth.vectorize(c, 16)
    smooth.unroll(r1)
    across.compute_at(smooth, c)
    across.unroll(r)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A random picture with a border."""
    return {"image": np.random.default_rng(0).random((rows + 4, columns + 4), dtype=np.float32)}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
