"""A sum over four ranks in a fixed order: each adds up its block of terms, and partial results are combined by halves.

Blocks have a constant size, so that the bits follow from the sizes alone. Ranks with a GPU add up their blocks there:
`rfactor` makes a value of what each rank has, which its GPU computes, and ranks combine these on the host. `mpirun`
runs such programs; here the ranks are simulated, so that nothing is needed but this process.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

(R,) = tm.params("R")
r, k, q, j, rounds, t = tm.iters("r k q j rounds t")
RANKS, SHARE, THREADS = 4, 130, 32


def scheduled() -> tm.Function:
    """Sums of columns; the rows are distributed."""
    f = tm.Function("columns", params=[R])
    x = f.input("x", tm.float32, [RANKS * SHARE, R])
    total = f.reduction("total", {r: R}, {k: RANKS * SHARE}, tm.sum, x[k, r], determinism="everywhere")
    f.outputs(total)
    x.distribute_array([k, r], rank=k // SHARE)
    total.update.split(k, SHARE, q, j)
    total.update.reorder(q, j, r)
    total.update.tag_distribute(q, combine=tm.TREE)
    return f


def on_gpus() -> tm.Function:
    """The same with the terms of each rank added up on its GPU, in a tree of the threads of a block."""
    f = tm.Function("columns_on_gpus", params=[R])
    x = f.input("x", tm.float32, [RANKS * SHARE, R])
    total = f.reduction("total", {r: R}, {k: RANKS * SHARE}, tm.sum, x[k, r], determinism="everywhere")
    f.outputs(total)
    x.distribute_array([k, r], rank=k // SHARE)
    total.update.split(k, SHARE, q, j)
    part = total.update.rfactor(q, name="part")
    part.init.reorder(q, r)
    part.update.reorder(q, r, k)
    part.tag_distribute(q)
    part.update.split(k, THREADS, rounds, t)
    part.init.tag_gpu(blocks=[r])
    part.update.tag_gpu(blocks=[r], threads=[t], combine=tm.TREE)
    total.update.tag_distribute(q, combine=tm.TREE)
    f.derive_transfers()
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
    f, with_gpus = scheduled(), on_gpus()
    for each in (f, with_gpus):
        print(each.check())
    for columns in (0, 1, 5):
        x = np.random.default_rng(columns).standard_normal((RANKS * SHARE, columns), np.float32)
        found = f.simulate(RANKS, x=x)
        np.testing.assert_array_equal(found, by_halves(x))
        on_their_gpus = with_gpus.simulate(RANKS, x=x)
        np.testing.assert_array_equal(on_their_gpus, with_gpus.evaluate(x, as_scheduled=True))
        for each in (found, on_their_gpus):
            np.testing.assert_allclose(each, x.sum(0, dtype=np.float64), atol=1e-3)
    print(f"right: sums over {RANKS} ranks, and over their GPUs, have the bits of their order")


if __name__ == "__main__":
    main()
