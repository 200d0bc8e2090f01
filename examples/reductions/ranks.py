"""A sum over four ranks in a fixed order: each adds up its block of terms, and partial results are combined by halves.

Blocks have a constant size, so that the bits follow from the sizes alone. `mpirun` runs such a program; here the ranks
are simulated, so that nothing is needed but this process.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

(R,) = tm.params("R")
r, k, q, j = tm.iters("r k q j")
RANKS, SHARE = 4, 257


def scheduled() -> tm.Function:
    """Sums of columns; the rows are distributed."""
    f = tm.Function("columns", params=[R])
    x = f.input("x", tm.float32, [RANKS * SHARE, R])
    total = f.reduction("total", {r: R}, {k: RANKS * SHARE}, tm.sum, x[k, r], determinism="everywhere")
    f.outputs(total)
    x.distribute([k, r], rank=k // SHARE)
    total.update.split(k, SHARE, q, j)
    total.update.reorder(q, j, r)
    total.update.tag_distribute(q, combine=tm.TREE)
    return f


def by_halves(x: np.ndarray) -> np.ndarray:
    """The same in NumPy: rows one after another on each rank, then ranks 2 and 3 to 0 and 1, then 1 to 0."""
    parts = []
    for block in np.split(x, RANKS):
        part = np.zeros(x.shape[1], np.float32)
        for row in block:
            part += row
        parts.append(part)
    return np.asarray((parts[0] + parts[2]) + (parts[1] + parts[3]))


def main() -> None:
    """Compare with NumPy in the same order, bit for bit, and with float64."""
    f = scheduled()
    print(f.check())
    for columns in (0, 1, 33):
        x = np.random.default_rng(columns).standard_normal((RANKS * SHARE, columns), np.float32)
        found = f.simulate(RANKS, x=x)
        np.testing.assert_array_equal(found, by_halves(x))
        np.testing.assert_allclose(found, x.sum(0, dtype=np.float64), atol=1e-3)
    print(f"right: a sum over {RANKS} ranks has the bits of its order")


if __name__ == "__main__":
    main()
