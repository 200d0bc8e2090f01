"""Sums of rows whose terms are on two GPUs: `rfactor` makes a partial result of each GPU, and the host adds them.

Each GPU gets its half of the columns, and a block of it adds up a row in a tree; copies and waits are derived. Without
two GPUs this runs on two simulated ones.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

(R,) = tm.params("R")
r, k, gpu, rest, rounds, t = tm.iters("r k gpu rest rounds t")
HALF, THREADS = 1024, 128


def scheduled() -> tm.Function:
    """One half of the terms on each GPU."""
    f = tm.Function("rows", params=[R])
    a = f.input("a", tm.float32, [R, 2 * HALF])
    total = f.reduction("total", {r: R}, {k: 2 * HALF}, tm.sum, a[r, k], determinism="everywhere")
    f.outputs(total)
    total.update.split(k, HALF, gpu, rest)
    part = total.update.rfactor(gpu, name="part")
    part.init.reorder(gpu, r)
    part.update.reorder(gpu, r, k)
    halves = zip(part.init.separate_at(gpu, [1]), part.update.separate_at(gpu, [1]), strict=True)
    for device, (init, update) in enumerate(halves):
        update.split(k, THREADS, rounds, t)
        init.tag_gpu(blocks=[r], device=device)
        update.tag_gpu(blocks=[r], threads=[t], combine=tm.TREE, device=device)
    f.derive_transfers()
    return f


def main() -> None:
    """Compare with NumPy in float64, and the bits with those of the schedule."""
    f = scheduled()
    print(f.check())
    assert f.show("lowered").gpus.devices == 2
    kernel = f.compile(device="gpu" if tm.gpu_count() > 1 else "simulator")
    for rows in (0, 1, 7):
        a = np.random.default_rng(rows).standard_normal((rows, 2 * HALF), np.float32)
        np.testing.assert_allclose(kernel(a), a.sum(1, dtype=np.float64), atol=1e-3)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a, as_scheduled=True))
    print("right: sums over two GPUs are those of NumPy, in the order of the schedule")


if __name__ == "__main__":
    main()
