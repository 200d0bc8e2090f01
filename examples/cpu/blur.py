"""Box blur 3 x 3: eight rows at a time over the whole width; the rows of the first stage stay in registers."""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1 = tm.iters("r c r0 r1")
THIRD = np.float32(1 / 3)


def algorithm() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Sums of three, times a third: across, and then down."""
    f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    across = f.computation("across", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) * THIRD)
    by = f.computation("by", {r: R, c: C}, (across[r, c] + across[r + 1, c] + across[r + 2, c]) * THIRD)
    f.outputs(by)
    return f, across, by


def scheduled() -> tm.Function:
    """A vector of eight rows from ten of the first stage, which no memory holds."""
    f, across, by = algorithm()
    by.split(r, 8, r0, r1)
    by.reorder(r0, c, r1)
    by.parallelize(r0)
    by.vectorize(c, 16)
    by.unroll(r1)
    across.compute_at(by, c)
    across.unroll(r)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A random picture with a border."""
    return {"image": np.random.default_rng(0).random((rows + 2, columns + 2), dtype=np.float32)}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
