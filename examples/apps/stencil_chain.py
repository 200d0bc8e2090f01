"""A chain of 32 stencils of 5 x 5 pixels in 16 bits: rows slide through all of them."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from story import Arguments, Array, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1, c0, c1 = tm.iters("r c r0 r1 c0 c1")
STAGES = 32
WEIGHTS = np.outer(np.arange(1, 6), np.arange(1, 6)).astype(np.uint16)
CLOSE = 0


def algorithm(stages: int = STAGES) -> tm.Function:
    """Each stage is a weighted sum of 25 neighbours in the one before, modulo 2 ** 16; the first repeats the edge."""
    f = tm.Function("stencil_chain", params=[R, C], assume="R >= 1 and C >= 1")
    stage = f.computation("stage_0", [r, c], tm.boundary.repeat_edge(f.input("image", tm.uint16, [R, C]))[r, c])
    for s in range(1, stages + 1):
        terms = [stage[r + d, c + e] * WEIGHTS[d + 2, e + 2] for d in range(-2, 3) for e in range(-2, 3)]
        stage = f.computation(f"stage_{s}", [r, c] if s < stages else {r: R, c: C}, reduce(add, terms))
    f.outputs(stage)
    return f


def scheduled(
    cpu: tm.Target | None = None, stages: int = STAGES, *, band: int = 800, strip: int = 0, vectors: int = 1
) -> tm.Function:
    """Bands of rows, in which a row of every stage follows the one before; the last five rows of each are kept.

    With a `strip`, a band is computed in strips of so many columns.
    """
    lanes = vectors * (cpu or tm.target()).lanes(tm.uint16)
    f = algorithm(stages)
    out = f[f"stage_{stages}"]
    out.split(r, band, r0, r1)
    out.parallelize(r0)
    if strip:
        out.split(c, strip, c0, c1).reorder(r0, c0, r1, c1)
    out.vectorize(c1 if strip else c, lanes, remainder="mask")
    for s in reversed(range(stages)):
        stage = f[f"stage_{s}"]
        stage.compute_at(out, r1)
        stage.slide(r1)
        stage.vectorize(c, lanes, remainder="pad" if s else "mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A random picture."""
    return {"image": np.random.default_rng(0).integers(0, 1 << 16, (rows, columns), dtype=np.uint16)}


def exact(given: Arguments) -> Array:
    """The same sums, one whole picture after another, in 64 bits."""
    picture = np.pad(given["image"].astype(np.int64), 2 * STAGES, "edge")
    for _ in range(STAGES):
        windows = np.lib.stride_tricks.sliding_window_view(picture, (5, 5))
        picture = np.einsum("rcij,ij->rc", windows, WEIGHTS.astype(np.int64)) % (1 << 16)
    return picture.astype(np.uint16)


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE)
