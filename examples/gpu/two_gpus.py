"""Box blur on two GPUs: the upper half of the rows on the first, the rest on the second, at the same time."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
HALF = 48


def halves() -> tm.Function:
    """Each GPU gets the rows of the picture that its part needs; both GPUs get two of the rows."""
    f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    bx.inline()
    for device, part in enumerate(by.separate_at(r, [HALF])):
        part.tile(r, c, 4, 64, r0, c0, r1, c1).tag_gpu([r0, c0], [r1, c1], device=device)
    f.derive_transfers()
    return f


VARIANTS = {"halves": halves}


def sample(size: int, seed: int) -> dict[str, np.ndarray]:
    """A random picture."""
    return {"image": np.random.default_rng(seed).random((size + 2, size + 7), dtype=np.float32)}


if __name__ == "__main__":
    tell(VARIANTS, sample, (1, 100))
