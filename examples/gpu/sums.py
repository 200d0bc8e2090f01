"""Sums on a GPU: each term added atomically, and a tree in each block with one atomic addition at its end."""

from __future__ import annotations

import numpy as np
from story import tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, b, t, s = tm.iters("i b t s")


def algorithm() -> tuple[tm.Function, tm.Reduction]:
    """The sum of all elements."""
    f = tm.Function("sums", params=[N])
    a = f.input("a", tm.int32, [N])
    total = f.reduction("total", {}, {i: N}, tm.sum, a[i])
    f.outputs(total)
    return f, total


def atomic() -> tm.Function:
    """Each thread adds its terms one by one, atomically."""
    f, total = algorithm()
    total.update.split(i, 256, b, t)
    total.tag_gpu(blocks=[b], threads=[t], combine=tm.ATOMIC)
    f.derive_transfers()
    return f


def tree() -> tm.Function:
    """Each thread sums 16 terms, a block combines its threads pairwise, and adds its result atomically."""
    f, total = algorithm()
    total.update.split(i, 4096, b, i)
    total.update.split(i, 256, s, t)
    total.tag_gpu(blocks=[b], threads=[t], combine=tm.TREE)
    f.derive_transfers()
    return f


VARIANTS = {"atomic": atomic, "tree": tree}


def sample(size: int, seed: int) -> dict[str, np.ndarray]:
    """Random integers: their sum does not depend on the order."""
    return {"a": np.random.default_rng(seed).integers(-99, 100, size * size, dtype=np.int32)}


if __name__ == "__main__":
    tell(VARIANTS, sample, (0, 1, 100))
